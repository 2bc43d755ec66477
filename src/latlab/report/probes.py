"""What is to be said of probes with their figures: at which rate or in a closed loop, and what a tool counts from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import polars as pl

from latlab.analysis.imported import no_counts, packet_figures, summed_up
from latlab.analysis.words import duration
from latlab.recordings.cell import Asked, Ready, RecordedCell, RecordedProbe, RecordedStream, TimerReady, ToolFigures
from latlab.result.types import Stream

TRANSPORTS: Final = {"udp": "UDP", "tcp": "TCP", "ethernet": "raw frames"}
_TAKEN_BY: Final = {
    "listener": "Cyclone's receiving thread",
    "waitset": "a thread that sleeps in a waitset",
    "spin": "a thread that polls",
}
_WAITS: Final = {"nanosleep": "clock_nanosleep", "timerfd": "a timerfd"}
_CLOSED: Final = "closed loop: each answer starts the next question, so a stall counts once"


def with_tools(document: Mapping[str, Any], cell: RecordedCell, packets: pl.DataFrame | None) -> dict[str, Any]:
    """The cell's part of the result document with what tools measured, from cell.json and the packet table."""
    found = {
        stream.name: _block(cell, stream, packets) for stream in cell.streams if stream.tool and packets is not None
    }
    return {**document, "streams": {**document["streams"], **found}}


def probe_told(cell: RecordedCell, name: str) -> dict[str, Any]:
    """{"probe": …} of what is a probe's: the whole, or a leg; nothing of a stream.

    It has `name`, `kind`, `from`, `to`, `leg`, `period_ns` (None: a closed loop), `frames`, and `told`, a sentence.
    """
    probes = {one.name: one for one in cell.probes}
    streams = {one.name: one for one in cell.streams}
    stream = streams.get(name)
    probe = probes.get(stream.probe or name if stream else name)
    if probe is None:
        return {}
    some = stream or streams.get(f"{name}.up")
    frames = (some and some.frames) or 1
    return {
        "probe": {
            "name": probe.name,
            "kind": probe.probe,
            "from": probe.from_,
            "to": probe.to,
            "leg": stream.leg if stream else None,
            "period_ns": probe.period_ns,
            "frames": frames,
            "told": _timer_told(cell, probe) if stream and stream.timer else _told(probe, frames),
        }
    }


def notes(blocks: Iterable[tuple[str, Stream]]) -> tuple[str, ...]:
    """A line for each probe among these (name, stream's document): what has to be known to read its figures."""
    found: dict[str, dict[str, None]] = {}
    for _, block in blocks:
        if probe := block.probe:
            found.setdefault(probe.name, {})[probe.told] = None
    return tuple(f"{name}: {_together(list(told))}" for name, told in found.items())


def _together(variants: Sequence[str]) -> str:
    """What is said of one probe in several cells: what all say once, and then where they differ."""
    parts = [told.split("; ") for told in variants]
    shared = [part for part in parts[0] if all(part in others for others in parts)]
    own = ["; ".join(part for part in of if part not in shared) for of in parts]
    differing = " · or ".join(filter(None, own))
    where = "in some cells: " if differing and "" in own else ""
    return "; ".join(filter(None, (*shared, where + differing)))


def _block(cell: RecordedCell, stream: RecordedStream, packets: pl.DataFrame | None) -> dict[str, Any]:
    """A tool's stream as any other in the result; what is not known of it is null."""
    probe = next(one for one in cell.probes if one.name == stream.probe)
    if stream.stream and packets is not None:
        figures = packet_figures(stream, packets, None)
    else:
        metrics = {
            one.metric: summed_up(one, None, _intervals(one), None)
            for one in (probe.tool.figures if probe.tool else ())
        }
        figures = {"counts": no_counts(), "metrics": metrics}
    return {"silent": None, "gates": None, "anomalies": None, "windows": None, **figures}


def _over_dds(asked: Asked, cyclone: str | None) -> str:
    """How samples are sent and taken. cyclone: the version of what sends them, of our own probe."""
    own = f"over Cyclone DDS {cyclone}, " if cyclone else ""
    return f"{own}{'reliable' if asked.reliable else 'best effort'}, samples taken by {_TAKEN_BY[asked.take]}"


def _intervals(figures: ToolFigures) -> pl.DataFrame | None:
    """What a tool said of each interval; None of one that did not."""
    return pl.DataFrame(figures.intervals) if figures.intervals else None


def _timer_told(cell: RecordedCell, probe: RecordedProbe) -> str:
    """How it waits, on which clock, what makes its interrupt, and whether the kernel tells when that ran."""
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
        told.append("the time of that interrupt was not requested")
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
            "a question every {}, independent of the answers: a round trip counts from the instant its question was due"
        )
        loop = rate.format(duration(period_ns)) if period_ns else _CLOSED
        many = f"; each packet goes in {frames} frames" if frames > 1 else ""
        is_bare = asked.timestamps == "user" and asked.transport != "tcp"
        return f"{by}; {loop}{many}" + ("; without the kernel's timestamps" if is_bare else "")
    loop = f"a message every {duration(period_ns)}" if period_ns else _CLOSED
    if probe.from_ == probe.to:
        loop = f"an expiry every {duration(period_ns or 0)}"
    return "; ".join((by, loop, f"its latency: {tool.latency}", *tool.notes))
