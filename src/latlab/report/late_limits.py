"""From when on packets counted as late: of each stream the limits that were drawn from its own noise, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from latlab.analysis.words import duration, percent
from latlab.report import rows
from latlab.report.places import cell_title
from latlab.report.text import microseconds
from latlab.result.types import LateLimits, Range, Result, Stream

TITLE: Final = "Lateness thresholds of each stream, least … greatest over the run, µs"
HEADINGS: Final = (
    *("cell", "repeat", "stream", "packets judged", "latency up to", "usual", "late beyond usual by", "late from"),
    *("or later than its neighbours by", "late sender: before submit more than", "wake-up suspect beyond", "in bursts"),
)
NUMBERS: Final = range(5, 11)
"""The columns of figures."""
UNKNOWN: Final = "the usual latency is not known: the clocks are not bounded"
NOTE: Final = (
    "The usual latency is the median of the packets around. A packet is late if it exceeds that by more than noise "
    "does; only late packets are examined. Where consecutive packets differ little, a packet that is much later than "
    "those before and after it is late, too. Its class is late sender if {share} of its lateness, and more than the "
    "limit here, arose before it was submitted. The last column is a trust rule: no wake-up later than a period."
)


def late_text(block: Stream) -> str:
    """From when on packets of a stream were late, in words; empty where that is not known. block: it in the result."""
    limits = block.late_limits
    if not limits:
        return ""
    known = level_known(block)
    begins, usual = (limits.from_ns, limits.usual_ns.middle) if known else (limits.above_ns, 0)
    ends = dict.fromkeys(map(duration, (begins.least, begins.greatest)))
    moves = f", {' to '.join(ends)} over the run" if len(ends) > 1 else ""
    way = f"from launch to {limits.until}"
    level = f"usual is {duration(usual)}" if known else UNKNOWN
    heavy = ""
    if limits.heavy and limits.exponential_ns is not None:
        heavy = f"; with an exponential tail, not this heavy one, at {duration(usual + limits.exponential_ns)}"
    beyond = "" if known else "beyond the packets around "
    late = f"lateness threshold {duration(begins.middle)} {beyond}{way} (median{moves}; {level}{heavy})"
    if beside := limits.beside_ns:
        late += f", or {duration(beside.middle)} later than the packets before and after it"
    return "; ".join(filter(None, (late, parted_text(limits), reach_text(block), bursts_text(limits))))


def level_known(block: Stream) -> bool:
    """Whether latencies from launch to where lateness is told are differences of clocks that something bounds."""
    ends = ("launch", block.late_limits.until if block.late_limits else "")
    return all(one.uncertainty_ns is not None for one in block.metrics.values() if (one.from_, one.to) == ends)


def reach_text(block: Stream) -> str:
    """That the limit is farther out than any packet was, so that nearer ones would not be called late; else empty."""
    limits = block.late_limits
    if not limits or not limits.out_of_reach:
        return ""
    usual_ns = 0 if level_known(block) else limits.usual_ns.middle
    more = f"{duration(limits.largest_ns - usual_ns)}{' more than usual' if usual_ns else ''}"
    least = f"{duration(limits.from_ns.middle - usual_ns)}{' beyond usual' if usual_ns else ''}"
    beside = limits.beside_ns
    unless = f", unless {duration(beside.middle)} later than their neighbours" if beside else ""
    why = "the tail is heavy up to there" if limits.heavy else "noise may reach that far"
    return (
        f"single late packets cannot be told from the tail below {least} from launch to {limits.until}{unless}: {why}, "
        f"and the latest packet took {more}"
    )


def parted_text(limits: LateLimits) -> str:
    """How many packets lie beyond a gap, if there is one; else empty. limits: `late_limits` of a stream."""
    found = limits.parted
    if not found:
        return ""
    share = percent(found.packets / found.of)
    return (
        f"{found.packets} of {found.of} packets ({share}) form a separate group, {duration(found.begins_ns)} and more "
        f"later than usual, with a gap from {duration(found.ends_ns)} on"
    )


def bursts_text(limits: LateLimits) -> str:
    """How packets came in bursts, where many did; else empty. limits: `late_limits` of a stream in the result."""
    found = limits.bursts
    if not found:
        return ""
    interval = duration(found.every_ns)
    every = f"every {interval}" if found.regular else f"at irregular intervals, {interval} in the median"
    usual = ", as throughout the run: these are not reported as stalls" if found.usual else ""
    return (
        f"{found.packets} of {found.of} packets ({percent(found.share)}) came in {found.times} bursts, "
        f"of {found.size} in the median, {every}{usual}"
    )


def late_rows(result: Result) -> Iterator[tuple[str, ...]]:
    """A row a cell, repetition and stream that was looked at, as many texts as HEADINGS, times in µs."""
    for cell in rows.ordered_cells(result):
        for stream, block in cell.streams.items():
            if limits := block.late_limits:
                whose = (cell_title(cell), str(cell.repeat), stream)
                known = level_known(block)
                usual, begins = (_span(one) if known else "not known" for one in (limits.usual_ns, limits.from_ns))
                yield (
                    *whose,
                    str(limits.packets),
                    limits.until,
                    *(usual, _span(limits.above_ns), begins, _span(limits.beside_ns), _span(limits.sender_ns)),
                    _wake_up(block, limits),
                    bursts_text(limits),
                )


def late_note(result: Result) -> str:
    """What is to be known to read the rows; empty without any."""
    found = (block.late_limits for cell in result.cells for block in cell.streams.values())
    shares = {percent(limits.sender_share) for limits in found if limits}
    return NOTE.format(share=" or ".join(sorted(shares))) if shares else ""


def _span(limit: Range | None) -> str:
    return " … ".join(dict.fromkeys(map(microseconds, (limit.least, limit.greatest)))) if limit else ""


def _wake_up(block: Stream, limits: LateLimits) -> str:
    return microseconds(limits.period_ns) if "wakeup" in block.metrics else ""
