"""The sections of a report: each a function from a result to its tables and lines, in the order of SECTIONS."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from latlab.analysis.accept import EXCEEDED
from latlab.analysis.counts import counted
from latlab.analysis.metrics import TIMER_METRICS
from latlab.analysis.words import plural
from latlab.data.run_folder import RunFolder
from latlab.report import (
    anomalies,
    chain_table,
    intervals,
    late_limits,
    loads,
    ptp,
    repeats,
    rows,
    slots,
    talkers,
    testbed,
    text,
    timers,
    traces,
    unmeasured,
    variation,
    where,
)
from latlab.report.chain_view import ChainView
from latlab.report.chains import chain_views
from latlab.report.comparison.page import TITLE as COMPARISON
from latlab.report.comparison.page import compared_metrics
from latlab.report.document import Finding, Lines, OneOf, Part, Table
from latlab.report.places import cell_title
from latlab.report.published import headline, headline_tables, published_tables
from latlab.report.reasons import EXPLAINED, grouped_reasons
from latlab.report.rows import Column, Summary
from latlab.report.testbed import label_reasons, label_text
from latlab.report.thresholds import stated, threshold_lines

DEFAULT_METRICS: Final = ("latency", "latency_user")
WORST_LINES: Final = 8
"""How many lines about slowest packets one metric may have: with more, each stream has one."""
CLOCKS: Final = ("cell", "repeat", "from", "to", "known from", "lower", "upper")
BRIDGES: Final = ("cells", "bridge", "host", "uplink", "guests", "how it is made")
STAMPS: Final = ("cells", "agent", "by eBPF", "by the socket", "to know")
STAMPS_COMPARED: Final = ("cells", "agent", "timestamp", "packets", "least ns", "median ns", "largest ns")
GUESTS: Final = ("cells", "guest", "host", "image", "kernel", "runs by", "vCPUs", "memory", "started from")
TOOLS: Final = ("cell", "repeat", "what", "tool", "command")
UNAVAILABLE: Final = ("cells", "what is missing", "where", "how to get it")
LIMITS: Final = ("", "limit on", "cell", "repeat", "limit", "actual")
LOADS: Final = ("cell", "repeat", "load", "from", "to", "sent", "received", "packets", "work")
REPEATS: Final = ("cell", "of packet", "timestamp", "ns", "packets", "timestamps in one only")
_NARROW: Final = (rows.MOMENTS + rows.COUNTS, rows.PERCENTILES)
_WAITED: Final = ("wakeup", *(metric.name for metric in TIMER_METRICS))
"""Of timers: the whole, and its parts."""
_FOUND_LINES: Final = 4
"""How many lines one reason may have for what differs from place to place; all of them are on the page."""
_HEADINGS: Final = {column.key: column.heading for column in rows.COLUMNS}


@dataclass(frozen=True)
class Shown:
    """What sections are made of. metrics: those with tables, in their order. folder: the run's, where it is there."""

    result: Mapping[str, Any]
    metrics: Sequence[str]
    folder: RunFolder | None = None

    @property
    def present(self) -> tuple[str, ...]:
        """Those of the metrics that any stream has."""
        there = rows.metric_names(self.result, self.metrics)
        return tuple(name for name in self.metrics if name in there)

    @property
    def label(self) -> str:
        """The result's label, which stands beside figures."""
        return label_text(self.result)


def default_metrics(result: Mapping[str, Any]) -> tuple[str, ...]:
    """The metrics that are shown unless others are asked for: the headline first, then those with published figures."""
    published = (one["metric"] for one in result.get("published", []))
    blocks = [block for cell in result["cells"] for block in cell["streams"].values()]
    first = ("round_trip",) if any("probe" in block and not timers.waits(block) for block in blocks) else ()
    waited = _WAITED if timers.any_waits(result) else ()
    about = [named] if (named := headline(result)) else []
    return tuple(dict.fromkeys((*about, *published, *first, *DEFAULT_METRICS, *waited)))


def parts_of(name: str, shown: Shown) -> list[Part]:
    """The parts of the section of that name, one of SECTIONS, that have something to show."""
    return [part for part in SECTIONS[name](shown) if not _is_empty(part)]


def _is_empty(part: Part) -> bool:
    if isinstance(part, Lines):
        return not part.lines
    return isinstance(part, Table) and not part.rows


# Figures


