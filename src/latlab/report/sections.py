"""The sections of a report: each a function from a result to its tables and lines, in the order of SECTIONS."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from latlab.analysis.accept import EXCEEDED
from latlab.analysis.counts import counted
from latlab.analysis.words import duration, plural, rate
from latlab.model.metrics import METRIC_ORDER, TIMER_METRICS
from latlab.model.reasons import Reason, verdict
from latlab.model.rules import OTHERS, RULES
from latlab.recordings.cell import Load, RecordedCell
from latlab.recordings.run_folder import RunFolder
from latlab.report import (
    anomalies,
    gates,
    intervals,
    losses,
    ptp,
    repeats,
    rows,
    testbed,
    text,
    traces,
    unmeasured,
    where,
)
from latlab.report.charts import timers
from latlab.report.charts.chain import chain_table, chain_views
from latlab.report.charts.comparison import TITLE as COMPARISON
from latlab.report.charts.comparison import compared_metrics, group_chart
from latlab.report.charts.timers import timer_chart, timer_ranges
from latlab.report.document import (
    Chart,
    Finding,
    Fold,
    Folded,
    Lines,
    OfMetric,
    OneOf,
    Part,
    Pictured,
    Table,
    Toned,
    filled,
)
from latlab.report.published import headline, headline_tables, published_tables
from latlab.report.repeats import Strips
from latlab.report.rows import Column, Summary
from latlab.report.testbed import label_reasons, label_text
from latlab.report.verdict import EXPLAINED, grouped_reasons, stated, threshold_lines
from latlab.result.places import cell_title
from latlab.result.types import Cell, Result

DEFAULT_METRICS: Final = ("latency", "latency_user")
WORST_LINES: Final = 8
"""How many lines about slowest packets one metric may have: with more, each stream has one."""
CLOCKS: Final = ("cells", "from", "to", "known from", "lower", "upper")
BRIDGES: Final = ("cells", "bridge", "host", "uplink", "guests", "how it is made")
CORES: Final = ("cells", "thread", "may run on", "ran on: of its records")
STAMPS: Final = ("cells", "agent", "by eBPF", "by the socket", "note")
STAMPS_COMPARED: Final = ("cells", "agent", "timestamp", "packets", "least ns", "median ns", "largest ns")
GUESTS: Final = ("cells", "guest", "host", "image", "kernel", "runs by", "vCPUs", "memory", "started from")
NOT_DONE: Final = ("cells", "host", "what", "command", "what came back")
NOT_KEPT: Final = ("cells", "host", "what", "read by", "set to", "found")
TOOLS: Final = ("cell", "repeat", "what", "tool", "command")
UNAVAILABLE: Final = ("cells", "what is missing", "where", "how to get it")
LIMITS: Final = ("", "limit on", "cell", "repeat", "limit", "actual")
LOADS: Final = ("cell", "repeat", "load", "from", "to", "asked", "sent", "received", "packets", "work")
REPEATS: Final = ("cell", "first packet that differs", "by its", "at most, ns", "packets", "timestamps in one only")
_NARROW: Final = (rows.MOMENTS + rows.COUNTS, rows.PERCENTILES)
_WATCHED: Final = ("transit", "interarrival", "jitter")
_WAITED: Final = ("wakeup", *(metric.name for metric in TIMER_METRICS))
"""Of timers: the whole, and its parts."""
_WINDOWS_PRINTED: Final = 100
"""Of more windows of timers the page has the table for reference only."""
_FOUND_LINES: Final = 4
"""How many lines one reason may have for what differs from place to place; all of them are on the page."""
_HEADINGS: Final = {column.key: column.heading for column in rows.COLUMNS}


@dataclass(frozen=True)
class Shown:
    """What sections are made of. metrics: those with tables, in their order. folder: the run's, where it is there.

    strips: (stream, metric) → what `repeats.drawn` gives, for an output that draws repetitions.
    """

    result: Result
    metrics: Sequence[str]
    folder: RunFolder | None = None
    strips: Mapping[tuple[str, str], Strips] = field(default_factory=dict)

    @property
    def present(self) -> tuple[str, ...]:
        """Those of the metrics that any stream has."""
        there = self.result.metric_names(self.metrics)
        return tuple(name for name in self.metrics if name in there)

    @property
    def first(self) -> str:
        """The metric that the first screen is about; "" without figures."""
        return next(iter(self.present), "")

    @property
    def label(self) -> str:
        """The result's label, which stands next to figures."""
        return label_text(self.result)

    @cached_property
    def documents(self) -> list[tuple[Cell, RecordedCell]]:
        """(cell of the result, cell.json) of each cell that ran; none where the run's folder is not there."""
        if self.folder is None:
            return []
        cells = ((one, self.folder.cell(one.slug, one.repeat)) for one in rows.ordered_cells(self.result))
        return [(one, folder.cell()) for one, folder in cells if (folder.path / "cell.json").exists()]


