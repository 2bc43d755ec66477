"""All timers of a run on one axis: how late the interrupt's handler and the thread began, as ranges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Final

from latlab.analysis.words import duration
from latlab.report import rows
from latlab.report.places import cell_title
from latlab.report.text import microseconds
from latlab.report.timers import METRICS, where
from latlab.result.types import Metric, Result

TITLE: Final = "Timers on one axis: natively, on a host with guests, in guests"
KEY: Final = "Thin: minimum to maximum. Thick: median to p99, or to the maximum where n supports no p99. Point: mean."


@dataclass(frozen=True)
class Range:
    """One timer's handler or thread; places are % of the axis, which is logarithmic.

    name: what and where. point: of the mean. told: its figures in words.
    """

    name: str
    cell: str
    repeat: int
    of: str
    least: float
    most: float
    low: float
    high: float
    point: float
    told: str
    kind: str = "shown"
    cut_low: bool = False
    cut_high: bool = False
    text: str = ""

    @property
    def where(self) -> str:
        """Which cell and repetition it is of."""
        return f"{self.cell}, repeat {self.repeat}"


@dataclass(frozen=True)
class Ranges:
    """Ranges on one axis. ticks: (place, µs as text). threshold: its place, if all timers have the same one.

    anchor, caption, foot, zero: what a table of `forests` on the page has next to them.
    """

    rows: tuple[Range, ...]
    ticks: tuple[tuple[float, str], ...]
    threshold: float | None
    threshold_told: str
    anchor: str = "timer-ranges"
    foot: str = "after the instant"

    @property
    def caption(self) -> str:
        """What is drawn, and what the line is."""
        line = f" Line: {self.threshold_told}." if self.threshold_told else ""
        return f"{TITLE}, µs, log. {KEY}{line}"

    @property
    def zero(self) -> float | None:
        """Where the line is."""
        return self.threshold


def timer_ranges(result: Result) -> Ranges | None:
    """Those of a result; None if it has no two to put side by side."""
    found = []
    thresholds = set()
    for cell in rows.ordered_cells(result):
        for name, block in cell.streams.items():
            if not (timer := block.timer):
                continue
            thresholds.add(timer.threshold_ns)
            for of, metric in METRICS.items():
                figures = block.metrics.get(metric)
                if figures and figures.n and figures.p50 is not None:
                    what = f"{name}, {block.talker}: {of} ({where(cell, block.talker)})"
                    found.append((what, cell_title(cell), cell.repeat, of, figures))
    if len(found) < 2:
        return None
    ends = [max(float(end or 0), 1.0) for *_, one in found for end in (one.min, one.max)]
    first, last = floor(log10(min(ends))), max(ceil(log10(max(ends))), floor(log10(min(ends))) + 1)

    def place(ns: float) -> float:
        return round(100 * (log10(max(ns, 10.0**first)) - first) / (last - first), 2)

    ticks = tuple((place(10.0**power), f"{10.0 ** (power - 3):g}") for power in range(first, last + 1))
    only = next(iter(thresholds)) if len(thresholds) == 1 else None
    inside = only is not None and 10.0**first <= only <= 10.0**last
    return Ranges(
        tuple(_range(*one, place) for one in found),
        ticks,
        place(only) if only is not None and inside else None,
        f"threshold {duration(only)}" if only is not None and inside else "",
    )


def _range(what: str, cell: str, repeat: int, of: str, figures: Metric, place: Callable[[float], float]) -> Range:
    named = {one: getattr(figures, one) for one in ("min", "p50", "mean", "p99", "max")}
    known = {name: value for name, value in named.items() if value is not None}
    told = ", ".join(f"{name} {microseconds(value)}" for name, value in known.items())
    return Range(
        what,
        cell,
        repeat,
        of,
        place(known["min"]),
        place(known["max"]),
        place(known["p50"]),
        place(known.get("p99", known["max"])),
        place(known["mean"]),
        f"{what}, {cell}, repeat {repeat}: {told} µs",
    )
