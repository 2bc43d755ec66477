"""The report page: one HTML file that needs no network, no server and no other file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from latlab.analysis.metrics import METRICS, METRICS_BY_NAME, PROBE_METRICS, TIMER_METRICS
from latlab.analysis.reception import RECEPTION
from latlab.analysis.words import left_out_text
from latlab.data.run_folder import CellFolder, RunFolder
from latlab.report import (
    anomalies,
    definitions,
    files,
    intervals,
    late_limits,
    loads,
    ptp,
    repeats,
    rows,
    schedules,
    slots,
    talkers,
    testbed,
    text,
    timer_ranges,
    timers,
    together,
    traces,
    unmeasured,
    variation,
)
from latlab.report.answer import answer, metric_of, title
from latlab.report.chain_page import ChainDrawing, chain_drawing
from latlab.report.chains import chain_views
from latlab.report.clock_series import clock_charts
from latlab.report.comparison import page
from latlab.report.embedded import embedded
from latlab.report.facts import compare_facts, flatten
from latlab.report.gates import ENTRY_HEADINGS, Scheduled
from latlab.report.marks import page_marks
from latlab.report.packed import PackedParts
from latlab.report.places import cell_key, cell_title
from latlab.report.published import headline, headline_tables, published_tables
from latlab.report.reasons import EXPLAINED, grouped_reasons
from latlab.report.repeats import Strips
from latlab.report.sections import default_metrics
from latlab.report.sweep import Sweep
from latlab.report.sweep_page import sweep_drawings
from latlab.report.tail_page import TailDrawing, tail_drawing
from latlab.report.tail_view import tail_views
from latlab.report.thresholds import stated, threshold_lines
from latlab.report.view import METRIC_ORDER

_HERE = Path(__file__).parent
_STYLES = ("uPlot.min.css", "report.css", "tail.css", "gates.css")
_SCRIPTS = ("uPlot.iife.min.js", "decode.js", "axes.js", "marks.js", "series.js", "distribution.js", "report.js")
_USUAL_COUNTS = ("scheduled", "sent", "received", "lost")
"""The columns of the counts' table that stand there whatever was counted; the others only where they are not 0."""
_DATA = '<script type="application/json" id="data">'
"""The beginning of the data's element: the page has it once, since what comes from a run is escaped."""
_ANSWERED = ("figures", "differences", "stages")
"""The sections of the answer that stand at the page's beginning, below the verdict."""
_VERDICT_MARKS = {"trusted": "✓", "suspect": "!", "untrusted": "✗"}


@dataclass(frozen=True)
class Page:
    """A page without the data of its charts: what stands before it, and behind it."""

    before: str
    after: str

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.before.encode()) + len(self.after.encode())

    def with_data(self, data: Markup) -> str:
        """The page whole. data: what `Payloads.fitting` gives."""
        return f"{self.before}{data}{self.after}"


