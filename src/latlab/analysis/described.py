"""What a stream is, for readers of its figures: how it was sent, what its clocks are known by, whose probe it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from latlab.analysis.way import ONE_CLOCK
from latlab.analysis.words import duration
from latlab.model.clock_sources import ONE_KERNEL, source_named
from latlab.recordings.cell import (
    AskedOfProbe,
    ClockEdge,
    Ready,
    RecordedCell,
    RecordedProbe,
    RecordedStream,
    TimerReady,
)
from latlab.recordings.clock_offset import find_chain
from latlab.result.types import ProbeOf

TRANSPORTS: Final = {"udp": "UDP", "tcp": "TCP", "ethernet": "raw frames"}
_TAKEN_BY: Final = {
    "listener": "Cyclone's receiving thread",
    "waitset": "a thread that sleeps in a waitset",
    "spin": "a thread that polls",
}
_WAITS: Final = {"nanosleep": "clock_nanosleep", "timerfd": "a timerfd"}
_CLOSED: Final = "closed loop: each answer triggers the next question, so a stall counts once"


def clock_source(clocks: Sequence[ClockEdge], talker: str, listener: str) -> str | None:
    """Where the offset of two hosts' clocks is known from, as `shared page`; None if nothing bounds it.

    clocks: cell.json's. It names the sources of the edges that join the two, in their order; a shared kernel is named
    where it is all there is. One host has `one clock`. LabError: an entry of clocks is none.
    """
    if talker == listener:
        return ONE_CLOCK
    chain = find_chain(clocks, listener, talker)
    if chain is None:
        return None
    found = dict.fromkeys(
        str(entry.source) for edge in chain for entry in clocks if {entry.from_, entry.to} == {edge.from_, edge.to}
    )
    return " + ".join(source for source in found if not source_named(source).is_exact) or ONE_KERNEL.name


def sent_as(stream: RecordedStream) -> str | None:
    """What a stream's packets are, as `UDP over the VLAN interface eth0.5`; None of a probe, and where it is not known.

    stream: cell.json's.
    """
    what = TRANSPORTS.get(str(stream.transport))
    if what is None or stream.probe:
        return None
    interface = stream.interface
    if stream.queue != str(interface):
        return f"{what} over the VLAN interface {interface}"
    return what if stream.vlan is None else f"{what} in VLAN {stream.vlan}"


def probe_of(cell: RecordedCell, name: str) -> ProbeOf | None:
    """Of which probe a name's figures are, the whole or a leg; None of a stream's. told: a sentence."""
    probes = {one.name: one for one in cell.probes}
    streams = {one.name: one for one in cell.streams}
    stream = streams.get(name)
    probe = probes.get(stream.probe or name if stream else name)
    if probe is None:
        return None
    some = stream or streams.get(f"{name}.up")
    frames = (some and some.frames) or 1
    return ProbeOf(
        name=probe.name,
        kind=probe.probe,
        from_=probe.from_,
        to=probe.to,
        leg=stream.leg if stream else None,
        period_ns=probe.period_ns,
        frames=frames,
        told=_timer_told(cell, probe) if stream and stream.timer else _told(probe, frames),
    )


def _over_dds(asked: AskedOfProbe, cyclone: str | None) -> str:
    """How samples are sent and taken. cyclone: the version of what sends them, of our own probe."""
    own = f"over Cyclone DDS {cyclone}, " if cyclone else ""
    return f"{own}{'reliable' if asked.reliable else 'best effort'}, samples taken by {_TAKEN_BY[asked.take]}"


def _timer_told(cell: RecordedCell, probe: RecordedProbe) -> str:
    """How it waits, on which clock, what makes its interrupt, and whether the kernel reports when that ran."""
    ready = next((agent.said for agent in cell.agents if agent.probe == probe.name), Ready())
    timer, asked = ready.timer or TimerReady(), probe.asked
    by = _WAITS.get(asked.how, asked.how) + (f" on {timer.clock}" if timer.clock else "")
    told = [f"an expiry every {duration(probe.period_ns or 0)}, by {by}"]
    if timer.event_device:
        tick = f", counted in ticks of {timer.tick_ns:.4g} ns" if timer.tick_ns else ""
        told.append(f"its interrupt comes from {timer.event_device}{tick}")
    if problem := ready.trace_problem:
        told.append(f"the time of that interrupt is not known: {problem.what}")
    elif ready.timer and not timer.traced:
        told.append("the time of that interrupt was not recorded")
    return "; ".join(told)


def _told(probe: RecordedProbe, frames: int) -> str:
    asked = probe.asked
    via = TRANSPORTS.get(str(asked.transport), str(asked.test))
    if "domain" in asked.model_fields_set:
        via = _over_dds(asked, probe.cyclone)
    by = " ".join(filter(None, (probe.probe, probe.version if probe.tool else "", via)))
    period_ns = probe.period_ns
    tool = probe.tool
    if tool is None:
        rate = (
            "a question every {}, independent of the answers: a round trip counts from the instant at which its "
            "question was due"
        )
        loop = rate.format(duration(period_ns)) if period_ns else _CLOSED
        many = f"; each packet is sent in {frames} frames" if frames > 1 else ""
        is_bare = asked.timestamps == "user" and asked.transport in ("udp", "ethernet")
        return f"{by}; {loop}{many}" + ("; without the kernel's timestamps" if is_bare else "")
    loop = f"a message every {duration(period_ns)}" if period_ns else _CLOSED
    if probe.from_ == probe.to:
        loop = f"an expiry every {duration(period_ns or 0)}"
    return "; ".join((by, loop, f"its latency: {tool.latency}", *tool.notes))