def default_metrics(result: Result) -> tuple[str, ...]:
    """The metrics that are shown unless others are asked for: the headline first, then those with published figures."""
    published = (one.metric for one in result.published)
    blocks = [block for cell in result.cells for block in cell.streams.values()]
    first = ("round_trip",) if any(block.probe and not block.waits for block in blocks) else ()
    waited = _WAITED if result.any_waits else ()
    about = [named] if (named := headline(result)) else []
    watched = _WATCHED if any(cell.flows for cell in result.cells) else ()
    return tuple(dict.fromkeys((*about, *published, *first, *DEFAULT_METRICS, *watched, *waited)))


def shown_metrics(result: Result) -> tuple[str, ...]:
    """The metrics of which tables are printed unless others are asked for: of imported cells all that there are."""
    is_imported = any(cell.imported for cell in result.cells)
    return result.metric_names(METRIC_ORDER) if is_imported else default_metrics(result)


def has_others(result: Result) -> bool:
    """Whether it has figures of other programs, or of their packets."""
    return any(cell.imported or cell.flows for cell in result.cells)


def parts_of(name: str, shown: Shown) -> list[Part]:
    """The parts of the section of that name, one of SECTIONS, that have something to show."""
    return filled(SECTIONS[name](shown))


# Figures


def _of_each_metric(make: Callable[[Shown, str], Iterator[Part]]) -> Callable[[Shown], Iterator[Part]]:
    """The section that has these parts of each metric."""
    return lambda shown: (OfMetric(metric, filled(make(shown, metric))) for metric in shown.present)


def figures_of(shown: Shown, metric: str) -> Iterator[Part]:
    """A metric's figures, cells × repetitions down, in µs, blank where null; and what others published."""
    yield from headline_tables(shown.result, metric)
    summaries = rows.summaries(shown.result, metric)
    for summary in summaries:
        yield _figures(shown, summary)
    yield from published_tables(shown.result, metric)
    for summary in summaries:
        yield from _repetitions(shown, summary)
    lines = rows.worst_lines(shown.result, metric)
    few = lines if len(lines) <= WORST_LINES else rows.worst_of_streams(shown.result, metric)
    yield Lines(few)
    if few != lines:
        yield Fold(
            "The slowest of each cell", [Lines(lines)], "(of all cells; the report has the slowest of each cell)"
        )


def _figures(shown: Shown, summary: Summary) -> OneOf:
    """One metric's table; where it does not fit, the percentiles stand in a second one below."""
    clocks = f" ± {bounds}" if (bounds := summary.uncertainty_range) else ""
    trust = f"{shown.label} · {shown.result.verdict}"
    title = f"{summary.title}, µs{clocks} · {summary.of_what} · {trust}"
    moments, percentiles = _NARROW
    return OneOf(
        [
            [_statistics(summary, rows.COLUMNS, title, summary.notes, clocks=True)],
            [
                _statistics(summary, moments, title, summary.notes, clocks=False),
                _statistics(summary, percentiles, f"{summary.title}, percentiles", (), clocks=True),
            ],
        ]
    )


