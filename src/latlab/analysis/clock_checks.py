"""The checks of the trust table about what a kernel counts time with: each yields the places where they break it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from latlab.analysis.evidence import Broken, Evidence, checks
from latlab.analysis.trust_readings import fact, same_kernel
from latlab.recordings.cell import RecordedCell
from latlab.result.types import Metric

_SLOW: Final = frozenset({"acpi_pm", "hpet", "jiffies", "pit", "refined-jiffies"})
"""Clock sources that are devices or ticks: a reading of one takes a microsecond or more, in a guest an exit each."""
_OF_CARDS: Final = (
    "hardware timestamps use the network cards' clocks, which latlab does not compare with each other or with the "
    "system's: synchronise them by PTP (clock: {ptp: …}), whose series shows how well it works; latency_user uses only "
    "the systems' clocks"
)
_OF_A_GUEST: Final = (
    "the agents that compare the guest's clock ran too rarely: use fewer streams and loads, or give them dedicated "
    "CPUs; or compare over the network: clock: {sync: exchange}"
)
_FOR_A_TIME: Final = (
    "the packets that compare the clocks were temporarily lost or delayed: use fewer loads on their link and on the "
    "agents' CPUs"
)
_MILLION: Final = 10**6


def to_bound_clocks(cell: RecordedCell, stream: str, figures: Metric) -> str:
    """What to do about a metric of this stream between two clocks that nothing bounds; empty: what the rule says.

    figures: the metric's, whose two timestamps say whose clocks they are: cards', a guest's, or two systems' that were
    compared, but not all the time.
    """
    if any(end.endswith("_hard") for end in (figures.from_, figures.to)):
        return _OF_CARDS
    ends = {end for one in cell.streams if one.name == stream for end in (one.talker, one.listener)}
    if ends & {guest.name for guest in cell.guests}:
        return _OF_A_GUEST
    return _FOR_A_TIME if figures.n and figures.unbounded else ""


@checks("clock-source")
def clock_source_is_fast(evidence: Evidence) -> Iterator[Broken]:
    """Hosts whose kernel counts time with a slow device, or changed what it counts with."""
    for host, facts in evidence.facts_before.items():
        before = fact(facts, "clock", "source")
        after = fact(evidence.facts_after.get(host, {}), "clock", "source")
        if before and after and before != after:
            yield Broken(host, f"{before} all the time", f"{after} afterwards")
        elif before in _SLOW:
            yield Broken(host, "a counter of the CPU's, such as tsc, kvm-clock or arch_sys_counter", before)


@checks("clock-slewed")
def clocks_kept_their_rates(evidence: Evidence) -> Iterator[Broken]:
    """Hosts at either end of a stream between two kernels whose clock was slewed, where no PTP keeps them alike.

    The rate is that of MONOTONIC, which is steered, against MONOTONIC_RAW, which is not, from each reading to the next.
    """
    if evidence.cell.ptp:
        return
    most = evidence.thresholds.clock_slew_share
    apart = {
        end
        for stream in evidence.cell.streams
        for end in (stream.talker, stream.listener)
        if stream.listener not in same_kernel(evidence, stream.talker)
    }
    for name, clocks in evidence.clocks.items():
        host = name.partition("-")[2]
        raw, steered, bracket = (
            clocks[column].to_numpy() for column in ("monotonic_raw_ns", "monotonic_ns", "bracket_ns")
        )
        if host not in apart or len(raw) < 3:
            continue
        elapsed = np.diff(raw).astype(np.float64)
        rate = (np.diff(steered) - np.diff(raw)) / elapsed
        # Reading the clocks takes time itself: a rate is only as sharp as the two brackets.
        sharp = most + (bracket[1:] + bracket[:-1]) / elapsed
        changed = np.abs(rate - np.median(rate))
        if (changed > sharp).any():
            worst = float(changed[changed > sharp].max())
            expected = f"a rate that is steady within {_MILLION * most:.4g} ppm"
            yield Broken(name, expected, f"it changed by {_MILLION * worst:.3g} ppm")
