"""The result as GitHub-flavoured Markdown, for an issue, a mail or a wiki: the verdict first, then the tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from latlab.report import (
    anomalies,
    chain_table,
    intervals,
    late_limits,
    loads,
    ptp,
    rows,
    slots,
    talkers,
    text,
    timers,
    traces,
    unmeasured,
    variation,
)
from latlab.report.chains import chain_views
from latlab.report.comparison import page
from latlab.report.gfm import escaped, listed, table
from latlab.report.places import cell_title
from latlab.report.published import headline_tables, published_tables
from latlab.report.reasons import EXPLAINED, grouped_reasons
from latlab.report.rows import COLUMNS, Summary
from latlab.report.testbed import label_reasons, label_text
from latlab.report.thresholds import stated

_UNAVAILABLE = ("cells", "what is missing", "where", "how to get it")
_LIMITS = ("limit on", "cell", "repeat", "limit", "actual", "")


def result_markdown(result: Mapping[str, Any], metrics: Sequence[str]) -> str:
    """The whole result. metrics: those with a table, in this order, as far as any stream has them; times are in µs."""
    parts = (
        _head(result),
        *(one for name in metrics for one in _metric(result, name)),
        *(
            _titled(one.title, table(one.headings, one.rows))
            for name in metrics
            for one in published_tables(result, name)
        ),
        *(_titled(f"{page.TITLE}: {one.metric}", _compared(one)) for one in page.compared_metrics(result)),
        *(_titled(chain_table.title(way), chain_table.markdown(way)) for way in chain_views(result).values()),
        _titled(anomalies.TITLE, table(anomalies.HEADINGS, (row.texts for row in anomalies.anomaly_rows(result)))),
        _titled(
            anomalies.WINDOW_TITLE,
            _windows(result),
        ),
        _titled(
            anomalies.CHOSEN_TITLE,
            table(anomalies.CHOSEN_HEADINGS, anomalies.chosen_rows(result), anomalies.WINDOW_NUMBERS),
        ),
        _titled(late_limits.TITLE, _late_limits(result)),
        _titled("Not available on this machine", table(_UNAVAILABLE, _lacking(result))),
        _titled("Not run to the end", listed(one.text for one in unmeasured.unfinished(result))),
        _titled(rows.counted_title(result), listed(rows.remarks(result))),
        _titled(timers.TITLE, table(timers.HEADINGS, (row.texts for row in timers.timer_rows(result)))),
        *(_titled(one.title, table(one.headings, one.rows, one.figures)) for one in traces.trace_tables(result)),
        _titled(talkers.TITLE, table(talkers.HEADINGS, talkers.talker_rows(result), talkers.FIGURES)),
        _titled(slots.TITLE, table(slots.HEADINGS, (row.texts for row in slots.slot_rows(result)))),
        _titled(ptp.TITLE, table(ptp.HEADINGS, (row.texts for row in ptp.ptp_rows(result)))),
        _titled("Loads", listed(_loads(result))),
        _titled("Limits", table(_LIMITS, map(_limit, result["accept"]))),
        _titled("Why not simply trusted", _reasons(result)),
    )
    return "\n\n".join("\n".join(part) for part in map(list, parts) if part) + "\n"


def _head(result: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {escaped(result['scenario'])}: {result['verdict']}"
    yield ""
    yield escaped(" · ".join((label_text(result), result["run"])))
    for sentence in (*label_reasons(result), *stated(result)):
        yield ""
        yield f"{escaped(sentence)}."


def _titled(title: str, lines: Iterable[str]) -> list[str]:
    found = list(lines)
    return [f"### {escaped(title)}", "", *found] if found else []


def _summary(result: Mapping[str, Any], shown: Summary) -> list[str]:
    """One metric's table, with what the clocks may make each row wrong by where they are two."""
    clocks = ("±",) if shown.crosses_clocks else ()
    headings = (*shown.headings, *(column.heading for column in COLUMNS), *clocks, "")
    found = []
    for row in shown.rows:
        figures = [column.text(row.statistics) if row.statistics else "" for column in COLUMNS]
        found.append((*shown.labels(row), *figures, *((row.uncertainty,) if clocks else ()), row.remark))
    first = len(shown.headings)
    title = f"{shown.title}, µs · {shown.of_what}"
    notes = [line for note in shown.notes for line in (escaped(note), "")]
    return _titled(title, [*notes, *table(headings, found, range(first, first + len(COLUMNS) + len(clocks)))])