def _statistics(
    summary: Summary, columns: Sequence[Column], title: str, notes: Sequence[str], *, clocks: bool
) -> Table:
    """A row for each of the summary's. clocks: each with its own ±, where the metric is between two clocks."""
    clocks = clocks and summary.crosses_clocks
    labels_differ = len({row.label for row in summary.rows}) > 1
    found = []
    for row in summary.rows:
        figures = [column.text(row.statistics) if row.statistics else "" for column in columns]
        source = row.clock if len(summary.clocks) > 1 and row.uncertainty else None
        figures += [rows.sourced(row.uncertainty, source)] if clocks else []
        unbounded = counted({"unbounded": row.statistics.unbounded if row.statistics else 0})
        remarks = filter(None, (row.remark, unbounded, row.label if labels_differ else ""))
        found.append((*summary.labels(row), *figures, ", ".join(remarks)))
    headings = (*summary.headings, *(column.heading for column in columns), *(["±"] if clocks else []), "")
    return Table(headings, found, range(len(summary.headings), len(headings) - 1), title, notes=notes)


def _repetitions(shown: Shown, summary: Summary) -> Iterator[Part]:
    """What the repetitions of each cell say together, and how far they differ; as many figures as fit."""
    found = repeats.spreads(summary)
    if not found:
        return
    title = f"{summary.title}: mean of the repetitions [95 % interval], µs · {shown.label}"
    names = summary.headings[:-1]
    strips = None if summary.shows_stream else shown.strips.get((summary.rows[0].stream, summary.metric))

    def shape(figures: Sequence[str]) -> Table:
        drawn = [Pictured("spread", "scale", (strips.low, strips.unit, strips.high))] if strips else []
        headings = ("repeats", *drawn, *(_HEADINGS.get(name, name) for name in figures), "stddev within", "between")
        texts = [
            (
                *(*one.labels, str(one.repeats)),
                *([Pictured("", "strips", strips.of.get(one.slug, ()))] if strips else []),
                *(*(one.text(name) for name in figures), one.within, one.between),
            )
            for one in found
        ]
        numbers = range(len(names) + 1 + len(drawn), len(names) + len(headings))
        return Table((*names, *headings), texts, numbers, title, notes=[repeats.NOTE] if strips else [])

    shapes = (repeats.FIGURES, ("p50", "p99", "max"), ("p50", "max"), ("p50",))
    yield OneOf([[shape(figures)] for figures in (shapes[1:] if strips else shapes)])
    yield Fold("All repetitions of a cell together", filled([_together(shown, summary, found, strips)]))


def _together(shown: Shown, summary: Summary, found: Sequence[repeats.RepeatSpread], strips: Strips | None) -> Table:
    """Each cell's packets as one sample, with their histogram."""
    names = summary.headings[:-1]
    drawn = [Pictured("", "scale", (strips.low, "log count", strips.high))] if strips else []
    texts = [
        (*one.labels, str(one.repeats), *([Pictured("", "histogram", one)] if strips else []), *one.figures)
        for one in repeats.together(found, strips)
    ]
    headings = (*names, "repeats", *drawn, *repeats.TOGETHER_HEADINGS)
    figures = range(len(headings) - len(repeats.TOGETHER_HEADINGS), len(headings))
    title = f"{summary.title}: all repetitions together, µs; a percentile lies between the two figures · {shown.label}"
    return Table(headings, texts, figures, title, notes=[repeats.TOGETHER_NOTE])


def intervals_of(shown: Shown, metric: str) -> Iterator[Part]:
    """The 95 % intervals that n supports, and why it does not support others."""
    if found := intervals.intervals(shown.result, metric):
        headings, filled_rows = found.filled()
        if len(headings) == intervals.NAMES + 1:
            yield Lines([f"{metric}: {line}" for line in found.notes()])
        else:
            title = f"{metric}: {intervals.TITLE} · {shown.label}"
            figures = range(intervals.NAMES, len(headings))
            yield Table(headings, filled_rows, figures, title, remarks=found.notes())
        yield Lines([*found.supports, *found.tails])