def _cells(shown: Shown) -> Iterator[Part]:
    """Each metric's figures, cells × repetitions down, in µs, blank where null; and what others published."""
    for metric in shown.present:
        for one in headline_tables(shown.result, metric):
            yield _published(one)
        for summary in rows.summaries(shown.result, metric):
            yield _figures(shown, summary)
        for one in published_tables(shown.result, metric):
            yield _published(one)
        for summary in rows.summaries(shown.result, metric):
            yield _spreads(shown, summary)
        lines = rows.worst_lines(shown.result, metric)
        if len(lines) > WORST_LINES:
            lines = [
                *rows.worst_of_streams(shown.result, metric),
                "(of all cells; each cell's own slowest is in the report)",
            ]
        yield Lines(lines)


def _published(found: Any) -> Table:
    return Table(found.headings, found.rows, range(1, len(found.headings)), found.title)


def _figures(shown: Shown, summary: Summary) -> OneOf:
    """One metric's table; where it does not fit, the percentiles stand in a second one below."""
    clocks = f" ± {bounds}" if (bounds := summary.uncertainty_range) else ""
    trust = f"{shown.label} · {shown.result['verdict']}"
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
        figures += [row.uncertainty] if clocks else []
        unbounded = counted({"unbounded": rows.unbounded(row.statistics or {})})
        remarks = filter(None, (row.remark, unbounded, row.label if labels_differ else ""))
        found.append((*summary.labels(row), *figures, ", ".join(remarks)))
    headings = (*summary.headings, *(column.heading for column in columns), *(["±"] if clocks else []), "")
    return Table(headings, found, range(len(summary.headings), len(headings) - 1), title, notes=notes)


def _spreads(shown: Shown, summary: Summary) -> OneOf | Lines:
    """What the repetitions of each cell say together, and how far they differ; as many figures as fit."""
    found = repeats.spreads(summary)
    if not found:
        return Lines(())
    title = f"{summary.title}: mean of the repetitions [95 % interval], µs · {shown.label}"
    names = summary.headings[:-1]

    def shape(figures: Sequence[str]) -> Table:
        headings = ("repeats", *(_HEADINGS.get(name, name) for name in figures), "stddev in one", "between")
        texts = [
            (*one.labels, str(one.repeats), *(one.text(name) for name in figures), one.within, one.between)
            for one in found
        ]
        return Table((*names, *headings), texts, range(len(names), len(names) + len(headings)), title)

    return OneOf([[shape(figures)] for figures in (repeats.FIGURES, ("p50", "p99", "max"), ("p50", "max"), ("p50",))])


def _intervals(shown: Shown) -> Iterator[Part]:
    """The 95 % intervals that n supports, and why it does not support others."""
    for metric in shown.present:
        if found := intervals.intervals(shown.result, metric):
            headings, filled = found.filled()
            if len(headings) == intervals.NAMES + 1:
                yield Lines([f"{metric}: {line}" for line in found.notes()])
            else:
                title = f"{metric}: {intervals.TITLE}"
                yield Table(headings, filled, range(intervals.NAMES, len(headings)), title, remarks=found.notes())
            yield Lines([*found.supports, *found.tails])


def _variation(shown: Shown) -> Iterator[Part]:
    for metric in shown.present:
        found = variation.variation_rows(shown.result, metric)
        title = f"{metric}: {variation.TITLE}"
        yield Table(variation.HEADINGS, found, variation.NUMBERS, title, notes=[variation.NOTE])


def _comparison(shown: Shown) -> Iterator[Part]:
    for one in compared_metrics(shown.result):
        yield Lines([f"{one.summary}."], f"{COMPARISON}: {one.metric}")
        for group in one.groups:
            yield Lines(list(group.lines), group.title)
        yield Lines(one.notes, "About these comparisons")


# Where the time went


def _stages(shown: Shown) -> Iterator[Part]:
    for one in where.where_tables(shown.result):
        yield Table(where.HEADINGS, one.rows, range(1, len(where.HEADINGS)), one.title, remarks=[one.note])
    yield from (chain_part(view) for view in chain_views(shown.result).values())
    yield from _timers(shown)
    for table in traces.trace_tables(shown.result):
        yield Table(table.headings, table.rows, table.figures, f"{table.title} · {shown.label}")


def chain_part(view: ChainView) -> Table:
    """The stages of a stream's typical and worst packets, a row each."""
    headings = chain_table.headings(view)
    numbers = range(chain_table.NAMES, len(headings))
    remarks = [view.note, *chain_table.sentences(view)]
    return Table(headings, list(chain_table.table_rows(view)), numbers, chain_table.title(view), remarks=remarks)