def _metric(result: Mapping[str, Any], name: str) -> Iterator[list[str]]:
    """One metric's tables: its figures, how far chance may move them, and its delay variation."""
    for one in headline_tables(result, name):
        yield _titled(one.title, table(one.headings, one.rows, range(1, len(one.headings))))
    yield from (_summary(result, one) for one in rows.summaries(result, name))
    if found := intervals.intervals(result, name):
        headings, shown = found.filled()
        lines: list[str] = []
        if len(headings) > intervals.NAMES + 1:
            lines = list(table(headings, shown, range(intervals.NAMES, len(headings))))
            lines.append("")
        yield _titled(f"{name}: {intervals.TITLE}", [*lines, *listed((*found.notes(), *found.supports, *found.tails))])
    varied = list(table(variation.HEADINGS, variation.variation_rows(result, name), variation.NUMBERS))
    yield _titled(f"{name}: {variation.TITLE}", [escaped(variation.NOTE), "", *varied] if varied else [])


def _compared(one: page.ComparedMetric) -> Iterator[str]:
    """How many differences are shown, which, and what is to be known of them."""
    yield f"{escaped(one.summary)}."
    for group in one.groups:
        yield ""
        yield f"**{escaped(group.title)}**"
        yield ""
        yield from listed(group.lines)
    if one.notes:
        yield ""
        yield from listed(one.notes)


def _windows(result: Mapping[str, Any]) -> Iterator[str]:
    rows_of_texts = (row.texts for row in anomalies.window_rows(result))
    yield from table(anomalies.WINDOW_HEADINGS, rows_of_texts, anomalies.WINDOW_NUMBERS)
    if uncut := anomalies.uncut_text(result):
        yield ""
        yield f"{escaped(uncut)}."


def _late_limits(result: Mapping[str, Any]) -> Iterator[str]:
    if note := late_limits.late_note(result):
        yield escaped(note)
        yield ""
        yield from table(late_limits.HEADINGS, late_limits.late_rows(result), late_limits.NUMBERS)


def _lacking(result: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    return (("; ".join(one.cells), one.what, one.where, one.remedy) for one in unmeasured.unavailable(result))


def _loads(result: Mapping[str, Any]) -> Iterator[str]:
    for cell in rows.ordered_cells(result):
        for load in cell["loads"]:
            where = f"{cell_title(cell)}, repeat {cell['repeat']}"
            what = f"{load['name']} ({load['kind']}), {loads.way(load)}"
            if not load.get("on"):
                sent, received = (text.rate(load[key], "bit/s") for key in ("sent_bps", "received_bps"))
                what += f": sent {sent}, received {received}"
            yield "; ".join(filter(None, (f"{where}: {what}", loads.work(load))))


def _limit(entry: Mapping[str, Any]) -> Sequence[str]:
    limit, actual = (text.limit(entry["path"], entry[key]) for key in ("limit", "actual"))
    return entry["path"], entry["cell"], str(entry["repeat"]), limit, actual, "kept" if entry["ok"] else entry["reason"]


def _reasons(result: Mapping[str, Any]) -> Iterator[str]:
    reasons = grouped_reasons(result)
    for reason in reasons:
        yield f"- **{reason.severity}**: {escaped(reason.finding)} (`{reason.id}`)"
        if reason.expected:
            yield f"  - {escaped(f'Expected: {reason.expected}')}"
        yield from (f"  - {escaped(line)}" for line in reason.lines())
        if reason.remedy:
            yield f"  - {escaped(f'What to do: {reason.remedy}')}"
    if reasons:
        yield ""
        yield f"`{EXPLAINED}` prints more on an id in parentheses."