def variation_of(shown: Shown, metric: str) -> Iterator[Part]:
    """Delay variation: above the least delay, and from one packet to the next."""
    found = rows.variation_rows(shown.result, metric)
    title = f"{metric}: {rows.VARIATION_TITLE} · {shown.label}"
    yield Table(rows.VARIATION_HEADINGS, found, rows.VARIATION_NUMBERS, title, notes=[rows.VARIATION_NOTE])


def _comparison(shown: Shown) -> Iterator[Part]:
    for one in compared_metrics(shown.result):
        parts: list[Part] = [Lines([f"{one.summary}."], f"{COMPARISON}: {one.metric}")]
        for group in one.groups:
            parts.append(Lines(list(group.lines), group.title))
            parts += [Chart("drawn", group_chart(group.panels))] if group.panels else []
            # Their sentences stand above.
            parts.append(Fold("As a table", [replace(block.table, remarks=()) for block in group.blocks]))
        yield OfMetric(one.metric, [*parts, Lines(one.notes, "About these comparisons")])


# Where the time went


def _stages(shown: Shown) -> Iterator[Part]:
    yield from where.share_tables(shown.result, shown.first)
    yield from where.where_tables(shown.result, shown.first)
    yield from (chain_table(view) for view in chain_views(shown.result).values())
    yield from traces.trace_tables(shown.result)


def _timers(shown: Shown) -> Iterator[Part]:
    """How late timers were, and which share of them was later than their threshold."""
    yield Table(timers.HEADINGS, list(timers.timer_rows(shown.result)), (), f"{timers.TITLE} · {shown.label}")
    if ranges := timer_ranges(shown.result):
        yield Chart("drawn", timer_chart(ranges))
    windows = list(timers.window_rows(shown.result))
    yield Fold(
        f"{len(windows)} windows of timers, one by one",
        [Table(timers.WINDOW_HEADINGS, windows, timers.WINDOW_FIGURES, f"{timers.WINDOWS_TITLE} · {shown.label}")],
        reference=len(windows) > _WINDOWS_PRINTED,
    )


def _anomalies(shown: Shown) -> Iterator[Part]:
    """The anomalies' classes, what clean windows leave out, user-defined windows, and the thresholds."""
    result = shown.result
    found = [
        (*row.texts[:-1], Folded(row.texts[-1], f"{len(row.episodes)} episodes, by time", row.episodes))
        if len(row.episodes) > 1
        else row.texts
        for row in anomalies.anomaly_rows(result)
    ]
    classes = list(anomalies.class_rows(result))
    if len(found) > 1:
        yield Table(anomalies.CLASS_HEADINGS, classes, (1, 2, 3), f"{anomalies.CLASSES_TITLE} · {shown.label}")
    yield Table(anomalies.HEADINGS, found, (4, 5), f"{anomalies.TITLE} · {shown.label}")
    # What was cut is too long for a column: it stands below.
    windows = [row.texts[:-1] for row in anomalies.window_rows(result)]
    title, note = f"{anomalies.WINDOW_TITLE} · {shown.label}", anomalies.WINDOW_NOTE
    yield Table(anomalies.WINDOW_HEADINGS[:-1], windows, anomalies.WINDOW_NUMBERS, title, notes=[note])
    yield Lines([*anomalies.cut_lines(result), *([f"{uncut}."] if (uncut := anomalies.uncut_text(result)) else [])])
    chosen = list(anomalies.chosen_rows(result))
    title = f"{anomalies.CHOSEN_TITLE} · {shown.label}"
    yield Table(anomalies.CHOSEN_HEADINGS, chosen, anomalies.WINDOW_NUMBERS, title, notes=[anomalies.CHOSEN_NOTE])
    if note := anomalies.late_note(result):
        limits = list(anomalies.late_rows(result))
        yield Table(anomalies.LIMITS_HEADINGS, limits, anomalies.LIMITS_NUMBERS, anomalies.LIMITS_TITLE, notes=[note])


