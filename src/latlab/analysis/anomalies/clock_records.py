"""What is on record of the clocks while all latencies moved: PTP's own offset, and our comparison's bounds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.anomalies.context import ClockStep
from latlab.analysis.anomalies.parts import one_way_stamps
from latlab.analysis.anomalies.signals import Signals
from latlab.analysis.metrics import BOUND
from latlab.analysis.ptp import MASTER, SLAVE, STATES
from latlab.analysis.words import duration
from latlab.result.types import Evidence

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]
Bools = NDArray[np.bool_]

ALIKE = 0.8
"""Least correlation of two courses that are one."""
AS_LARGE = (0.4, 2.5)
"""How much larger one of them may be."""
READINGS_LEAST = 4
FLAT = 0.35
"""A course that varies by less than this share of its mean has one level only, as between a step and the step back."""
NEARLY_FURTHEST = 0.9
NO_RECORD = "no record"


@dataclass(frozen=True)
class Records:
    """excluded: the bounds leave the clocks no room to have moved so far. supported: a record shows that they did.

    stepped: readings of a clock show that it was set then, by as much. evidence, text: what is on record.
    """

    excluded: bool
    supported: bool
    stepped: bool
    evidence: Evidence
    text: str


def records_of(signals: Signals, at_ns: Int64, off_ns: Float64, tolerance_ns: float) -> Records:
    """What is on record about a movement of the level.

    at_ns: instants, TAI, ascending; off_ns: how far the level was off then, without the noise of single intervals.
    tolerance_ns: what may be noise.
    """
    ptp, offset = _ptp(signals, at_ns, off_ns)
    own, half = _own(signals, at_ns, off_ns, tolerance_ns)
    compared = _seen(signals.context.clocks, at_ns)
    taken_off = _seen(signals.context.taken_off, at_ns)
    evidence: Evidence = {
        "ptp": ptp,
        "comparison": own,
        "clock_bound_ns": half,
        **({"ptp_offset": offset} if offset else {}),
        **({"compared": {"by": signals.context.clocks_of, **compared}} if compared else {}),
        **({"taken_off": {"by": signals.context.clocks_of, **taken_off}} if taken_off else {}),
    }
    said = _ptp_text(ptp, offset) + _own_text(own, half, compared, signals.context.clocks_of, ptp)
    if taken_off and taken_off["min_ns"] != taken_off["max_ns"]:
        by = _by(signals.context.clocks_of)
        said += f"; what latlab's comparison{by} measured during that time, {_range(taken_off)}, is subtracted already"
    if steps := _steps(signals, at_ns, off_ns):
        evidence["steps"] = [{"host": one.host, "by_ns": one.by_ns} for one in steps]
        told = " and ".join(f"{one.host}'s clock was set by {signed(one.by_ns)}" for one in steps)
        # What readings show was there, however narrowly other records bound the clocks.
        return Records(False, True, True, evidence, f"; {told}, as its readings show{_ptp_text(ptp, offset)}")
    return Records(own == "excludes", "agrees" in (ptp, own), False, evidence, said)


def _steps(signals: Signals, at_ns: Int64, off_ns: Float64) -> list[ClockStep]:
    """The steps of a clock, as large as the movement, that it begins or ends with."""
    if not signals.context.steps:
        return []
    size = float(np.median(np.abs(off_ns)))
    edges = [_edge(signals, int(at)) for at in (at_ns[0], at_ns[-1])]
    return [
        one
        for one in signals.context.steps
        if AS_LARGE[0] * size <= abs(one.by_ns) <= AS_LARGE[1] * size
        and any(one.from_tai_ns <= last and first <= one.to_tai_ns for first, last in edges)
    ]


def _edge(signals: Signals, at_ns: int) -> tuple[int, int]:
    """Between which instants a level that is seen to change at `at_ns` may have changed.

    Two intervals away, and of packets that were queued then it is not known which of them were on the path during the
    change.
    """
    around = 2 * signals.size
    place = int(np.searchsorted(signals.launch_ns, at_ns))
    first, last = max(0, place - around), min(len(signals.row) - 1, place + around)
    if signals.held is not None:
        free = np.flatnonzero(~signals.held)
        near = np.searchsorted(free, (first, last))
        first = min(first, int(free[near[0] - 1]) if near[0] else 0)
        last = max(last, int(free[near[1]]) if near[1] < len(free) else len(signals.row) - 1)
    margin = around * signals.context.period_ns
    return min(int(signals.launch_ns[first]), at_ns - margin), max(int(signals.launch_ns[last]), at_ns + margin)


def _ptp(signals: Signals, at_ns: Int64, off_ns: Float64) -> tuple[str, Evidence | None]:
    """`agrees`, `differs`, `shows nothing` or `no record`; and what PTP's own offset was meanwhile."""
    rows = signals.context.ptp
    if rows is None:
        return NO_RECORD, None
    known = rows.filter(pl.col("offset_ns").is_not_null())
    at = known["tai_ns"].to_numpy()
    inside = (at >= at_ns[0]) & (at <= at_ns[-1])
    if np.count_nonzero(inside) < READINGS_LEAST:
        return NO_RECORD, None
    offset = known["offset_ns"].to_numpy().astype(np.float64)
    usual = _usual(offset, inside)
    verdict, alike = _compared(np.interp(at_ns, at, offset - usual), off_ns)
    return verdict, {
        "of": signals.context.ptp_of,
        "readings": int(np.count_nonzero(inside)),
        "min_ns": round(float(offset[inside].min())),
        "max_ns": round(float(offset[inside].max())),
        "usual_ns": round(usual),
        "correlation": None if alike is None else round(alike, 2),
        "states": _states(rows, int(at_ns[0]), int(at_ns[-1])),
    }


