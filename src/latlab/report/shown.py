"""What `latlab show` prints: the answer, or one section of the report by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console, RenderableType

from latlab.data.run_folder import RunFolder
from latlab.report import rows, terminal, testbed
from latlab.report.answer import answer
from latlab.report.comparison.page import TITLE, compared_metrics
from latlab.report.document import Lines, Table
from latlab.report.on_terminal import print_sections, rendered, show
from latlab.report.places import cell_title
from latlab.report.text import microseconds
from latlab.report.thresholds import threshold_lines

CLOCK_HEADINGS: Final = ("cell", "repeat", "from", "to", "known from", "lower", "upper")
BRIDGE_HEADINGS: Final = ("cells", "bridge", "host", "uplink", "guests", "how it is made")
GUEST_HEADINGS: Final = ("cells", "guest", "host", "image", "kernel", "runs by", "vCPUs", "memory", "started from")
TOOL_HEADINGS: Final = ("cell", "repeat", "what", "tool", "command")


@dataclass(frozen=True)
class Shown:
    """What sections are made of. metrics: those with tables, in their order."""

    folder: RunFolder
    result: Mapping[str, Any]
    metrics: Sequence[str]


def print_answer(result: Mapping[str, Any], metrics: Sequence[str], console: Console) -> None:
    """Print what the run found, on one screen."""
    print_sections(answer(result, metrics), console)


def print_section(name: str, shown: Shown, console: Console) -> None:
    """Print the section of that name, one of SECTIONS; a sentence where the run has nothing of the kind."""
    found = False
    for part in SECTIONS[name](shown):
        lines = list(rendered(part, console)) if isinstance(part, (Table, Lines)) else [part]
        for one in lines:
            show(one, console)
        if lines:
            console.print()
        found = found or bool(lines)
    if not found:
        console.print(f"{name}: this run has nothing of the kind", highlight=False, markup=False)


Parts = Iterator[RenderableType | Table | Lines]


def _cells(shown: Shown) -> Parts:
    for metric in _present(shown):
        yield from terminal.figure_tables(shown.result, metric)
        yield from terminal.spread_tables(shown.result, metric)
    yield from terminal.unmeasured_tables(shown.result)
    yield from terminal.remark_lines(shown.result)
    yield from terminal.accept_tables(shown.result)
    yield from terminal.alike_tables(shown.result)


def _stages(shown: Shown) -> Parts:
    yield from terminal.where_tables(shown.result)
    yield from terminal.timer_tables(shown.result)
    yield from terminal.trace_tables(shown.result)


def _comparison(shown: Shown) -> Parts:
    for one in compared_metrics(shown.result):
        yield Lines([one.summary], f"{TITLE}: {one.metric}")
        for group in one.groups:
            yield Lines(list(group.lines), group.title)
        yield Lines(one.notes, "To be known" if one.notes else "")


def _trust(shown: Shown) -> Parts:
    yield terminal.verdict(shown.result)
    lines = threshold_lines(shown.result)
    found = [(one.name, one.value, one.default, "the scenario" if one.given else "default") for one in lines]
    yield Table(("threshold", "value", "default", "set by"), found)


def _intervals(shown: Shown) -> Parts:
    for metric in _present(shown):
        yield from terminal.interval_tables(shown.result, metric)


def _loads(shown: Shown) -> Parts:
    yield from terminal.load_tables(shown.result)
    yield from terminal.talker_tables(shown.result)


def _clocks(shown: Shown) -> Parts:
    found = [
        (
            *(cell_title(outcome), str(outcome["repeat"]), clock["from"], clock["to"], clock["source"]),
            *(microseconds(clock[end]) for end in ("lower_ns", "upper_ns")),
        )
        for outcome, cell in _cell_documents(shown)
        for clock in cell.get("clocks", [])
    ]
    title = "Clocks: the second host's clock − the first one's lies between these bounds, µs"
    yield Table(CLOCK_HEADINGS, found, (5, 6), title)


def _testbed(shown: Shown) -> Parts:
    for title, headings, parts in (
        ("Bridges", BRIDGE_HEADINGS, testbed.bridges(shown.result)),
        ("Guests", GUEST_HEADINGS, testbed.guests(shown.result)),
    ):
        yield Table(headings, [("; ".join(one.cells), *one.values) for one in parts], (), title)


def _tools(shown: Shown) -> Parts:
    found = []
    for outcome, cell in _cell_documents(shown):
        where = (cell_title(outcome), str(outcome["repeat"]))
        for load in outcome["loads"]:
            for command in load.get("commands") or [""]:
                version = f"{load['kind']} {load.get('version') or ''}".strip()
                found.append((*where, f"load {load['name']}", version, _command(command)))
        for probe in cell.get("probes", []):
            if probe.get("tool"):
                version = f"{probe['probe']} {probe.get('version') or ''}".strip()
                for command in probe.get("commands") or [""]:
                    found.append((*where, f"probe {probe['name']}", version, _command(command)))
    yield Table(TOOL_HEADINGS, found, (), "Tools that loads and probes ran")


def _command(words: Any) -> str:
    if isinstance(words, Mapping):
        words = words.get("command", "")
    return words if isinstance(words, str) else " ".join(map(str, words or ()))


SECTIONS: Final[Mapping[str, Callable[[Shown], Parts]]] = {
    "cells": _cells,
    "comparison": _comparison,
    "stages": _stages,
    "anomalies": lambda shown: iter(terminal.anomaly_tables(shown.result)),
    "trust": _trust,
    "intervals": _intervals,
    "loads": _loads,
    "clocks": _clocks,
    "testbed": _testbed,
    "gates": lambda shown: iter(terminal.gate_tables(shown.result)),
    "ptp": lambda shown: iter(terminal.ptp_tables(shown.result)),
    "tools": _tools,
}
"""The sections, by the names that `latlab show` takes."""


def _present(shown: Shown) -> tuple[str, ...]:
    there = rows.metric_names(shown.result, shown.metrics)
    return tuple(name for name in shown.metrics if name in there)


def _cell_documents(shown: Shown) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """(cell of the result, cell.json) of each cell that ran."""
    for outcome in rows.ordered_cells(shown.result):
        cell = shown.folder.cell(outcome["slug"], outcome["repeat"])
        if (cell.path / "cell.json").exists():
            yield outcome, cell.cell()
