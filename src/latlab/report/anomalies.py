"""What happened to packets next to noise, and the clean windows next to the whole run, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from latlab.analysis.imported import LEAST
from latlab.analysis.words import cause_in, duration, percent, plural
from latlab.model import statistics
from latlab.report import rows
from latlab.report.document import Folded
from latlab.report.intervals import NO_CLOCKS, NONE_LEFT
from latlab.report.text import microseconds, whole
from latlab.result.places import cell_title
from latlab.result.types import Anomaly, Chosen, Confidence, LateLimits, Range, Result, Statistics, Stream, Windows
from latlab.scenario import format_duration

TITLE: Final = "Anomalies: events that noise does not explain"
HEADINGS: Final = ("cell", "repeat", "stream", "class", "packets", "episodes", "the worst")
CLASSES_TITLE: Final = "Classes of anomalies, of all streams and repetitions together"
CLASS_HEADINGS: Final = ("class", "streams", "packets", "episodes", "the worst of all")
_WORST: Final = 3
"""So many episodes of a class, each of another stream, are listed with the class."""
WINDOW_TITLE: Final = (
    "Whole run and clean windows side by side: latency, µs, in brackets 95 % intervals; cuts and their reasons"
)
_FIGURES: Final = ("min", "mean", "p50", "p99", "p99_9", "max", "stddev")
WINDOW_HEADINGS: Final = (
    "cell",
    "repeat",
    "stream",
    "of",
    "n",
    *(statistics.HEADINGS[key] for key in _FIGURES),
    "cut because",
)
WINDOW_NOTE: Final = (
    "All other figures cover the whole run after its warm-up. Clean windows leave out events that the path did not "
    "cause; each cut is listed."
)
CHOSEN_NOTE: Final = "These windows are user-defined. They do not change other figures."
CHOSEN_TITLE: Final = "User-defined windows, with the whole run and the clean windows: latency, µs"
CHOSEN_HEADINGS: Final = (*WINDOW_HEADINGS[:-1], "why")
WINDOW_NUMBERS: Final = range(4, 5 + len(_FIGURES))
"""The columns of figures, of these two tables."""
NONE_FOUND: Final = "none found"
NOT_LOOKED_FOR: Final = "not evaluated"
NOT_TOLD: Final = "Tail too heavy"
_NO_SCHEDULE: Final = "the schedule of its packets is not known"
_ONE_POINT: Final = "packets were seen at one point only: there is nothing to compare them with"
_TOO_FEW: Final = f"fewer than {LEAST} packets were seen at both points"
_CLOSED_LOOP: Final = "a closed loop: each answer triggers the next question, so one delay delays all that follow"
_TIMER: Final = "timer expiries are not packets: their lateness is in the tables of timers"
_NOT_KEPT: Final = "the individual values were not kept"
_NOT_JUDGED: Final = "no packet after the warm-up has the timestamps that are compared with the schedule"
_CUTS_TOLD: Final = 4
STREAMS_NAMED: Final = 3
"""So many streams in which nothing was looked for have a row each."""
_METRICS: Final = ("latency", "latency_user")


@dataclass(frozen=True)
class AnomalyRow:
    """One class of one stream, or that it has none. texts: as many as HEADINGS.

    episodes: a sentence for each that is listed, by time.
    """

    texts: tuple[str, ...]
    episodes: tuple[str, ...]


def anomaly_rows(result: Result) -> Iterator[AnomalyRow]:
    """A row a cell, repetition, stream and class that occurs, in the order of the summary.

    A stream of which nothing was found has one that reports it, and from when on a packet would have been late; one of
    which something was has one that reports it if that is beyond all its packets. A probe as a whole has none: its legs
    have. At the end a row a stream in which nothing was looked for, and why, for all cells together; a row for several
    streams where more than STREAMS_NAMED are alike in that.
    """
    not_looked_for: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    for whose, block, start_ns in _streams(result):
        if block.anomalies is None:
            not_looked_for.setdefault((whose[-1], _why_not(block)), []).append(whose)
            continue
        if not block.anomalies:
            yield AnomalyRow((*whose, NONE_FOUND, "0", "0", late_text(block) or _NOT_JUDGED), ())
        for found in block.anomalies.values():
            shown = found.shown
            counts = (str(found.packets), str(found.episodes))
            told = tuple(f"{_after(one.from_tai_ns, start_ns)}: {one.text}" for one in shown)
            yield AnomalyRow((*whose, found.title, *counts, found.worst), told)
        if block.anomalies and (beyond := reach_text(block)):
            yield AnomalyRow((*whose, NOT_TOLD, "", "", beyond), ())
    alike: dict[tuple[str, str, str], list[str]] = {}
    for (stream, why), cells in not_looked_for.items():
        cell, repeat, _ = cells[0] if len(cells) == 1 else (f"all {len(cells)} that have it", "", stream)
        alike.setdefault((cell, repeat, why), []).append(stream)
    for (cell, repeat, why), streams in alike.items():
        for named in streams if len(streams) <= STREAMS_NAMED else [f"{len(streams)} streams"]:
            yield AnomalyRow((cell, repeat, named, NOT_LOOKED_FOR, "", "", why), ())


def class_rows(result: Result) -> Iterator[tuple[str, ...]]:
    """A row a class that occurs, as many texts as CLASS_HEADINGS: in how many of the streams that were evaluated.

    Of watched packets the hops count: what happened in one would count again in each longer part of the path.
    """
    longer = rows.several_hops(result)
    evaluated = [
        (whose, block.anomalies)
        for whose, block, _ in _streams(result)
        if block.anomalies is not None and whose[-1] not in longer
    ]
    by_class: dict[str, list[tuple[float, str, Anomaly]]] = {}
    for whose, anomalies in evaluated:
        for found in anomalies.values():
            place = ", ".join(filter(None, (whose[0], whose[1] and f"repeat {whose[1]}", whose[2])))
            severity = max((one.severity for one in found.shown), default=0)
            by_class.setdefault(found.title, []).append((severity, f"{place}: {found.worst}", found))
    for title, several in by_class.items():
        several.sort(key=lambda one: -one[0])
        first, *others = [text for _, text, _ in several[:_WORST]]
        counts = [str(sum(getattr(one, name) for *_, one in several)) for name in ("packets", "episodes")]
        worst = Folded(first, f"the next {len(others)}", others) if others else first
        yield (title, f"{len(several)} of {len(evaluated)}", *counts, worst)


def _why_not(block: Stream) -> str:
    """Why nothing was looked for in a stream."""
    if block.metrics and all(figures.kept for figures in block.metrics.values()):
        return _NOT_KEPT
    if block.timer:
        return _TIMER
    if block.points:
        return _ONE_POINT if len(block.points) == 1 else _TOO_FEW
    return _CLOSED_LOOP if block.probe and block.probe.period_ns is None else _NO_SCHEDULE


@dataclass(frozen=True)
class WindowRow:
    """A stream as a whole, or its clean windows. texts: as many as WINDOW_HEADINGS. cuts: a sentence for each cut, by
    time, of the clean windows.
    """

    texts: tuple[str, ...]
    cuts: tuple[str, ...] = ()


def window_rows(result: Result) -> Iterator[WindowRow]:
    """Two rows a cell, repetition and stream of which something was cut: the whole run, then its clean windows. Of one
    without any latency only the second, which says why and what was cut.
    """
    for whose, block, start_ns in _streams(result):
        found = block.windows
        if not found or not found.cuts:
            continue
        metric = _metric(found)
        sides, whole_run = found.metrics.get(metric), block.metrics.get(metric)
        packets = found.packets
        told = (
            f"{packets.cut} of {plural(packets.whole, 'packet')} {'is' if packets.cut == 1 else 'are'} cut: "
            f"{_cuts_told(found, start_ns)}"
        )
        if not sides or not (sides.whole.n or sides.clean.n):
            # What was cut is listed anyway, once.
            told = "; ".join(filter(None, (_no_figures(block), told)))
            yield WindowRow((*whose, "clean windows", *_figures(None), told), tuple(_cuts(found, start_ns)))
            continue
        yield WindowRow((*whose, "whole run", *_figures(sides.whole, whole_run.confidence if whole_run else None), ""))
        clean = _figures(sides.clean, sides.clean.confidence)
        yield WindowRow((*whose, "clean windows", *clean, told), tuple(_cuts(found, start_ns)))


def _no_figures(block: Stream) -> str:
    """Why a stream has no latencies; empty where that is not known."""
    found = [block.metrics[name] for name in _METRICS if name in block.metrics]
    if any(one.nothing_arrived for one in found):
        return NONE_LEFT
    return NO_CLOCKS if any(one.unbounded for one in found) else ""


def cut_lines(result: Result) -> list[str]:
    """What was cut of each stream and why, a line each; then each cut, where there are several."""
    lines = []
    for row in window_rows(result):
        cell, repeat, stream, *_, why = row.texts
        if why:
            line = f"{', '.join(filter(None, (cell, f'repeat {repeat}', stream)))}: {why}"
            lines.append(Folded(line, f"{len(row.cuts)} cuts, by time", row.cuts) if len(row.cuts) > 1 else line)
    return lines


def uncut_text(result: Result) -> str:
    """Of how many streams nothing is cut, in words; empty where no stream was looked at, or all are cut."""
    found = [block.windows for _, block, _ in _streams(result) if block.windows]
    uncut = sum(not one.cuts for one in found)
    if not uncut:
        return ""
    all_of_them = uncut == len(found)
    where = (
        "No packet is cut from any stream" if all_of_them else f"No packet is cut from {uncut} of {len(found)} streams"
    )
    return f"{where}: the figures of the whole run are those of its clean windows"


def chosen_rows(result: Result) -> Iterator[tuple[str, ...]]:
    """Rows of each cell, repetition and stream that somebody named windows of, as many texts as CHOSEN_HEADINGS: the
    whole run, the clean windows, then each window, and all of them together.
    """
    for whose, block, start_ns in _streams(result):
        found = block.windows
        if not found or not found.chosen:
            continue
        metric = _metric(found)
        sides = found.metrics.get(metric)
        cut = f"cut: {_cuts_told(found, start_ns)}" if found.cuts else "nothing is cut"
        yield (*whose, "whole run", *_figures(sides.whole if sides else None), "")
        yield (*whose, "clean windows", *_figures(sides.clean if sides else None), cut)
        for one in found.chosen:
            yield from ((*whose, *texts) for texts in _chosen(one, metric))


def _chosen(found: Chosen, metric: str) -> Iterator[tuple[str, ...]]:
    """What stands in the rows of windows that were named together, behind the stream."""
    how = "user-defined, set after the measurement" if found.after_the_fact else "user-defined"
    passed = "; ".join(dict.fromkeys(one.text for one in found.passed_over))
    besides = f"not cut there: {passed}" if passed else ""
    single = len(found.kept) == 1
    for one in found.kept:
        span = f"{format_duration(one.from_ns)} to {format_duration(one.to_ns)}, {how}"
        why = "; ".join(filter(None, (one.why or "no reason given", besides if single else "")))
        yield span, *_figures(one.metrics.get(metric)), why
    if not single:
        yield f"all of these, {how}", *_figures(found.metrics.get(metric)), besides


def _metric(found: Windows) -> str:
    """The metric whose figures are shown of windows; empty without any."""
    return next((name for name in _METRICS if name in found.metrics), "")


def _cuts(found: Windows, start_ns: int | None) -> Iterator[str]:
    return (f"{_after(cut.from_tai_ns, start_ns)}: {cut.text}" for cut in found.cuts)


def _cuts_told(found: Windows, start_ns: int | None) -> str:
    """The first of the cuts, and how many more there are; what several have in common is said once."""
    alike: dict[str, list[str]] = {}
    texts: dict[str, str] = {}
    for cut in found.cuts:
        cause = cause_in(cut.text)
        texts.setdefault(cause, cut.text)
        alike.setdefault(cause, []).append(_after(cut.from_tai_ns, start_ns))
    more = sum(len(times) for times in list(alike.values())[_CUTS_TOLD:])
    told = (f"{_times(times)}: {texts[cause]}" for cause, times in list(alike.items())[:_CUTS_TOLD])
    return "; ".join(told) + (f"; and {more} more" if more else "")


def _times(times: Sequence[str]) -> str:
    """The first of these instants, and how many more there are."""
    more = len(times) - _CUTS_TOLD
    shown = [times[0], *(time.removeprefix("at ") for time in times[1:_CUTS_TOLD])]
    return ", ".join(shown) + (f" and {plural(more, 'more time')}" if more > 0 else "")


def _figures(statistics: Statistics | None, confidence: Confidence | None = None) -> tuple[str, ...]:
    """n and _FIGURES, blank where there are none, each with its interval where there is one."""
    n = statistics.n if statistics else None
    return whole(n), *(_figure(statistics, confidence, name) for name in _FIGURES)


def _figure(statistics: Statistics | None, confidence: Confidence | None, name: str) -> str:
    text = microseconds(getattr(statistics, name, None))
    low, high = (getattr(getattr(confidence, name, None), end, None) for end in ("low", "high"))
    return text if not text or low is None else f"{text} ({microseconds(low)} … {microseconds(high)})"


def _streams(result: Result) -> Iterator[tuple[tuple[str, str, str], Stream, int | None]]:
    """((cell, repetition, stream), it, and when it began on its own talker's clock: two may be seconds apart)."""
    for cell in rows.ordered_cells(result):
        for stream, block in cell.streams.items():
            if f"{stream}.up" not in cell.streams:  # a probe as a whole: its legs have what happened
                yield (cell_title(cell), str(cell.repeat), stream), block, block.start_tai_ns or cell.start_tai_ns


def _after(at_tai_ns: int, start_tai_ns: int | None) -> str:
    """When that was, counted from the stream's start."""
    return f"at {duration(at_tai_ns - start_tai_ns)}" if start_tai_ns else f"at TAI {at_tai_ns} ns"


# From which latency on a packet is called late


LIMITS_TITLE: Final = "Lateness thresholds of each stream, least … greatest over the run, µs"
LIMITS_HEADINGS: Final = (
    *(
        "cell",
        "repeat",
        "stream",
        "packets judged",
        "latency from … to",
        "usual",
        "late if above usual by",
        "late from",
    ),
    *("or above its neighbours by", "late sender: before submit more than", "wake-up suspect beyond", "in bursts"),
)
LIMITS_NUMBERS: Final = range(5, 11)
"""The columns of figures."""
UNKNOWN: Final = "the usual latency is not known: the clocks are not bounded"
NOTE: Final = (
    "The usual latency is the median of the surrounding packets. A packet is late if it exceeds the usual latency by "
    "more than noise explains; only late packets are examined. If consecutive packets differ little, a packet that is "
    "much later than those before and after it is also late."
)
SENDER_NOTE: Final = (
    " Its class is late sender if {share} of its lateness, and more than the limit here, arose before it was "
    "submitted. The limit for wake-ups is a trust rule: no wake-up later than a period."
)
"""Where latencies begin at the launch. Of watched packets no launch is known."""


def late_text(block: Stream) -> str:
    """From when on packets of a stream were late, in words; empty where that is not known. block: it in the result."""
    limits = block.late_limits
    if not limits:
        return ""
    known = level_known(block)
    begins, usual = (limits.from_ns, limits.usual_ns.middle) if known else (limits.above_ns, 0)
    ends = dict.fromkeys(map(duration, (begins.least, begins.greatest)))
    moves = f", {' to '.join(ends)} over the run" if len(ends) > 1 else ""
    way = limits.way
    level = f"usual is {duration(usual)}" if known else UNKNOWN
    heavy = ""
    if limits.heavy and limits.exponential_ns is not None:
        heavy = f"; with an exponential tail, not this heavy one, at {duration(usual + limits.exponential_ns)}"
    beyond = "" if known else "above the surrounding packets "
    late = f"lateness threshold {duration(begins.middle)} {beyond}{way} (median{moves}; {level}{heavy})"
    if beside := limits.beside_ns:
        late += f", or {duration(beside.middle)} later than the packets before and after it"
    return "; ".join(filter(None, (late, parted_text(limits), reach_text(block), bursts_text(limits))))


def level_known(block: Stream) -> bool:
    """Whether the latencies that lateness is measured of are differences of clocks with a bounded offset."""
    ends = (block.late_limits.since, block.late_limits.until) if block.late_limits else ()
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
    why = "the tail is heavy up to that value" if limits.heavy else "noise may explain such values"
    return (
        f"single late packets cannot be told from the tail below {least} {limits.way}{unless}: {why}, "
        f"and the latest packet took {more}"
    )


def parted_text(limits: LateLimits) -> str:
    """How many packets lie beyond a gap, if there is one; else empty. limits: `late_limits` of a stream."""
    found = limits.parted
    if not found:
        return ""
    share = percent(found.packets / found.of)
    return (
        f"{found.packets} of {found.of} packets ({share}) form a separate group, {duration(found.begins_ns)} or more "
        f"later than usual, with a gap from {duration(found.ends_ns)} on"
    )


def bursts_text(limits: LateLimits) -> str:
    """How packets came in bursts, where many did; else empty. limits: `late_limits` of a stream in the result."""
    found = limits.bursts
    if not found:
        return ""
    interval = duration(found.every_ns)
    every = f"every {interval}" if found.regular else f"at irregular intervals, {interval} in the median"
    usual = ", as throughout the run: they are not reported as stalls" if found.usual else ""
    return (
        f"{found.packets} of {found.of} packets ({percent(found.share)}) came in {found.times} bursts, "
        f"of {found.size} in the median, {every}{usual}"
    )


def late_rows(result: Result) -> Iterator[tuple[str, ...]]:
    """A row a cell, repetition and stream that was looked at, as many texts as LIMITS_HEADINGS, times in µs."""
    for cell in rows.ordered_cells(result):
        for stream, block in cell.streams.items():
            if limits := block.late_limits:
                whose = (cell_title(cell), str(cell.repeat), stream)
                known = level_known(block)
                usual, begins = (_span(one) if known else "not known" for one in (limits.usual_ns, limits.from_ns))
                yield (
                    *whose,
                    str(limits.packets),
                    f"{limits.since} … {limits.until}",
                    *(usual, _span(limits.above_ns), begins, _span(limits.beside_ns)),
                    _span(limits.sender_ns) if limits.since == "launch" else "",
                    _wake_up(block, limits),
                    bursts_text(limits),
                )


def late_note(result: Result) -> str:
    """What is to be known to read the rows; empty without any."""
    found = [block.late_limits for cell in result.cells for block in cell.streams.values() if block.late_limits]
    shares = {percent(limits.sender_share) for limits in found if limits.since == "launch"}
    sender = SENDER_NOTE.format(share=" or ".join(sorted(shares))) if shares else ""
    return f"{NOTE}{sender}" if found else ""


def _span(limit: Range | None) -> str:
    return " … ".join(dict.fromkeys(map(microseconds, (limit.least, limit.greatest)))) if limit else ""


def _wake_up(block: Stream, limits: LateLimits) -> str:
    return microseconds(limits.period_ns) if "wakeup" in block.metrics else ""
