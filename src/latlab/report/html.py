"""The report page: one HTML file that needs no network, no server and no other file."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from latlab.analysis.metrics import METRICS, METRICS_BY_NAME
from latlab.data.run_folder import CellFolder, RunFolder
from latlab.report import definitions, ptp, repeats, rows, slots, testbed, text, unmeasured
from latlab.report.facts import compare_facts, flatten
from latlab.report.places import cell_key, cell_title
from latlab.report.published import published_tables
from latlab.report.reasons import grouped_reasons
from latlab.report.repeats import Strips
from latlab.report.view import METRIC_ORDER

_HERE = Path(__file__).parent
_STYLES = ("uPlot.min.css", "report.css")
_SCRIPTS = ("uPlot.iife.min.js", "decode.js", "axes.js", "series.js", "distribution.js", "report.js")
_USUAL_COUNTS = ("scheduled", "sent", "received", "lost")
"""The columns of the counts' table that stand there whatever was counted; the others only where they are not 0."""
_VERDICT_MARKS = {"trusted": "✓", "suspect": "!", "untrusted": "✗"}


def render(folder: RunFolder, payloads: Sequence[Mapping[str, Any]], strips: Mapping[tuple[str, str], Strips]) -> str:
    """The page of this run. payloads: what `payload.view_payload` gives for each (stream, metric); strips: (stream,
    metric) → what `repeats.drawn` gives.

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
    )
    style = "\n".join(_asset(name) for name in _STYLES)
    scripts = [_asset(name) for name in _SCRIPTS]
    return environment.get_template("report.html.j2").render(
        **_summary(result, strips),
        **_cells(folder, result),
        **_run(folder),
        result=result,
        columns=rows.COLUMNS,
        definitions=_DEFINITIONS,
        all_metrics=METRICS,
        policy=_policy(style, scripts),
        # The style and the scripts are this package's own files; the data is escaped in `embedded`.
        style=Markup(style),
        scripts=[Markup(script) for script in scripts],
        data=embedded(payloads),
        chart_licence=_asset("uPlot.LICENSE"),
    )


def embedded(document: object) -> Markup:
    """A document as JSON that can stand inside a script element, whatever its texts contain.

    "<" is written as an escape, so no text can end the element or open a comment in it (HTML standard,
    "Restrictions for contents of script elements").
    """
    return Markup(json.dumps(document, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c"))


_DEFINITIONS = (
    ("Timestamps", definitions.TIMESTAMPS),
    ("Statistics", definitions.STATISTICS),
    ("Labels", definitions.LABELS),
    ("Verdicts", definitions.VERDICTS),
)


def _summary(result: Mapping[str, Any], strips: Mapping[tuple[str, str], Strips]) -> dict[str, Any]:
    """Verdict, metrics and tables."""
    names = rows.metric_names(result, METRIC_ORDER)
    return {
        "verdict_mark": _VERDICT_MARKS.get(result["verdict"], "?"),
        "reasons": grouped_reasons(result),
        "verdict_meaning": _sentence(dict(definitions.VERDICTS).get(result["verdict"], "")),
        "label_meaning": dict(definitions.LABELS).get(result["label"] or "", ""),
        "label_reasons": [f"{reason}." for reason in testbed.label_reasons(result)],
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
    return {
        "metric": metric,
        "tables": tables,
        "published": list(published_tables(result, metric)),
        "labels_differ": len({row.label for table in tables for row in table.rows}) > 1,
        "repeats": [(table, found) for table in tables if (found := repeats.spreads(table))],
        "strips": {stream: drawn for (stream, name), drawn in strips.items() if name == metric},
        "worst": rows.worst_lines(result, metric),
        "worst_of_streams": rows.worst_of_streams(result, metric),
    }


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
        "slot_title": slots.TITLE,
        "slot_headings": slots.HEADINGS,
        "slots": list(slots.slot_rows(result)),
        "ptp_title": ptp.TITLE,
        "ptp_headings": ptp.HEADINGS,
        "ptp": list(ptp.ptp_rows(result)),
        "loads": [
            {"cell": cell_title(cell), "repeat": cell["repeat"], "load": load}
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
    return {name: _stream_line(stream) for name, stream in streams.items()}


def _stream_line(stream: Mapping[str, Any]) -> str:
    parts = [
        f"{stream['talker']} → {stream['listener']}",
        f"every {stream['period_ns'] / 1000:g} µs",
        f"{stream['size']} bytes",
        f"priority {stream['priority']}",
        str(stream["transport"]),
    ]
    parts += [f"VLAN {stream['vlan']}"] if stream.get("vlan") is not None else []
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
