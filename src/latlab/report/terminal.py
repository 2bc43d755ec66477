"""The result as tables in a terminal or a file: summaries, remarks, loads, limits, verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from latlab.analysis.accept import EXCEEDED
from latlab.report import rows, text
from latlab.report.rows import Column, Summary

DEFAULT_METRICS = ("latency", "latency_user")
_VERDICT_STYLE = {"trusted": "bold green", "suspect": "bold yellow", "untrusted": "bold red"}
_NARROW = (rows.MOMENTS + rows.COUNTS, rows.PERCENTILES)


def print_result(result: Mapping[str, Any], console: Console, metrics: Sequence[str] = DEFAULT_METRICS) -> None:
    """Nothing; the whole result is printed: summaries, remarks, loads, limits, and last the verdict with its reasons.

    A console without a terminal gets plain text: rich leaves out every colour code there.
    """
    for part in (
        *summary_tables(result, metrics),
        *remark_lines(result),
        *load_tables(result),
        *accept_tables(result),
        verdict(result),
    ):
        console.print(part)
        console.print()


def summary_tables(result: Mapping[str, Any], metrics: Sequence[str] = DEFAULT_METRICS) -> list[RenderableType]:
    """One table a metric, in µs: cells × streams × repeats down, statistics across; blank where null.

    A metric that no stream has gets no table. Where the terminal is too narrow for all columns, the
    percentiles stand in a second table below.
    """
    present = rows.metric_names(result, metrics)
    return [_Summary(result, rows.summary(result, name)) for name in metrics if name in present]


def remark_lines(result: Mapping[str, Any]) -> list[RenderableType]:
    """What was refused, lost, duplicated and so on, a line a cell; nothing where all went as it should."""
    found = rows.remarks(result)
    return [Text("\n".join(("Counted, warm-up included:", *(f"  {line}" for line in found))))] if found else []


def load_tables(result: Mapping[str, Any]) -> list[RenderableType]:
    """One table of the loads that ran and the rates they achieved; none where there was no load."""
    table = _table("Loads: what ran and what it achieved")
    for heading in ("cell", "repeat", "load", "from", "to"):
        table.add_column(heading, overflow="fold")
    for heading in ("sent", "received", "packets"):
        table.add_column(heading, justify="right")
    for cell in rows.ordered_cells(result):
        for load in cell["loads"]:
            version = f" {load['version']}" if load.get("version") else ""
            table.add_row(
                *_texts(
                    rows.cell_title(cell),
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


def verdict(result: Mapping[str, Any]) -> RenderableType:
    """The verdict and label in one line, then each reason: what was found, where, what was expected, and what to do."""
    word = result["verdict"]
    head = Text.assemble(
        "Verdict: ",
        (word, _VERDICT_STYLE.get(word, "bold")),
        f" · {result['label'] or 'no label'} · {result['scenario']} ({result['run']})",
    )
    return Group(head, *(_reason(*one) for one in rows.grouped_reasons(result)))


def _reason(reason: Mapping[str, Any], where: tuple[str, ...]) -> Text:
    severity = reason["severity"]
    line = Text.assemble("  ", (severity, _VERDICT_STYLE.get(severity, "")), f": {reason['finding']}")
    said = {"where": "; ".join(where)} | {key: reason[key] for key in ("expected", "actual", "remedy")}
    for key, value in said.items():
        if value:
            line.append(f"\n    {key}: {value}")
    return line


class _Summary:
    """One metric's table, which takes one of two shapes when the width is known."""

    def __init__(self, result: Mapping[str, Any], summary: Summary) -> None:
        between = f" = {summary.between}" if summary.between else ""
        trust = f"{result['label'] or 'no label'} · {result['verdict']}"
        self._title = f"{summary.metric}{between}, µs{_clocks(summary)} · after warm-up · {trust}"
        self._summary = summary
        self._worst = rows.worst_lines(result, summary.metric)

    def __rich_console__(self, console: Console, options: Any) -> Iterator[RenderableType]:
        wide = _figures(self._title, self._summary, rows.COLUMNS)
        if Measurement.get(console, options.update(max_width=1000), wide).maximum <= options.max_width:
            yield wide
        else:
            for columns, title in zip(_NARROW, (self._title, f"{self._summary.metric}, percentiles"), strict=True):
                yield _figures(title, self._summary, columns)
        if self._worst:
            yield Text("\n".join(self._worst))


def _figures(title: str, summary: Summary, columns: Sequence[Column]) -> Table:
    table = _table(title)
    for heading in summary.headings:
        table.add_column(heading, overflow="fold")
    for column in columns:
        table.add_column(column.heading, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for row in summary.rows:
        statistics = row.statistics
        figures = [column.text(statistics) for column in columns] if statistics else [""] * len(columns)
        remark = row.status if row.status != "ok" else row.verdict if statistics else row.note
        table.add_row(*_texts(*summary.labels(row), *figures, remark))
    reasons = (f"{' '.join(summary.labels(row))}: {row.status}: {row.note}" for row in summary.unfinished)
    table.caption = Text("\n".join(reasons))
    return table


def _clocks(summary: Summary) -> str:
    """The largest ± that the clocks' offset puts on any row; "± unknown" where nothing bounds it."""
    bounds = [row.statistics["uncertainty_ns"] for row in summary.rows if row.statistics]
    if not bounds:
        return ""
    known = [bound for bound in bounds if bound is not None]
    return f" ± {text.microseconds(max(known))}" if len(known) == len(bounds) else " ± unknown"


def _table(title: str) -> Table:
    return Table(
        title=Text(title, style="bold"),
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
