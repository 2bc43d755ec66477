"""The result as tables in a terminal or a file: summaries, repetitions, what is missing, loads, limits, verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from latlab.analysis.accept import EXCEEDED
from latlab.analysis.counts import counted
from latlab.analysis.metrics import TIMER_METRICS
from latlab.analysis.words import plural
from latlab.report import (
    anomalies,
    intervals,
    loads,
    ptp,
    repeats,
    rows,
    slots,
    talkers,
    text,
    timers,
    traces,
    unmeasured,
    where,
)
from latlab.report.comparison.page import ComparedMetric, compared_metrics
from latlab.report.places import cell_title
from latlab.report.published import PublishedTable, headline, headline_tables, published_tables
from latlab.report.reasons import EXPLAINED, Reason, grouped_reasons
from latlab.report.rows import Column, Summary
from latlab.report.testbed import label_reasons, label_text
from latlab.report.thresholds import stated

DEFAULT_METRICS = ("latency", "latency_user")
_VERDICT_STYLE = {"trusted": "bold green", "suspect": "bold yellow", "untrusted": "bold red"}
_NARROW = (rows.MOMENTS + rows.COUNTS, rows.PERCENTILES)
_WORST_LINES = 8
"""How many lines about slowest packets one metric may have: with more, each stream has one."""

_INTERVAL_ROWS = 60
"""A table of intervals with more rows is not shown: the summary before it has the figures."""

_DIFFERENCES = 8
"""How many differences between cells one metric may tell of."""

_FOUND_LINES = 4
"""How many lines one reason may have for what differs from place to place; all of them are on the page."""


_WAITED = ("wakeup", *(metric.name for metric in TIMER_METRICS))
"""Of timers: the whole, and its parts."""


def default_metrics(result: Mapping[str, Any]) -> tuple[str, ...]:
    """The metrics that are shown unless others are asked for: the headline first; those with published figures, too."""
    published = (one["metric"] for one in result.get("published", []))
    first = ("round_trip",) if any("probe" in block and not timers.waits(block) for block in _blocks(result)) else ()
    waited = _WAITED if timers.any_waits(result) else ()
    about = [named] if (named := headline(result)) else []
    return tuple(dict.fromkeys((*about, *first, *DEFAULT_METRICS, *waited, *published)))


def _blocks(result: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (block for cell in result["cells"] for block in cell["streams"].values())


def print_result(result: Mapping[str, Any], console: Console, metrics: Sequence[str] = DEFAULT_METRICS) -> None:
    """Print the whole result: summaries, what has none, remarks, loads, limits, and last the verdict.

    A console without a terminal gets plain text: rich leaves out every colour code there.
    """
    for part in (
        *summary_tables(result, metrics),
        *comparison_lines(result),
        *where_tables(result),
        *unmeasured_tables(result),
        *remark_lines(result),
        *anomaly_tables(result),
        *timer_tables(result),
        *trace_tables(result),
        *talker_tables(result),
        *gate_tables(result),
        *ptp_tables(result),
        *load_tables(result),
        *accept_tables(result),
        *alike_tables(result),
        verdict(result),
    ):
        console.print(part)
        console.print()


def summary_tables(result: Mapping[str, Any], metrics: Sequence[str] = DEFAULT_METRICS) -> list[RenderableType]:
    """Each metric's tables, in µs: cells × repeats down, statistics across, blank where null; then what others
    published, their intervals, how far repetitions differ, and where the slowest packets lost their time.

    A metric that no stream has gets no table. Where the terminal is too narrow for all columns, the
    percentiles stand in a second table below.
    """
    present = rows.metric_names(result, metrics)
    parts: list[RenderableType] = []
    for name in metrics:
        if name in present:
            parts += [*figure_tables(result, name), *interval_tables(result, name), *spread_tables(result, name)]
            parts += _worst(result, name)
    return parts


def figure_tables(result: Mapping[str, Any], metric: str) -> list[RenderableType]:
    """The metric's figures of each repetition, and what others published."""
    return [
        *(_published(table) for table in headline_tables(result, metric)),
        *(_Summary(result, table) for table in rows.summaries(result, metric)),
        *(_published(table) for table in published_tables(result, metric)),
    ]


def spread_tables(result: Mapping[str, Any], metric: str) -> list[RenderableType]:
    """How far repetitions of the metric differ; none where there is one of each."""
    return [_Spreads(result, table) for table in rows.summaries(result, metric) if repeats.spreads(table)]


