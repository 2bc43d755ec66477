"""The checks of the trust table about network cards and interrupts: each yields the places where they break it."""

from __future__ import annotations

from collections.abc import Iterator

from latlab.analysis.evidence import Broken, Evidence, checks
from latlab.analysis.late import held_up, speed_counts, vm_hosts
from latlab.analysis.trust_readings import fact, listed, pinned
from latlab.analysis.words import duration, percent
from latlab.model.part import Facts

_SKIPPED = ("tx_hwtstamp_skipped", "tx_hwtstamp_timeouts", "rx_hwtstamp_cleared")
"""Timestamps that a driver did not hand over, as Intel's count them (`ethtool -S`): the one before was still being read
(skipped), or nothing came of it (timeouts, cleared)."""


@checks("irq-moved")
def interrupts_stayed(evidence: Evidence) -> Iterator[Broken]:
    """Measured interfaces whose interrupts may go to other CPUs after the cell than before it, or are others."""
    for host, name, before, after in _interfaces(evidence):
        irqs = before.get("irqs") or []
        if after.get("irqs") is not None and after["irqs"] != irqs:
            yield Broken(
                f"{host}.{name}",
                f"interrupt{'s' if len(irqs) != 1 else ''} {_numbers(irqs)}",
                f"{_numbers(after['irqs'])} afterwards",
            )
            continue
        for irq in irqs:
            then, now = (
                fact(facts.get(host, {}), "interrupts", "irqs", str(irq), "affinity")
                for facts in (evidence.facts_before, evidence.facts_after)
            )
            if then and now and then != now:
                yield Broken(f"{host}.{name}, interrupt {irq}", listed(then), f"{listed(now)} afterwards")


@checks("irqbalance")
def nothing_moves_interrupts(evidence: Evidence) -> Iterator[Broken]:
    """Hosts with late packets and network cards on which irqbalance runs."""
    for host, late in held_up(evidence).items():
        facts = evidence.facts_before.get(host, {})
        cards = [name for name, one in (fact(facts, "interfaces") or {}).items() if one.get("irqs")]
        if cards and fact(facts, "processes", "irqbalance"):
            yield Broken(f"{host} ({late.where})", f"the interrupts of {', '.join(cards)} not moved", "irqbalance runs")


@checks("irq-cpus")
def interrupts_have_other_cpus(evidence: Evidence) -> Iterator[Broken]:
    """Measured threads, of late packets, on whose CPU a network card's interrupts came while the cell ran."""
    held = held_up(evidence)
    for host, name, before, _ in _interfaces(evidence):
        if host not in held:
            continue
        for irq in before.get("irqs") or ():
            for thread in pinned(evidence, host):
                for cpu in sorted(thread.cpus):
                    if came := _came(evidence, host, irq, cpu):
                        where = f"{host}.{name} ({held[host].where})"
                        yield Broken(
                            where,
                            f"other CPUs than {thread.name}'s",
                            f"interrupt {irq} came {_times(came)} on CPU {cpu}",
                        )


@checks("irq-coalescing")
def coalescing_is_small(evidence: Evidence) -> Iterator[Broken]:
    """Interfaces whose interrupts wait for more packets, for long next to the latency of streams that end there."""
    if not speed_counts(evidence):
        return
    share = evidence.thresholds.coalescing_share
    for stream in evidence.cell.streams:
        measured = evidence.streams.get(stream.name)
        latency = measured.metrics.get("latency") if measured else None
        median = abs((latency and latency.p50) or 0)
        near = {stream.listener} | vm_hosts(evidence, (stream.listener,))
        for host, name, before, after in _interfaces(evidence) if median else ():
            waited_ns = 1_000 * (fact(before, "coalescing", "rx_us") or 0)
            if host in near and waited_ns > share * median and _received(before, after) >= (stream.count or 0):
                expected = f"at most {percent(share)} of {stream.name}'s median latency, {duration(median)}"
                yield Broken(f"{host}.{name}", expected, f"interrupts wait for {duration(waited_ns)} (rx-usecs)")


@checks("eee-off")
def links_do_not_rest(evidence: Evidence) -> Iterator[Broken]:
    """Measured interfaces whose link rests while nothing is sent (Energy-Efficient Ethernet, IEEE 802.3 clause 78)."""
    for host, name, before, _ in _interfaces(evidence) if speed_counts(evidence) else ():
        if fact(before, "energy_efficient_ethernet", "active"):
            yield Broken(f"{host}.{name}", "Energy-Efficient Ethernet off", "in force: the link wakes for each packet")


@checks("card-timestamps")
def cards_gave_every_timestamp(evidence: Evidence) -> Iterator[Broken]:
    """Measured interfaces whose driver counted timestamps that it did not hand over."""
    for host, name, before, after in _interfaces(evidence) if speed_counts(evidence) else ():
        then, now = (one.get("driver_statistics") or {} for one in (before, after))
        missed = {key: now[key] - then[key] for key in _SKIPPED if key in then and now.get(key, 0) > then[key]}
        if missed:
            yield Broken(f"{host}.{name}", "none", ", ".join(f"{key} {count}" for key, count in missed.items()))


@checks("link-up")
def links_stayed_up(evidence: Evidence) -> Iterator[Broken]:
    """Measured interfaces whose carrier came or went between the facts."""
    for host, name, before, after in _interfaces(evidence):
        then, now = before.get("carrier_changes"), after.get("carrier_changes")
        if then is not None and now is not None and now != then:
            changes = f"it changed {_times(now - then)}"
            yield Broken(f"{host}.{name}", "a link that is up from before the streams until after them", changes)


def _interfaces(evidence: Evidence) -> Iterator[tuple[str, str, Facts, Facts]]:
    """(host, name, facts before, facts after) of every measured interface that was there."""
    for host, facts in evidence.facts_before.items():
        for name, before in (fact(facts, "interfaces") or {}).items():
            yield host, name, before, fact(evidence.facts_after.get(host, {}), "interfaces", name) or {}


def _came(evidence: Evidence, host: str, irq: int, cpu: int) -> int:
    """How often an interrupt came on a CPU between the facts."""
    then, now = (
        fact(facts.get(host, {}), "interrupts", "irqs", str(irq), "cpu_counts")
        for facts in (evidence.facts_before, evidence.facts_after)
    )
    if then is None or now is None:
        return 0
    return int(now.get(str(cpu), 0) - then.get(str(cpu), 0))


def _received(before: Facts, after: Facts) -> int:
    """Packets that came in by an interface between the facts."""
    then, now = fact(before, "statistics", "rx_packets"), fact(after, "statistics", "rx_packets")
    return int(now - then) if then is not None and now is not None else 0


def _numbers(irqs: list[int]) -> str:
    return ", ".join(map(str, irqs)) or "none"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