def render(
    folder: RunFolder,
    strips: Mapping[tuple[str, str], Strips],
    sweeps: Sequence[Sweep] = (),
    scheduled: Scheduled = (),
) -> Page:
    """The page of this run. strips: (stream, metric) → what `repeats.drawn` gives; sweeps: what `sweeps.sweeps` gives;
    scheduled: what `schedules.run_schedules` gives.

    Nothing from the run reaches the page unescaped, and the page's own policy lets no script run but ours.
    """
    result = folder.result()
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        limit=lambda value, path: text.limit(path, value),
        rate=text.rate,
        microseconds=text.microseconds,
        left_out=lambda one: left_out_text(**one),
    )
    parts = PackedParts()
    environment.filters["packed"] = parts.keep
    style = "\n".join(_asset(name) for name in _STYLES)
    scripts = [_asset(name) for name in _SCRIPTS]
    rendered = environment.get_template("report.html.j2").render(
        **_summary(result, strips),
        **_cells(folder, result),
        **_run(folder),
        files=files.links(folder, result),
        clock_charts=list(clock_charts(folder, result)),
        chains=_chains(result),
        sweeps=sweep_drawings(result, sweeps),
        tails=_tails(result),
        schedule_title=schedules.TITLE,
        entry_headings=ENTRY_HEADINGS,
        schedules=list(schedules.schedule_drawings(result, scheduled)),
        anomaly_title=anomalies.TITLE,
        anomaly_headings=anomalies.HEADINGS,
        anomalies=list(anomalies.anomaly_rows(result)),
        late_title=late_limits.TITLE,
        late_note=late_limits.late_note(result),
        late_headings=late_limits.HEADINGS,
        late_limits=list(late_limits.late_rows(result)),
        window_title=anomalies.WINDOW_TITLE,
        window_headings=anomalies.WINDOW_HEADINGS,
        window_numbers=anomalies.WINDOW_NUMBERS,
        uncut=anomalies.uncut_text(result),
        windows=list(anomalies.window_rows(result)),
        interval_title=intervals.TITLE,
        variation=variation,
        together_headings=together.HEADINGS,
        together_bins=together.BINS,
        together_height=together.HEIGHT,
        comparison_title=page.TITLE,
        compared=page.compared_metrics(result),
        chosen_title=anomalies.CHOSEN_TITLE,
        chosen_headings=anomalies.CHOSEN_HEADINGS,
        chosen=list(anomalies.chosen_rows(result)),
        result=result,
        has_warmup=not all("imported" in cell for cell in result["cells"]),
        columns=rows.COLUMNS,
        definitions=_DEFINITIONS,
        all_metrics=(*METRICS, *PROBE_METRICS, *TIMER_METRICS),
        policy=_policy(style, scripts),
        # The style and the scripts are this package's own files; the data is escaped in `embedded`.
        style=Markup(style),
        scripts=[Markup(script) for script in scripts],
        parts=parts,
        marks=embedded(page_marks(folder, result)),
        chart_licence=_asset("uPlot.LICENSE"),
    )
    before, found, after = rendered.partition(_DATA)
    return Page(f"{before}{found}", after)


_DEFINITIONS = (
    ("Timestamps", definitions.TIMESTAMPS),
    ("Statistics", definitions.STATISTICS),
    ("Labels", definitions.LABELS),
    ("Verdicts", definitions.VERDICTS),
)


def _summary(result: Mapping[str, Any], strips: Mapping[tuple[str, str], Strips]) -> dict[str, Any]:
    """Verdict, metrics and tables."""
    about = (named,) if (named := headline(result)) else ()
    names = rows.metric_names(result, tuple(dict.fromkeys((*about, *METRIC_ORDER))))
    metrics = default_metrics(result)
    answered = {one.name: one.parts for one in answer(result, metrics)}
    return {
        "answer": [part for name in _ANSWERED for part in answered[name]],
        "answer_title": title(result, metric_of(result, metrics)),
        "verdict_mark": _VERDICT_MARKS.get(result["verdict"], "?"),
        "reasons": grouped_reasons(result),
        "explained": EXPLAINED,
        "verdict_meaning": _sentence(dict(definitions.VERDICTS).get(result["verdict"], "")),
        "label_meaning": dict(definitions.LABELS).get(result["label"] or "", ""),
        "label_reasons": [f"{reason}." for reason in testbed.label_reasons(result)],
        "stated": [_sentence(line) for line in stated(result)],
        "thresholds": threshold_lines(result),
        "label": testbed.label_text(result),
        "metrics": [METRICS_BY_NAME[name] for name in names],
        "tables": [_tables(result, name, strips) for name in names],
        "lacking": unmeasured.unavailable(result),
        "unfinished": unmeasured.unfinished(result),
        "streams": rows.stream_names(result),
    }


def _tables(result: Mapping[str, Any], metric: str, strips: Mapping[tuple[str, str], Strips]) -> dict[str, Any]:
    """One metric's tables, its repetitions beside each other, and where its slowest packets lost their time."""
    tables = rows.summaries(result, metric)
    spread = [(table, found) for table in tables if (found := repeats.spreads(table))]
    drawn = {stream: one for (stream, name), one in strips.items() if name == metric}
    return {
        "metric": metric,
        "tables": tables,
        "headline": list(headline_tables(result, metric)),
        "published": list(published_tables(result, metric)),
        "labels_differ": len({row.label for table in tables for row in table.rows}) > 1,
        "repeats": spread,
        "strips": drawn,
        "together": list(_together(spread, drawn)),
        "intervals": intervals.intervals(result, metric),
        "variation": variation.variation_rows(result, metric),
        "worst": rows.worst_lines(result, metric),
        "worst_of_streams": rows.worst_of_streams(result, metric),
    }