# What else there is to know


def _missing(shown: Shown) -> Iterator[Part]:
    """The cells without figures, and what was counted."""
    yield from unmeasured_of(shown)
    yield Lines(rows.remarks(shown.result), rows.counted_title(shown.result))


def unmeasured_of(shown: Shown) -> Iterator[Part]:
    """The cells that this machine cannot build, and those that did not run to their end."""
    found = [("; ".join(one.cells), one.what, one.where, one.remedy) for one in unmeasured.unavailable(shown.result)]
    yield Table(UNAVAILABLE, found, (), "Not available on this machine")
    yield Lines([one.text for one in unmeasured.unfinished(shown.result)], "Not run to the end")


def _losses(shown: Shown) -> Iterator[Part]:
    """Where lost packets were dropped, and the kernels of which that is known."""
    found = [
        (cell_title(cell), str(cell.repeat), stream, *row)
        for cell in rows.ordered_cells(shown.result)
        for stream, block in cell.streams.items()
        for row in losses.loss_rows(block.losses)
    ]
    yield Table(losses.HEADINGS, found, (3,), f"{losses.TITLE} · {shown.label}")
    yield Table(losses.WATCHED, testbed.kernels_watched(shown.result), (3,), losses.WATCHED_TITLE)


def _loads(shown: Shown) -> Iterator[Part]:
    found = [
        (
            *(cell_title(cell), str(cell.repeat)),
            f"{load.name} ({load.kind}{f' {load.version}' if load.version else ''})",
            *load_ends(load),
            rate(load.asked_bps, "bit/s") or "as fast as possible",
            *(rate(one, "bit/s") for one in (load.sent_bps, load.received_bps)),
            rate(load.sent_pps, "/s"),
            load_work(load),
        )
        for cell in rows.ordered_cells(shown.result)
        for load in cell.loads
    ]
    yield Table(LOADS, found, (5, 6, 7, 8), f"Loads and what they achieved · {shown.label}")


def _talkers(shown: Shown) -> Iterator[Part]:
    talkers_found = list(talker_rows(shown.result))
    yield Table(TALKERS_HEADINGS, talkers_found, TALKERS_FIGURES, f"{TALKERS_TITLE} · {shown.label}")


def _clocks(shown: Shown) -> Iterator[Part]:
    by_key = {cell.key: document for cell, document in shown.documents}
    title = "Clocks: bounds of the second host's clock − the first host's, µs"
    yield Table(CLOCKS, testbed.clocks(shown.result, by_key), (4, 5), title)


def _testbed(shown: Shown) -> Iterator[Part]:
    by_key = {cell.key: document for cell, document in shown.documents}
    not_done = testbed.not_done(shown.result, by_key)
    for title, headings, found in (
        ("Bridges", BRIDGES, testbed.bridges(shown.result)),
        ("Guests", GUESTS, testbed.guests(shown.result)),
        ("Optional steps that failed: cells ran without them", NOT_DONE, not_done),
        ("Settings that had changed at the end of a cell", NOT_KEPT, testbed.not_kept(shown.result, by_key)),
    ):
        yield Table(headings, found, (), title)
    yield Table(CORES, testbed.cores(shown.result), (), "Kinds of cores that measured threads ran on")
    yield Table(STAMPS, testbed.stamps_taken(shown.result), (), "Kernel timestamps: how they were taken")
    compared = testbed.stamps_compared(shown.result)
    yield Table(STAMPS_COMPARED, compared, (3, 4, 5, 6), "Kernel timestamps: eBPF's minus the socket's")