def _states(rows: pl.DataFrame, first: int, last: int) -> dict[str, int]:
    """{state of the port: readings} between two instants, those without an offset included."""
    if "state" not in rows.columns:
        return {}
    states = rows.filter(pl.col("tai_ns").is_between(first, last))["state"].to_list()
    return {STATES.get(code, str(code)): count for code, count in sorted(Counter(states).items(), reverse=True)}


def _ptp_text(verdict: str, offset: Evidence | None) -> str:
    if offset is None:
        return ""
    said = {
        "agrees": "; PTP's record agrees",
        "differs": "; PTP's record shows a different movement",
        "shows nothing": "; PTP's record does not show it",
    }[verdict]
    where = f" at {offset['of']}" if offset["of"] else ""
    alike = f", correlation {offset['correlation']:.2f}" if offset["correlation"] is not None else ""
    followed = {STATES[SLAVE], STATES[MASTER]}
    others = ", ".join(f"{state} in {count}" for state, count in offset["states"].items() if state not in followed)
    return (
        f"{said}: its offset{where} was {_range(offset)} during that time, {signed(offset['usual_ns'])} usually "
        f"({offset['readings']} readings{alike}{f'; its port was {others}' if others else ''})"
    )


def _own_text(own: str, half: int | None, compared: Evidence | None, by: str, ptp: str) -> str:
    to = "" if half is None else f" to ± {duration(half)}"
    if own == "agrees":
        seen = f", {_range(compared)}{f' ± {duration(half)}' if half else ''}" if compared else ""
        return f"; latlab's comparison of the clocks{_by(by)} shows it, too{seen}"
    if own == "allows":
        return f"; the clocks' bound allows it: they are known{to}{_by(by)}"
    if own == "excludes":
        return f"; the clocks did not move that far: their bounds are narrower,{to}{_by(by)}"
    return "; the clocks are not bounded" if ptp == NO_RECORD else ""


def _by(what: str) -> str:
    return f" ({what})" if what else ""


def _range(found: Evidence) -> str:
    return f"{signed(found['min_ns'])} to {signed(found['max_ns'])}"


def signed(ns: float) -> str:
    """A duration with its sign: "+59.8 µs"."""
    return f"{'−' if ns < 0 else '+' if ns > 0 else ''}{duration(abs(ns))}"


