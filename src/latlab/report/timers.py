"""Timers: how many of their instants were later than the threshold, in all and in the worst window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from latlab.analysis.words import duration
from latlab.report import rows
from latlab.report.places import cell_title
from latlab.report.text import microseconds

TITLE = "Timers: instants later than the threshold, warm-up left out"
WINDOWS_TITLE = "Each window of each timer, µs, warm-up left out"
WINDOW_HEADINGS = ("cell", "repeat", "timer", "from", "n", "mean", "stddev", "min", "max", "later", "share")
WINDOW_FIGURES = frozenset(range(4, len(WINDOW_HEADINGS)))
"""Which of them are numbers."""
NOT_ASKED = "not asked for"
HEADINGS = (
    *("cell", "repeat", "timer", "threshold", "later", "share", "windows", "their means", "most later in one"),
    *("overdue", "interrupts"),
)


def waits(block: Mapping[str, Any]) -> bool:
    """Whether a stream's block of the result is of one host that waits for instants: a timer, ours or a tool's."""
    return "probe" in block and block["talker"] == block["listener"]


def any_waits(result: Mapping[str, Any]) -> bool:
    """Whether any of a result's cells has such a block."""
    return any(waits(block) for cell in result["cells"] for block in cell["streams"].values())


@dataclass(frozen=True)
class TimerRow:
    """One timer of one cell, in words."""

    texts: Sequence[str]
    bad: Sequence[str]


def timer_rows(result: Mapping[str, Any]) -> Iterator[TimerRow]:
    """A row for each timer, in the order of the summary."""
    for cell in rows.ordered_cells(result):
        for name, block in cell["streams"].items():
            if timer := block.get("timer"):
                yield _row(cell, name, block, timer)


def window_rows(result: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    """A row for each window of each timer, in their order; none of timers that had too many."""
    for cell in rows.ordered_cells(result):
        for name, block in cell["streams"].items():
            for window in (block.get("timer") or {}).get("windows") or ():
                yield (
                    cell_title(cell),
                    str(cell["repeat"]),
                    f"{name}, {block['talker']}",
                    f"{window['from_ns'] / 1e9:g} s",
                    str(window["n"]),
                    *(microseconds(window[figure]) for figure in ("mean", "stddev", "min", "max")),
                    str(window["above"]),
                    f"{100 * window['above'] / window['n']:.3g} %",
                )


def _row(cell: Mapping[str, Any], name: str, block: Mapping[str, Any], timer: Mapping[str, Any]) -> TimerRow:
    counts = block["counts"]
    overdue = str(counts["overdue"]) if counts["overdue"] else "none"
    told = _interrupts(block)
    texts = (
        cell_title(cell),
        str(cell["repeat"]),
        f"{name}, {block['talker']}",
        duration(timer["threshold_ns"]),
        f"{timer['above']} of {timer['n']}",
        f"{100 * timer['above'] / timer['n']:.3g} %" if timer["n"] else "",
        *_windows(timer),
        overdue,
        told,
    )
    bad = [overdue] if counts["overdue"] else []
    return TimerRow(texts, bad if told in ("told", NOT_ASKED) else [*bad, told])


def _windows(timer: Mapping[str, Any]) -> tuple[str, str, str]:
    """How many, of which length; from which mean to which; how many were later than the threshold in the worst."""
    windows = timer["windows"]
    if windows is None:
        return f"too many of {duration(timer['window_ns'])}", "", ""
    if not windows:
        return "", "", ""
    means = sorted(one["mean"] for one in windows)
    ends = dict.fromkeys((duration(means[0]), duration(means[-1])))
    most = max(windows, key=lambda one: one["above"])
    worst = f"{most['above']} of {most['n']}, from {duration(most['from_ns'])} on" if most["above"] else "none"
    return f"{len(windows)} of {duration(timer['window_ns'])}", " to ".join(ends), worst


def _interrupts(block: Mapping[str, Any]) -> str:
    """Whether the kernel told of the timer's interrupts."""
    if not block["timer"]["traced"]:
        return NOT_ASKED if block["timer"]["trace_problem"] is None else "not told"
    return f"{block['counts']['untold']} not told" if block["counts"]["untold"] else "told"