def _tools(shown: Shown) -> Iterator[Part]:
    """What others' programs ran as loads and probes."""
    found = []
    for outcome, cell in shown.documents:
        ran = [(f"load {one.name}", f"{one.kind} {one.version or ''}", one.commands) for one in outcome.loads]
        ran += [
            (f"probe {one.name}", f"{one.probe} {one.version or ''}", one.commands) for one in cell.probes if one.tool
        ]
        for what, version, commands in ran:
            for command in commands or [""]:
                told = Toned(_command(command), "code")
                found.append((cell_title(outcome), str(outcome.repeat), what, version.strip(), told))
    yield Table(TOOLS, found, (), "Tools that loads and probes ran")


def _command(words: Any) -> str:
    if isinstance(words, Mapping):
        words = words.get("command", "")
    return words if isinstance(words, str) else " ".join(map(str, words or ()))


def _gates(shown: Shown) -> Iterator[Part]:
    found = [row.texts for row in gates.slot_rows(shown.result)]
    yield Table(gates.SLOTS_HEADINGS, found, (), f"{gates.SLOTS_TITLE} · {shown.label}")


def _ptp(shown: Shown) -> Iterator[Part]:
    yield Table(ptp.HEADINGS, [row.texts for row in ptp.ptp_rows(shown.result)], (), f"{ptp.TITLE} · {shown.label}")


def _limits(shown: Shown) -> Iterator[Part]:
    """The scenario's limits, those first that were not kept; and what repetitions of one seed differ by."""
    accept = sorted(shown.result.accept, key=lambda one: one.ok)
    found = [
        (
            Toned("kept", "good")
            if one.ok
            else Toned("EXCEEDED" if one.reason == EXCEEDED else one.reason or "", "bad"),
            *(one.path, one.cell, str(one.repeat)),
            *(text.limit(one.path, value) for value in (one.limit, one.actual)),
        )
        for one in accept
    ]
    yield Table(LIMITS, found, (4, 5), "Limits")
    if accept:
        yield Lines([f"{sum(one.ok for one in accept)} of {plural(len(accept), 'limit')} kept"])
    differ = []
    for one in shown.result.repeats or []:
        packet = "" if one.sequence is None else f"{one.stream} {one.sequence}"
        numbers = (one.largest_ns, one.packets, one.only_in_one)
        differ.append((one.slug, packet, one.timestamp or "", *map(str, numbers)))
    yield Table(REPEATS, differ, (3, 4, 5), "Differences between a cell's repetitions")


def _trust(shown: Shown) -> Iterator[Part]:
    """The verdict and label, each reason with what was found, where, what was expected and what to do; every rule."""
    result = shown.result
    head = f"Verdict: {result.verdict} · {shown.label} · {result.scenario} ({result.run})"
    yield Lines([head, *(f"  {sentence}" for sentence in (*label_reasons(result), *stated(result)))])
    yield from reasons_of(result)
    yield from rules_of(result)


def reasons_of(result: Result) -> Iterator[Part]:
    """Each reason of the verdict, with what was found, where, what was expected and what to do."""
    reasons = grouped_reasons(result)
    for reason in reasons:
        more: Sequence[str] = ()
        if len(reason.found) == 1:
            (found,) = reason.found
            said = [("where", "; ".join(found.where)), ("expected", found.expected), ("actual", found.actual)]
        else:
            lines = reason.lines()
            said = [("expected", reason.expected), *(("", line) for line in lines[:_FOUND_LINES])]
            more = lines[_FOUND_LINES:]
        details = [(what, line) for what, line in said if line]
        yield Finding(reason.severity, reason.finding, reason.id, details, more, reason.remedy)
    if reasons:
        yield Lines([f"{EXPLAINED} explains an id in parentheses"])