def _together(
    spread: Sequence[tuple[rows.Summary, Sequence[repeats.Spread]]], drawn: Mapping[str, Strips]
) -> Iterator[tuple[rows.Summary, list[together.Together], Strips | None]]:
    """(table, its cells' repetitions together, what they are drawn on) of each table that has any."""
    for table, spreads in spread:
        strips = None if table.shows_stream else drawn.get(table.rows[0].stream)
        if found := together.together(spreads, strips):
            yield table, found, strips


def _chains(result: Mapping[str, Any]) -> dict[str, list[tuple[str | None, ChainDrawing]]]:
    """{stream: [(metric, where its time went), …]}; None in the place of a metric: to be seen beside every one."""
    found: dict[str, list[tuple[str | None, ChainDrawing]]] = {}
    for (stream, metric), shown in chain_views(result).items():
        found.setdefault(stream, []).append((None if metric == RECEPTION else metric, chain_drawing(shown)))
    return found


def _tails(result: Mapping[str, Any]) -> dict[str, list[tuple[str, TailDrawing]]]:
    """{stream: [(metric, its tails), …]}."""
    found: dict[str, list[tuple[str, TailDrawing]]] = {}
    for (stream, metric), shown in tail_views(result).items():
        found.setdefault(stream, []).append((metric, tail_drawing(shown)))
    return found


def _cells(folder: RunFolder, result: Mapping[str, Any]) -> dict[str, Any]:
    """Counts, loads, clocks, facts, steps and agents of every cell, in the order of the summary."""
    outcomes = rows.ordered_cells(result)
    found = [(outcome, folder.cell(outcome["slug"], outcome["repeat"])) for outcome in outcomes]
    documents = [(outcome, _document(cell)) for outcome, cell in found]
    by_key = {cell_key(outcome): document for outcome, document in documents}
    counts = [
        {"cell": cell_title(cell), "repeat": cell["repeat"], "stream": stream, "counts": block["counts"]}
        for cell in outcomes
        for stream, block in cell["streams"].items()
    ]
    refused = [
        {"cell": cell_title(cell), "repeat": cell["repeat"], "host": host, "counts": found}
        for cell in outcomes
        for host, found in cell["refused"].items()
        if any(found.values())
    ]
    return {
        "counts": counts,
        "count_names": _columns([row["counts"] for row in counts], _USUAL_COUNTS),
        "bad_counts": frozenset(rows.UNUSUAL_COUNTS),
        "refused": refused,
        "refused_names": _columns([row["counts"] for row in refused]),
        "timer_title": timers.TITLE,
        "timer_headings": timers.HEADINGS,
        "timers": list(timers.timer_rows(result)),
        "timer_ranges": timer_ranges.timer_ranges(result),
        "timer_ranges_title": timer_ranges.TITLE,
        "timer_ranges_key": timer_ranges.KEY,
        "timer_window_title": timers.WINDOWS_TITLE,
        "timer_window_headings": timers.WINDOW_HEADINGS,
        "timer_window_figures": timers.WINDOW_FIGURES,
        "timer_windows": list(timers.window_rows(result)),
        "trace_tables": traces.trace_tables(result),
        "talkers": talkers,
        "talker_rows": list(talkers.talker_rows(result)),
        "slot_title": slots.TITLE,
        "slot_headings": slots.HEADINGS,
        "slots": list(slots.slot_rows(result)),
        "ptp_title": ptp.TITLE,
        "ptp_headings": ptp.HEADINGS,
        "ptp": list(ptp.ptp_rows(result)),
        "loads": [
            {
                "cell": cell_title(cell),
                "repeat": cell["repeat"],
                "load": load,
                "ends": loads.ends(load),
                "work": loads.work(load),
            }
            for cell in outcomes
            for load in cell["loads"]
        ],
        "clocks": [
            {"cell": cell_title(outcome), "repeat": outcome["repeat"], "clock": clock}
            for outcome, document in documents
            for clock in document.get("clocks", [])
        ],
        "facts": compare_facts(
            [(_name(outcome), cell.facts("before"), cell.facts("after")) for outcome, cell in found]
        ),
        "cells": [_steps_and_agents(outcome, document) for outcome, document in documents],
        "described": _described(documents),
        "bridges": testbed.bridges(result),
        "guests": testbed.guests(result),
        "not_done": testbed.not_done(result, by_key),
        "not_kept": testbed.not_kept(result, by_key),
    }