def interval_tables(result: Mapping[str, Any], metric: str) -> list[RenderableType]:
    """A table of the 95 % intervals that n supports, and why it does not support others; none without any."""
    found = intervals.intervals(result, metric)
    if found is None:
        return []
    headings, shown = found.filled()
    if len(headings) == intervals.NAMES + 1:
        return [Text(f"{metric}: {line}") for line in found.notes()]
    if len(shown) > _INTERVAL_ROWS:
        where_else = "in the report, and in latlab report --format md"
        return [Text(f"{metric}: 95 % intervals of {plural(len(shown), 'row')} stand {where_else}")]
    table = _table()
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number < intervals.NAMES else "right", overflow="fold")
    for row in shown:
        table.add_row(*_texts(*row))
    notes = (Text(f"  {line}") for line in found.notes())
    return [Group(Text(f"{metric}: {intervals.TITLE}", style="bold"), table, *notes)]


def _published(found: PublishedTable) -> Group:
    table = _table()
    for number, heading in enumerate(found.headings):
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    for row in found.rows:
        table.add_row(*_texts(*row))
    # A title of the table's own would be folded to the table's width.
    return Group(Text(found.title, style="bold"), table)


def comparison_lines(result: Mapping[str, Any]) -> list[RenderableType]:
    """How many differences between cells are shown of each metric, and the first of them; all are on the page."""
    return [Text("\n".join(_compared(one))) for one in compared_metrics(result)]


def _compared(one: ComparedMetric) -> Iterator[str]:
    yield f"Cells compared, {one.metric}: {one.summary}"
    shown = one.differences
    yield from (f"  {line}" for line in shown[:_DIFFERENCES])
    if len(shown) > _DIFFERENCES:
        yield f"  and {len(shown) - _DIFFERENCES} more, in the report"


def where_tables(result: Mapping[str, Any]) -> list[RenderableType]:
    """Where the time went, a table a cell and stream."""
    tables = where.where_tables(result)
    return [Group(Text(one.title, style="bold"), _where(one), Text(f"  {one.note}")) for one in tables]


def _where(found: where.Where) -> Table:
    table = _table()
    for number, heading in enumerate(where.HEADINGS):
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    for row in found.rows:
        table.add_row(*_texts(*row))
    return table


def unmeasured_tables(result: Mapping[str, Any]) -> list[RenderableType]:
    """The cells that this machine cannot build, with what it lacks, and those that did not run to their end."""
    parts: list[RenderableType] = []
    lacking = (("; ".join(one.cells), one.what, one.where, one.remedy) for one in unmeasured.unavailable(result))
    headings = ("cells", "what is missing", "where", "how to get it")
    parts += _texts_table("Not available on this machine", headings, lacking)
    if broken := unmeasured.unfinished(result):
        lines = ("Not run to the end:", *(f"  {one.text}" for one in broken))
        parts.append(Text("\n".join(lines)))
    return parts


def remark_lines(result: Mapping[str, Any]) -> list[RenderableType]:
    """What was refused, lost, duplicated and so on, a line a cell; nothing where all went as it should."""
    found = rows.remarks(result)
    return [Text("\n".join((f"{rows.counted_title(result)}:", *(f"  {line}" for line in found))))] if found else []


def anomaly_tables(result: Mapping[str, Any]) -> list[RenderableType]:
    """Tables of the anomalies' classes, of what clean windows leave out, and of user-defined windows; each if any."""
    label = label_text(result)
    classes = (row.texts for row in anomalies.anomaly_rows(result))
    return [
        *_texts_table(f"{anomalies.TITLE} · {label}", anomalies.HEADINGS, classes),
        *_texts_table(
            f"{anomalies.WINDOW_TITLE} · {label}",
            anomalies.WINDOW_HEADINGS[:-1],
            (row.texts[:-1] for row in anomalies.window_rows(result)),
        ),
        *map(Text, anomalies.cut_lines(result)),
        *([Text(f"{uncut}.")] if (uncut := anomalies.uncut_text(result)) else []),
        *_texts_table(f"{anomalies.CHOSEN_TITLE} · {label}", anomalies.CHOSEN_HEADINGS, anomalies.chosen_rows(result)),
    ]


def gate_tables(result: Mapping[str, Any]) -> list[RenderableType]:
    """One table of the streams that have gates: promised, measured, missed; none where no stream has any."""
    title = f"{slots.TITLE} · {label_text(result)}"
    return _texts_table(title, slots.HEADINGS, (row.texts for row in slots.slot_rows(result)))


def talker_tables(result: Mapping[str, Any]) -> list[RenderableType]:
    """One table of what packets cost their talkers; none where no stream has launch times."""
    return _texts_table(f"{talkers.TITLE} · {label_text(result)}", talkers.HEADINGS, talkers.talker_rows(result))


def timer_tables(result: Mapping[str, Any]) -> list[RenderableType]:
    """One table of the timers: above their thresholds, worst window, told interrupts; none where there is no timer."""
    title = f"{timers.TITLE} · {label_text(result)}"
    return _texts_table(title, timers.HEADINGS, (row.texts for row in timers.timer_rows(result)))


