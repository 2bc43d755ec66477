"""The result as tables in a terminal or a file: summaries, repetitions, what is missing, loads, limits, verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from latlab.analysis.accept import EXCEEDED
from latlab.analysis.counts import counted
from latlab.report import ptp, repeats, rows, slots, text, unmeasured
from latlab.report.places import cell_title
from latlab.report.published import PublishedTable, published_tables
from latlab.report.reasons import Reason, grouped_reasons
from latlab.report.rows import Column, Summary
from latlab.report.testbed import label_reasons, label_text

DEFAULT_METRICS = ("latency", "latency_user")
_VERDICT_STYLE = {"trusted": "bold green", "suspect": "bold yellow", "untrusted": "bold red"}
_NARROW = (rows.MOMENTS + rows.COUNTS, rows.PERCENTILES)
_WORST_LINES = 8
"""How many lines about slowest packets one metric may have: with more, each stream has one."""

_FOUND_LINES = 4
"""How many lines one reason may have for what differs from place to place; all of them are on the page."""


def default_metrics(result: Mapping[str, Any]) -> tuple[str, ...]:
    """The metrics that are shown unless others are asked for: those with published figures beside them, too."""
    published = (one["metric"] for one in result.get("published", []))
    return tuple(dict.fromkeys((*DEFAULT_METRICS, *published)))


def print_result(result: Mapping[str, Any], console: Console, metrics: Sequence[str] = DEFAULT_METRICS) -> None:
    """Nothing; the whole result is printed: summaries, what has none, remarks, loads, limits, and last the verdict.

    A console without a terminal gets plain text: rich leaves out every colour code there.
    """
    for part in (
        *summary_tables(result, metrics),
        *unmeasured_tables(result),
        *remark_lines(result),
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
    """Each metric's tables, in µs: cells × repeats down, statistics across, blank where null; then how far repetitions
    differ, and where the slowest packets lost their time.

    A metric that no stream has gets no table. Where the terminal is too narrow for all columns, the
    percentiles stand in a second table below.
    """
    present = rows.metric_names(result, metrics)
    parts: list[RenderableType] = []
    for name in metrics:
        if name not in present:
            continue
        tables = rows.summaries(result, name)
        parts += [_Summary(result, table) for table in tables]
        parts += [_Spreads(result, table) for table in tables if repeats.spreads(table)]
        parts += _worst(result, name)
        parts += [_published(table) for table in published_tables(result, name)]
    return parts


def _published(found: PublishedTable) -> Group:
    table = _table()
    for number, heading in enumerate(found.headings):
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    for row in found.rows:
        table.add_row(*_texts(*row))
    # A title of the table's own would be folded to the table's width.
    return Group(Text(found.title, style="bold"), table)


def unmeasured_tables(result: Mapping[str, Any]) -> list[RenderableType]:
    """The cells that this machine cannot build, with what it lacks, and those that did not run to their end."""
    parts: list[RenderableType] = []
    if lacking := unmeasured.unavailable(result):
        table = _table("Not available on this machine")
        for heading in ("cells", "what is lacking", "where", "how to get it"):
            table.add_column(heading, overflow="fold")
        for one in lacking:
            table.add_row(*_texts("; ".join(one.cells), one.what, one.where, one.remedy))
        parts.append(table)
    if broken := unmeasured.unfinished(result):
        lines = ("Not run to the end:", *(f"  {one.text}" for one in broken))
        parts.append(Text("\n".join(lines)))
    return parts


def remark_lines(result: Mapping[str, Any]) -> list[RenderableType]:
    """What was refused, lost, duplicated and so on, a line a cell; nothing where all went as it should."""
    found = rows.remarks(result)
    return [Text("\n".join(("Counted, warm-up included:", *(f"  {line}" for line in found))))] if found else []


def gate_tables(result: Mapping[str, Any]) -> list[RenderableType]:
    """One table of the streams that have gates: promised, measured, missed; none where no stream has any."""
    table = _table(f"{slots.TITLE} · {label_text(result)}")
    for heading in slots.HEADINGS:
        table.add_column(heading, overflow="fold")
    for row in slots.slot_rows(result):
        table.add_row(*_texts(*row.texts))
    return [table] if table.row_count else []


def ptp_tables(result: Mapping[str, Any]) -> list[RenderableType]:
    """One table of PTP's ports; none where there is none."""
    table = _table(f"{ptp.TITLE} · {label_text(result)}")
    for heading in ptp.HEADINGS:
        table.add_column(heading, overflow="fold")
    for row in ptp.ptp_rows(result):
        table.add_row(*_texts(*row.texts))
    return [table] if table.row_count else []