def rules_of(result: Result) -> Iterator[Part]:
    """Every rule with what it found, and the thresholds that rules judge by."""
    broken: dict[str, list[Reason]] = {}
    for reason in result.reasons:
        broken.setdefault(reason.id, []).append(reason)
    off = {one.id for one in result.turned_off}
    found: list[tuple[str, str, str]] = []
    for rule in (*RULES, *(one for one in OTHERS if one.id in broken)):
        outcome = Toned("nothing found", "good") if rule.id not in off else "turned off by the scenario"
        if reasons := broken.get(rule.id):
            outcome = Toned(f"{verdict(reasons)}, {plural(len(reasons), 'finding')}", "bad")
        found.append((rule.id, rule.name, outcome))
    quiet = sum(one.id not in broken and one.id not in off for one in RULES)
    summary = f"{quiet} of {len(found)} rules found nothing"
    table = Table(("rule", "check", "outcome"), found)
    yield Fold(f"{summary}: all rules", [table], f"{summary}; the report lists every rule")
    given = [
        (one.name, one.value, one.default, "the scenario" if one.given else "default")
        for one in threshold_lines(result)
    ]
    title = "Thresholds of the verdict: trust in a scenario"
    yield Table(("threshold", "value", "default", "set by"), given, (1, 2), title)


SECTIONS: Final[Mapping[str, Callable[[Shown], Iterator[Part]]]] = {
    "cells": _of_each_metric(figures_of),
    "intervals": _of_each_metric(intervals_of),
    "variation": _of_each_metric(variation_of),
    "comparison": _comparison,
    "stages": _stages,
    "timers": _timers,
    "missing": _missing,
    "anomalies": _anomalies,
    "losses": _losses,
    "loads": _loads,
    "talkers": _talkers,
    "gates": _gates,
    "ptp": _ptp,
    "clocks": _clocks,
    "testbed": _testbed,
    "tools": _tools,
    "limits": _limits,
    "trust": _trust,
}
"""The sections by the names that `latlab show` takes, in the order of the whole report."""

# Loads in words: where each ran, and how much of its work it did.


def load_ends(load: Load) -> tuple[str, str]:
    """Where it comes from and where it goes; of one that is sent nowhere where it is, and nothing."""
    return (f"on {load.on}", "") if load.on else (load.from_ or "", load.to or "")


def load_work(load: Load) -> str:
    """What it did a second of what is no traffic: "exits 812 k/s"; blank of one that does nothing else than send.

    Of stress-ng its options precede its bogus operations, which say nothing without them.
    """
    rates = [f"{name} {rate(per_s, '/s')}" for name, per_s in load.work_per_s.items()]
    asked = load.work
    if not asked:
        return ", ".join(rates)
    workers = f" by {asked.workers} workers" if asked.workers > 1 else ""
    return f"{asked.what}{workers}: {', '.join(rates)}"


# Talkers: what each packet costs them in CPU time and wake-ups.


TALKERS_TITLE: Final = "Talkers: CPU time and wake-ups of the sending thread for each packet, warm-up included"
TALKERS_HEADINGS: Final = ("cell", "repeat", "talker", "packets", "CPU time per packet", "wake-ups per packet")
TALKERS_FIGURES: Final = range(3, len(TALKERS_HEADINGS))
"""Which of them are numbers."""


@dataclass(frozen=True)
class Cost:
    """What each packet cost one talker of a cell: ns of CPU time, and wake-ups. several: the cell has more of them."""

    cell: Cell
    host: str
    several: bool
    packets: int
    cpu_ns: float
    wakeups: float


def costs(result: Result) -> Iterator[Cost]:
    """Each talker that sent and reported its use of the CPU, where any stream of the run has launch times: those are
    what batches are for.
    """
    if not any(block.lead_ns is not None for cell in result.cells for block in cell.streams.values()):
        return
    for cell in rows.ordered_cells(result):
        for one in cell.talkers:
            if packets := one.packets:
                several = len(cell.talkers) > 1
                yield Cost(cell, one.host, several, packets, one.cpu_ns / packets, one.wakeups / packets)


def talker_rows(result: Result) -> Iterator[Sequence[str]]:
    """A row for each of `costs`."""
    for one in costs(result):
        yield (
            cell_title(one.cell),
            str(one.cell.repeat),
            one.host,
            str(one.packets),
            duration(one.cpu_ns),
            f"{one.wakeups:.3g}",
        )