def _columns(counts: Sequence[Mapping[str, int]], always: Sequence[str] = ()) -> tuple[str, ...]:
    """The counts to show of these rows: those that stand in all tables, and those that are not 0 in every row.

    `foreign` is a listener's count: it stands with what that refused, not with each of its streams.
    """
    found = dict.fromkeys(name for row in counts for name, count in row.items() if name in always or count)
    return tuple(name for name in found if not (always and name == "foreign"))


def _run(folder: RunFolder) -> dict[str, Any]:
    info = folder.run()
    return {
        "moments": " to ".join(_moment(info[key]) for key in ("started", "ended") if info.get(key)),
        "description": info.get("description"),
        "run_facts": tuple(flatten(info).items()),
        "scenario": _text(folder.scenario_path),
        "plan": _text(folder.plan_path),
    }


def _steps_and_agents(outcome: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    steps = document.get("steps", [])
    return {
        "name": _name(outcome),
        "status": outcome["status"],
        "steps": steps,
        "failed": sum(not step["ok"] for step in steps),
        "agents": [
            {
                "name": f"latlab-agent {agent['verb']} on {agent['host']}",
                "facts": tuple(
                    flatten({key: agent[key] for key in ("ready", "done", "error") if agent.get(key)}).items()
                ),
            }
            for agent in document.get("agents", [])
        ],
    }


def _described(documents: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> dict[str, str]:
    """Each stream in one line, from the first cell that has it."""
    streams = {stream["name"]: stream for _, document in reversed(documents) for stream in document.get("streams", [])}
    sent: dict[str, dict[str, None]] = {}
    for outcome, _ in documents:
        for name, block in outcome["streams"].items():
            sent.setdefault(name, {})[block.get("sent_as") or ""] = None
    lines = {name: _stream_line(one, sent.get(name, ())) for name, one in streams.items() if not one.get("probe")}
    for outcome, _ in reversed(documents):
        for name, block in outcome["streams"].items():
            if probe := block.get("probe"):
                way = {"up": "questions of ", "down": "answers of "}.get(probe["leg"], "")
                ends = dict.fromkeys((probe["from"], probe["to"]))
                lines[name] = f"{way}{' ⇄ '.join(ends)} · {probe['told']}"
    return lines


def _stream_line(stream: Mapping[str, Any], sent: Iterable[str]) -> str:
    """The stream as the first cell has it. sent: what its packets are in any cell."""
    if told := stream.get("described"):
        return str(told)
    parts = [
        f"{stream['talker']} → {stream['listener']}",
        f"every {stream['period_ns'] / 1000:g} µs",
        f"{stream['size']} bytes",
        f"priority {stream['priority']}",
        " or ".join(filter(None, sent)),
    ]
    parts += ["with launch times"] if stream.get("launch_time") else []
    return " · ".join(parts)


def _policy(style: str, scripts: Sequence[str]) -> str:
    """The page's Content-Security-Policy: nothing is loaded from anywhere, and only our own scripts run."""
    allowed = " ".join(_hash(script) for script in scripts)
    return f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {allowed}"


def _hash(content: str) -> str:
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _name(outcome: Mapping[str, Any]) -> str:
    return f"{cell_title(outcome)}, repeat {outcome['repeat']}"


def _moment(iso: str) -> str:
    """An ISO 8601 instant as people read it: "2026-11-21 20:51:52 UTC"."""
    return iso.split(".")[0].replace("T", " ").removesuffix("+00:00").removesuffix("Z") + " UTC"


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}." if words else ""


def _document(cell: CellFolder) -> Mapping[str, Any]:
    """cell.json; empty where the run ended before it was written."""
    return cell.cell() if (cell.path / "cell.json").exists() else {}


def _asset(name: str) -> str:
    return (_HERE / "assets" / name).read_text(encoding="utf-8")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