def load_tables(result: Mapping[str, Any]) -> list[RenderableType]:
    """One table of the loads that ran and the rates they achieved; none where there was no load."""
    table = _table(f"Loads: what ran and what it achieved · {label_text(result)}")
    for heading in ("cell", "repeat", "load", "from", "to"):
        table.add_column(heading, overflow="fold")
    for heading in ("sent", "received", "packets"):
        table.add_column(heading, justify="right")
    for cell in rows.ordered_cells(result):
        for load in cell["loads"]:
            version = f" {load['version']}" if load.get("version") else ""
            table.add_row(
                *_texts(
                    cell_title(cell),
                    str(cell["repeat"]),
                    f"{load['name']} ({load['kind']}{version})",
                    load["from"],
                    load["to"],
                    text.rate(load["sent_bps"], "bit/s"),
                    text.rate(load["received_bps"], "bit/s"),
                    text.rate(load["sent_pps"], "/s"),
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
    kept = Text(f"{len(result['accept']) - len(broken)} of {len(result['accept'])} limits kept")
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
    return Group(head, *labels, *map(_reason, grouped_reasons(result)))


def _reason(reason: Reason) -> Text:
    line = Text.assemble("  ", (reason.severity, _VERDICT_STYLE.get(reason.severity, "")), f": {reason.finding}")
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
        if _fits(wide, console, options):
            yield wide
        else:
            # There is more room beside the percentiles.
            yield _figures(self._summary, _NARROW[0], clocks=False)
            yield Text(f"{self._summary.title}, percentiles", style="bold")
            yield _figures(self._summary, _NARROW[1], clocks=True)


class _Spreads:
    """How far the repetitions of each cell differ; as many figures as the width allows."""

    def __init__(self, result: Mapping[str, Any], summary: Summary) -> None:
        self._title = f"{summary.title}: least … middle … greatest of the repetitions, µs · {label_text(result)}"
        self._headings = summary.headings[:-1]
        self._spreads = repeats.spreads(summary)

    def __rich_console__(self, console: Console, options: Any) -> Iterator[RenderableType]:
        tables = [self._shape(figures) for figures in (repeats.FIGURES, ("p50", "max"), ("p50",))]
        yield Text(self._title, style="bold")
        yield next((table for table in tables[:-1] if _fits(table, console, options)), tables[-1])

    def _shape(self, figures: Sequence[str]) -> Table:
        table = _table()
        for heading in self._headings:
            table.add_column(heading, overflow="fold")
        for heading in ("repeats", *(f"{name} of each" for name in figures), "stddev in one", "between"):
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
        remark = row.status if row.status != "ok" else row.verdict if row.statistics else "no such timestamps"
        lacking = counted({"unbounded": rows.unbounded(row.statistics or {})})
        remarks = filter(None, (remark, lacking, row.label if labels_differ else ""))
        table.add_row(*_texts(*summary.labels(row), *figures, ", ".join(remarks)))
    return table


def _worst(result: Mapping[str, Any], metric: str) -> list[RenderableType]:
    lines = rows.worst_lines(result, metric)
    if len(lines) > _WORST_LINES:
        lines = [
            *rows.worst_of_streams(result, metric),
            "(of all cells; each cell's own slowest packet is in the report)",
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


def _texts(*values: str) -> list[Text]:
    """Values as literal text: a name in square brackets is no markup."""
    return [Text(value) for value in values]