def trace_tables(result: Mapping[str, Any]) -> list[RenderableType]:
    """Of listeners that were traced: how their packets woke them, and the intervals on the way; none without any."""
    label = label_text(result)
    return [
        part
        for table in traces.trace_tables(result)
        for part in _texts_table(f"{table.title} · {label}", table.headings, table.rows)
    ]


def ptp_tables(result: Mapping[str, Any]) -> list[RenderableType]:
    """One table of PTP's ports; none where there is none."""
    title = f"{ptp.TITLE} · {label_text(result)}"
    return _texts_table(title, ptp.HEADINGS, (row.texts for row in ptp.ptp_rows(result)))


def load_tables(result: Mapping[str, Any]) -> list[RenderableType]:
    """One table of the loads that ran and the rates they achieved; none where there was no load."""
    table = _table(f"Loads: what ran and what it achieved · {label_text(result)}")
    for heading in ("cell", "repeat", "load", "from", "to"):
        table.add_column(heading, overflow="fold")
    for heading in ("sent", "received", "packets"):
        table.add_column(heading, justify="right")
    table.add_column("work", overflow="fold")
    for cell in rows.ordered_cells(result):
        for load in cell["loads"]:
            version = f" {load['version']}" if load.get("version") else ""
            table.add_row(
                *_texts(
                    cell_title(cell),
                    str(cell["repeat"]),
                    f"{load['name']} ({load['kind']}{version})",
                    *loads.ends(load),
                    text.rate(load["sent_bps"], "bit/s"),
                    text.rate(load["received_bps"], "bit/s"),
                    text.rate(load["sent_pps"], "/s"),
                    loads.work(load),
                )
            )
    return [table] if table.row_count else []


def accept_tables(result: Mapping[str, Any]) -> list[RenderableType]:
    """A table of the scenario's limits that were not kept, and how many were; nothing where it sets no limit."""
    table = _table("Limits not kept")
    for heading in ("", "limit on", "cell", "repeat"):
        table.add_column(heading, overflow="fold")
    for heading in ("limit", "actual"):
        table.add_column(heading, justify="right")
    broken = [entry for entry in result["accept"] if not entry["ok"]]
    for entry in broken:
        mark = Text("EXCEEDED" if entry["reason"] == EXCEEDED else entry["reason"], style="bold red")
        limit, actual = (text.limit(entry["path"], entry[key]) for key in ("limit", "actual"))
        table.add_row(mark, *_texts(entry["path"], entry["cell"], str(entry["repeat"]), limit, actual))
    kept = Text(f"{len(result['accept']) - len(broken)} of {plural(len(result['accept']), 'limit')} kept")
    tables: list[RenderableType] = [table] if broken else []
    return [*tables, kept] if result["accept"] else tables


def alike_tables(result: Mapping[str, Any]) -> list[RenderableType]:
    """A table of what the repetitions of each cell differ by at most, packet by packet, where that was asked for."""
    table = _table("Largest difference between a cell's repetitions")
    for heading in ("cell", "of packet", "timestamp"):
        table.add_column(heading, overflow="fold")
    for heading in ("ns", "packets", "timestamps in one only"):
        table.add_column(heading, justify="right")
    for entry in result.get("repeats", []):
        packet = "" if entry["sequence"] is None else f"{entry['stream']} {entry['sequence']}"
        numbers = (entry["largest_ns"], entry["packets"], entry["only_in_one"])
        figures = ("" if number is None else f"{number}" for number in numbers)
        table.add_row(*_texts(entry["slug"], packet, entry["timestamp"] or "", *figures))
    return [table] if table.row_count else []


def verdict(result: Mapping[str, Any]) -> RenderableType:
    """The verdict and label in one line, then each reason: what was found, where, what was expected, and what to do."""
    word = result["verdict"]
    head = Text.assemble(
        "Verdict: ",
        (word, _VERDICT_STYLE.get(word, "bold")),
        f" · {label_text(result)} · {result['scenario']} ({result['run']})",
    )
    labels = (Text(f"  {sentence}") for sentence in label_reasons(result))
    judged = (Text(f"  {sentence}") for sentence in stated(result))
    reasons = [_reason(reason) for reason in grouped_reasons(result)]
    more = [Text(f"  {EXPLAINED} prints more on an id in parentheses", "dim")] if reasons else []
    return Group(head, *labels, *judged, *reasons, *more)


def _reason(reason: Reason) -> Text:
    line = Text.assemble(
        "  ", (reason.severity, _VERDICT_STYLE.get(reason.severity, "")), f": {reason.finding} ({reason.id})"
    )
    if len(reason.found) == 1:
        (found,) = reason.found
        said = [("where", "; ".join(found.where)), ("expected", found.expected), ("actual", found.actual)]
        lines = [f"{key}: {value}" for key, value in said if value]
    else:
        lines = [f"expected: {reason.expected}"] if reason.expected else []
        lines += reason.lines()[:_FOUND_LINES]
        more = len(reason.found) - _FOUND_LINES
        lines += [f"and {more} more, in the report"] if more > 0 else []
    lines += [f"remedy: {reason.remedy}"] if reason.remedy else []
    return line.append("".join(f"\n    {one}" for one in lines))