def _seen(clocks: pl.DataFrame | None, at_ns: Int64) -> dict[str, int] | None:
    """How far apart our comparison saw the clocks between these instants: the middle of its bounds; None if it did not.

    min_ns, max_ns, and how many times it looked.
    """
    if clocks is None:
        return None
    inside = clocks.filter(pl.col("at_tai_ns").is_between(int(at_ns[0]), int(at_ns[-1])))
    if inside.is_empty():
        return None
    middle = (inside["lower_ns"] + inside["upper_ns"]).to_numpy() / 2
    return {"min_ns": round(float(middle.min())), "max_ns": round(float(middle.max())), "looks": inside.height}


def _usual(offset: Float64, inside: Bools) -> float:
    """The record's own level before and after; where there is neither, its least."""
    outside = offset[~inside]
    return float(np.median(outside)) if len(outside) >= READINGS_LEAST else float(offset[0])


def _compared(course: Float64, off: Float64) -> tuple[str, float | None]:
    """`agrees`, `differs` or `shows nothing`; and the correlation, None where one of the two does not move.

    Where both have one level only, nothing that is in them is correlated: the levels are compared.
    """
    alike = float(np.corrcoef(course, off)[0, 1]) if np.std(course) and np.std(off) else None
    if np.abs(course).max() < 0.3 * np.abs(off).max():
        return "shows nothing", alike
    levels = float(course.mean()), float(off.mean())
    if np.std(course) < FLAT * abs(levels[0]) and np.std(off) < FLAT * abs(levels[1]):
        return ("agrees" if AS_LARGE[0] <= levels[0] / levels[1] <= AS_LARGE[1] else "differs"), alike
    if alike is None:
        return "differs", None
    ratio = float(np.std(course) / np.std(off))
    return ("agrees" if alike >= ALIKE and AS_LARGE[0] <= ratio <= AS_LARGE[1] else "differs"), alike


def _own(signals: Signals, at_ns: Int64, off_ns: Float64, tolerance_ns: float) -> tuple[str, int | None]:
    """`agrees`, `allows`, `excludes` or `no record`; and half the interval the clocks are bounded to, ns.

    The offset may be anywhere in its interval before the movement, and during it: it may change by a whole one.
    """
    clocks = signals.context.clocks
    if clocks is not None and clocks.height:
        at = clocks["at_tai_ns"].to_numpy()
        lower, upper = (clocks[name].to_numpy().astype(np.float64) for name in ("lower_ns", "upper_ns"))
        middle, half = (lower + upper) / 2, (upper - lower) / 2
        inside = (at >= at_ns[0]) & (at <= at_ns[-1])
        course = np.interp(at_ns, at, middle - _usual(middle, inside))
        bound = float(np.median(half))
        if _compared(course, off_ns)[0] == "agrees":
            return "agrees", round(bound)
    else:
        known = _bounds(signals, at_ns)
        if known is None:
            return NO_RECORD, None
        course, bound = np.zeros(len(off_ns)), known
    beyond = np.abs(off_ns - course) - 2 * bound
    return ("excludes" if np.quantile(beyond, NEARLY_FURTHEST) > tolerance_ns else "allows"), round(bound)


def _bounds(signals: Signals, at_ns: Int64) -> float | None:
    """How far the two clocks may be off, either way, by the packets' own bounds; None where nothing reports it."""
    rows = signals.rows
    stamps = one_way_stamps(rows)
    # NICs' timestamps are not bounded by what is known of the hosts' clocks.
    if BOUND not in rows.columns or (stamps and stamps[1] == "rx_hard"):
        return None
    first, last = np.searchsorted(signals.launch_ns, [at_ns[0], at_ns[-1]])
    bounds = rows[BOUND][int(signals.row[first]) : int(signals.row[max(first, last - 1)]) + 1]
    found = bounds.median()
    return None if bounds.null_count() == len(bounds) or found is None else float(found)  # type: ignore[arg-type]
