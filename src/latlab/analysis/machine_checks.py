"""The checks of the trust table about memory, the tick and the kernel's own words: each yields where they break it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from latlab.analysis.counts import counted
from latlab.analysis.evidence import Broken, Evidence, checks
from latlab.analysis.late import held_up, speed_counts, vm_hosts
from latlab.analysis.trust_readings import MEASURING, counters, fact, vcpus
from latlab.analysis.words import duration, plural
from latlab.model.part import Facts

_SECOND_NS: Final = 1_000_000_000
_GRAVE: Final = frozenset({"oops", "out_of_memory"})
"""What is no matter of speed: it counts in emulation, too."""
_MOVED: Final = {
    "compaction_stalls": "stalls of compaction",
    "huge_pages_collapsed": "huge pages collapsed from small ones",
}


@checks("memory-locked")
def memory_is_locked(evidence: Evidence) -> Iterator[Broken]:
    """Talkers and listeners of late packets whose pages may be taken away."""
    held = held_up(evidence)
    for agent in evidence.cell.agents:
        realtime = agent.realtime
        if agent.verb in MEASURING and agent.host in held and realtime.memory_locked is False:
            yield Broken(f"{agent.name} ({held[agent.host].where})", "memory locked", "not locked")


@checks("swapping")
def nothing_was_swapped(evidence: Evidence) -> Iterator[Broken]:
    """Hosts with late packets that read pages back from swap meanwhile."""
    held = held_up(evidence)
    for host, before, after in counters(evidence, "memory", "swapped_in_pages"):
        if host in held and after > before:
            yield Broken(f"{host} ({held[host].where})", "no page read back from swap", plural(after - before, "page"))


@checks("memory-moved")
def no_memory_was_moved(evidence: Evidence) -> Iterator[Broken]:
    """Hosts with late packets that moved pages about meanwhile, to make huge ones of them."""
    for host, late in held_up(evidence).items():
        grown = {
            words: after - before
            for key, words in _MOVED.items()
            for name, before, after in counters(evidence, "memory", key)
            if name == host
        }
        if said := counted(grown):
            yield Broken(f"{host} ({late.where})", "no pages moved", said)


@checks("guest-memory")
def guests_keep_their_memory(evidence: Evidence) -> Iterator[Broken]:
    """Guests whose memory became more or less meanwhile, and those of late packets from which it can be taken."""
    held = held_up(evidence)
    for guest in evidence.cell.guests:
        name = guest.name
        sizes = [
            fact(facts.get(name, {}), "memory", "total_bytes")
            for facts in (evidence.facts_before, evidence.facts_after)
        ]
        modules = fact(evidence.facts_before.get(name, {}), "kernel", "modules") or ()
        if None not in sizes and sizes[0] != sizes[1]:
            yield Broken(name, f"{sizes[0]} bytes of memory", f"{sizes[1]} afterwards")
        elif name in held and "virtio_balloon" in modules:
            yield Broken(f"{name} ({held[name].where})", "no balloon", "its kernel has loaded virtio_balloon")


@checks("timer-tick")
def streams_are_out_of_step(evidence: Evidence) -> Iterator[Broken]:
    """Streams through virtual machines, or in virtual time, whose period is a multiple or a divisor of a timer tick.

    Each of their packets meets the tick of that kernel at the same phase, or at one of a few: whether it comes before
    or after the tick is then the same for all of them, and decides how late they are. A CPU without a tick has none.
    """
    virtual = bool(evidence.cell.instructions_per_ns)
    if not virtual and not speed_counts(evidence):
        return
    guests = {guest.name for guest in evidence.cell.guests}
    for stream in evidence.cell.streams:
        if stream.period_ns is None or stream.leg == "down" or stream.tool:
            continue  # a closed loop drifts past every tick, and answers come as their questions do
        ends = (stream.talker, stream.listener)
        hosts = (set(ends) if virtual else set(ends) & guests) | vm_hosts(evidence, ends)
        for host in sorted(hosts):
            rate = _ticks_a_second(evidence.facts_before.get(host, {}))
            if rate and _in_step(stream.period_ns, rate) and not _is_tickless(evidence, host):
                tick = duration(_SECOND_NS / rate)
                expected = f"a period that is neither a multiple nor a divisor of the tick, {tick}"
                yield Broken(f"stream {stream.name}, {host}", expected, duration(stream.period_ns))


@checks("kernel-complaints")
def kernels_did_not_complain(evidence: Evidence) -> Iterator[Broken]:
    """Hosts whose kernel's log has new lines of what makes packets late."""
    for host, facts in evidence.facts_before.items():
        before = fact(facts, "kernel", "complaints") or {}
        after = fact(evidence.facts_after.get(host, {}), "kernel", "complaints") or {}
        told = {
            name: max(0, count - before.get(name, 0))  # a full log has lost its oldest lines
            for name, count in after.items()
            if before and (name in _GRAVE or speed_counts(evidence))
        }
        if said := counted(told):
            yield Broken(host, "no such line in the kernel's log", said)


def _ticks_a_second(facts: Facts) -> int | None:
    """CONFIG_HZ, by the tick's period or the kernel's configuration; None if neither is known."""
    tick_ns: int | None = fact(facts, "clock", "tick_ns")
    if tick_ns:
        return round(_SECOND_NS / tick_ns)
    configured = str(fact(facts, "kernel", "config", "CONFIG_HZ") or "")
    return int(configured) if configured.isdigit() and int(configured) else None


def _in_step(period_ns: int, rate: int) -> bool:
    """Whether a period is a multiple or a divisor of 1 / rate, in whole numbers: of 300 a second, too."""
    ticks = period_ns * rate
    return ticks % _SECOND_NS == 0 or _SECOND_NS % ticks == 0


def _is_tickless(evidence: Evidence, host: str) -> bool:
    """Whether all that runs there for the streams is on CPUs without a tick (nohz_full)."""
    tickless = set(fact(evidence.facts_before.get(host, {}), "cpu", "nohz_full") or ())
    used: list[set[int]] = [set(thread.get("cpus") or ()) for _, thread in vcpus(evidence, host)]
    for agent in evidence.cell.agents:
        if agent.host == host and agent.verb in MEASURING:
            used.append(set(agent.realtime.cpus or ()))
    return bool(used) and all(cpus and cpus <= tickless for cpus in used)