class _Summary:
    """One metric's table, which takes one of two shapes when the width is known."""

    def __init__(self, result: Mapping[str, Any], summary: Summary) -> None:
        clocks = f" ± {bounds}" if (bounds := summary.uncertainty_range) else ""
        trust = f"{label_text(result)} · {result['verdict']}"
        self._title = f"{summary.title}, µs{clocks} · {summary.of_what} · {trust}"
        self._summary = summary

    def __rich_console__(self, console: Console, options: Any) -> Iterator[RenderableType]:
        wide = _figures(self._summary, rows.COLUMNS, clocks=True)
        yield Text(self._title, style="bold")
        yield from map(Text, self._summary.notes)
        if _fits(wide, console, options):
            yield wide
        else:
            # There is more room beside the percentiles.
            yield _figures(self._summary, _NARROW[0], clocks=False)
            yield Text(f"{self._summary.title}, percentiles", style="bold")
            yield _figures(self._summary, _NARROW[1], clocks=True)


_HEADINGS = {column.key: column.heading for column in rows.COLUMNS}


class _Spreads:
    """What the repetitions of each cell say together, and how far they differ; as many figures as fit."""

    def __init__(self, result: Mapping[str, Any], summary: Summary) -> None:
        self._title = f"{summary.title}: mean of the repetitions [95 % interval], µs · {label_text(result)}"
        self._headings = summary.headings[:-1]
        self._spreads = repeats.spreads(summary)

    def __rich_console__(self, console: Console, options: Any) -> Iterator[RenderableType]:
        shorter = (repeats.FIGURES, ("p50", "p99", "max"), ("p50", "max"), ("p50",))
        tables = [self._shape(figures) for figures in shorter]
        yield Text(self._title, style="bold")
        yield next((table for table in tables[:-1] if _fits(table, console, options)), tables[-1])

    def _shape(self, figures: Sequence[str]) -> Table:
        table = _table()
        for heading in self._headings:
            table.add_column(heading, overflow="fold")
        for heading in ("repeats", *(_HEADINGS.get(name, name) for name in figures), "stddev in one", "between"):
            table.add_column(heading, justify="right", no_wrap=True)
        for spread in self._spreads:
            told = (str(spread.repeats), *(spread.text(name) for name in figures), spread.within, spread.between)
            table.add_row(*_texts(*spread.labels, *told))
        return table


def _figures(summary: Summary, columns: Sequence[Column], *, clocks: bool) -> Table:
    """A row for each of the summary's. clocks: each with its own ±, where the metric is between two clocks."""
    table = _table()
    clocks = clocks and summary.crosses_clocks
    for heading in summary.headings:
        table.add_column(heading, overflow="fold")
    for column in columns:
        table.add_column(column.heading, justify="right", no_wrap=True)
    if clocks:
        table.add_column("±", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    labels_differ = len({row.label for row in summary.rows}) > 1
    for row in summary.rows:
        figures = [column.text(row.statistics) if row.statistics else "" for column in columns]
        figures += [row.uncertainty] if clocks else []
        lacking = counted({"unbounded": rows.unbounded(row.statistics or {})})
        remarks = filter(None, (row.remark, lacking, row.label if labels_differ else ""))
        table.add_row(*_texts(*summary.labels(row), *figures, ", ".join(remarks)))
    return table


def _worst(result: Mapping[str, Any], metric: str) -> list[RenderableType]:
    lines = rows.worst_lines(result, metric)
    if len(lines) > _WORST_LINES:
        lines = [
            *rows.worst_of_streams(result, metric),
            "(of all cells; each cell's own slowest is in the report)",
        ]
    return [Text("\n".join(lines))] if lines else []


def _fits(table: Table, console: Console, options: Any) -> bool:
    needed: int = Measurement.get(console, options.update(max_width=1000), table).maximum
    return needed <= int(options.max_width)


def _table(title: str | None = None) -> Table:
    return Table(
        title=title and Text(title, style="bold"),
        title_justify="left",
        caption_justify="left",
        caption_style="",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )


def _texts_table(title: str, headings: Iterable[str], rows_of_texts: Iterable[Iterable[str]]) -> list[RenderableType]:
    """A table of words, or none where it would have no row."""
    table = _table(title)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows_of_texts:
        table.add_row(*_texts(*row))
    return [table] if table.row_count else []


def _texts(*values: str) -> list[Text]:
    """Values as literal text: a name in square brackets is no markup."""
    return [Text(value) for value in values]