def _timers(shown: Shown) -> Iterator[Part]:
    found = [row.texts for row in timers.timer_rows(shown.result)]
    yield Table(timers.HEADINGS, found, (), f"{timers.TITLE} · {shown.label}")


def _anomalies(shown: Shown) -> Iterator[Part]:
    """The anomalies' classes, what clean windows leave out, user-defined windows, and the thresholds."""
    result = shown.result
    found = [row.texts for row in anomalies.anomaly_rows(result)]
    yield Table(anomalies.HEADINGS, found, (4, 5), f"{anomalies.TITLE} · {shown.label}")
    windows = [row.texts for row in anomalies.window_rows(result)]
    title = f"{anomalies.WINDOW_TITLE} · {shown.label}"
    yield Table(anomalies.WINDOW_HEADINGS, windows, anomalies.WINDOW_NUMBERS, title)
    yield Lines([*anomalies.cut_lines(result), *([f"{uncut}."] if (uncut := anomalies.uncut_text(result)) else [])])
    chosen = list(anomalies.chosen_rows(result))
    title = f"{anomalies.CHOSEN_TITLE} · {shown.label}"
    yield Table(anomalies.CHOSEN_HEADINGS, chosen, anomalies.WINDOW_NUMBERS, title)
    if note := late_limits.late_note(result):
        limits = list(late_limits.late_rows(result))
        yield Table(late_limits.HEADINGS, limits, late_limits.NUMBERS, late_limits.TITLE, notes=[note])


# What else there is to know


def _missing(shown: Shown) -> Iterator[Part]:
    """The cells that this machine cannot build, those that did not run to their end, and what was counted."""
    found = [("; ".join(one.cells), one.what, one.where, one.remedy) for one in unmeasured.unavailable(shown.result)]
    yield Table(UNAVAILABLE, found, (), "Not available on this machine")
    yield Lines([one.text for one in unmeasured.unfinished(shown.result)], "Not run to the end")
    yield Lines(rows.remarks(shown.result), rows.counted_title(shown.result))


def _loads(shown: Shown) -> Iterator[Part]:
    found = [
        (
            *(cell_title(cell), str(cell["repeat"])),
            f"{load['name']} ({load['kind']}{' ' + load['version'] if load.get('version') else ''})",
            *loads.ends(load),
            *(text.rate(load[key], "bit/s") for key in ("sent_bps", "received_bps")),
            text.rate(load["sent_pps"], "/s"),
            loads.work(load),
        )
        for cell in rows.ordered_cells(shown.result)
        for load in cell["loads"]
    ]
    yield Table(LOADS, found, (5, 6, 7), f"Loads: what ran and what it achieved · {shown.label}")
    talkers_found = list(talkers.talker_rows(shown.result))
    yield Table(talkers.HEADINGS, talkers_found, talkers.FIGURES, f"{talkers.TITLE} · {shown.label}")


def _clocks(shown: Shown) -> Iterator[Part]:
    found = [
        (
            *(cell_title(outcome), str(outcome["repeat"]), clock["from"], clock["to"], clock["source"]),
            *(text.microseconds(clock[end]) for end in ("lower_ns", "upper_ns")),
        )
        for outcome, cell in _cell_documents(shown)
        for clock in cell.get("clocks", [])
    ]
    title = "Clocks: the second host's clock − the first one's lies between these bounds, µs"
    yield Table(CLOCKS, found, (5, 6), title)


def _testbed(shown: Shown) -> Iterator[Part]:
    for title, headings, parts in (
        ("Bridges", BRIDGES, testbed.bridges(shown.result)),
        ("Guests", GUESTS, testbed.guests(shown.result)),
    ):
        yield Table(headings, [("; ".join(one.cells), *one.values) for one in parts], (), title)
    taken = [("; ".join(one.cells), *one.values) for one in testbed.stamps_taken(shown.result)]
    yield Table(STAMPS, taken, (), "Kernel timestamps: who took them")
    compared = [("; ".join(one.cells), *one.values) for one in testbed.stamps_compared(shown.result)]
    yield Table(STAMPS_COMPARED, compared, (3, 4, 5, 6), "Kernel timestamps: eBPF's less the socket's")


def _tools(shown: Shown) -> Iterator[Part]:
    """What others' programs ran as loads and probes."""
    found = []
    for outcome, cell in _cell_documents(shown):
        ran = [(f"load {one['name']}", one["kind"], one) for one in outcome["loads"]]
        ran += [(f"probe {one['name']}", one["probe"], one) for one in cell.get("probes", []) if one.get("tool")]
        for what, kind, one in ran:
            for command in one.get("commands") or [""]:
                version = f"{kind} {one.get('version') or ''}".strip()
                found.append((cell_title(outcome), str(outcome["repeat"]), what, version, _command(command)))
    yield Table(TOOLS, found, (), "Tools that loads and probes ran")


def _command(words: Any) -> str:
    if isinstance(words, Mapping):
        words = words.get("command", "")
    return words if isinstance(words, str) else " ".join(map(str, words or ()))


def _gates(shown: Shown) -> Iterator[Part]:
    found = [row.texts for row in slots.slot_rows(shown.result)]
    yield Table(slots.HEADINGS, found, (), f"{slots.TITLE} · {shown.label}")


def _ptp(shown: Shown) -> Iterator[Part]:
    yield Table(ptp.HEADINGS, [row.texts for row in ptp.ptp_rows(shown.result)], (), f"{ptp.TITLE} · {shown.label}")


def _limits(shown: Shown) -> Iterator[Part]:
    """The scenario's limits, those first that were not kept; and what repetitions of one seed differ by."""
    accept = sorted(shown.result["accept"], key=lambda one: bool(one["ok"]))
    found = [
        (
            "kept" if one["ok"] else "EXCEEDED" if one["reason"] == EXCEEDED else one["reason"],
            *(one["path"], one["cell"], str(one["repeat"])),
            *(text.limit(one["path"], one[key]) for key in ("limit", "actual")),
        )
        for one in accept
    ]
    yield Table(LIMITS, found, (4, 5), "Limits")
    if accept:
        yield Lines([f"{sum(one['ok'] for one in accept)} of {plural(len(accept), 'limit')} kept"])
    differ = []
    for one in shown.result.get("repeats") or []:
        packet = "" if one["sequence"] is None else f"{one['stream']} {one['sequence']}"
        numbers = (one["largest_ns"], one["packets"], one["only_in_one"])
        figures = ("" if number is None else f"{number}" for number in numbers)
        differ.append((one["slug"], packet, one["timestamp"] or "", *figures))
    yield Table(REPEATS, differ, (3, 4, 5), "Largest difference between a cell's repetitions")


def _trust(shown: Shown) -> Iterator[Part]:
    """The verdict and label, each reason with what was found, where, what was expected and what to do; thresholds."""
    result = shown.result
    head = f"Verdict: {result['verdict']} · {shown.label} · {result['scenario']} ({result['run']})"
    yield Lines([head, *(f"  {sentence}" for sentence in (*label_reasons(result), *stated(result)))])
    reasons = grouped_reasons(result)
    for reason in reasons:
        if len(reason.found) == 1:
            (found,) = reason.found
            said = [("where", "; ".join(found.where)), ("expected", found.expected), ("actual", found.actual)]
        else:
            said = [("expected", reason.expected)]
            said += [("", line) for line in reason.lines()[:_FOUND_LINES]]
            more = len(reason.found) - _FOUND_LINES
            said += [("", f"and {more} more, in the report")] if more > 0 else []
        said.append(("remedy", reason.remedy))
        details = [(what, line) for what, line in said if line]
        yield Finding(reason.severity, reason.finding, reason.id, details)
    if reasons:
        yield Lines([f"{EXPLAINED} prints more on an id in parentheses"])
    found_lines = threshold_lines(result)
    given = [(one.name, one.value, one.default, "the scenario" if one.given else "default") for one in found_lines]
    yield Table(("threshold", "value", "default", "set by"), given, (1, 2))


SECTIONS: Final[Mapping[str, Callable[[Shown], Iterator[Part]]]] = {
    "cells": _cells,
    "intervals": _intervals,
    "variation": _variation,
    "comparison": _comparison,
    "stages": _stages,
    "missing": _missing,
    "anomalies": _anomalies,
    "loads": _loads,
    "gates": _gates,
    "ptp": _ptp,
    "clocks": _clocks,
    "testbed": _testbed,
    "tools": _tools,
    "limits": _limits,
    "trust": _trust,
}
"""The sections by the names that `latlab show` takes, in the order of the whole report."""


def _cell_documents(shown: Shown) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """(cell of the result, cell.json) of each cell that ran; none where the run's folder is not there."""
    if shown.folder is None:
        return
    for outcome in rows.ordered_cells(shown.result):
        cell = shown.folder.cell(outcome["slug"], outcome["repeat"])
        if (cell.path / "cell.json").exists():
            yield outcome, cell.cell()
