"""What moves all packets together: clocks that are steered or stepped, and a path that takes longer or less long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.blocks import block_quantiles, filled, running_median, runs, scatter_about_line, shorth
from latlab.analysis.anomalies.clock_records import Records, records_of
from latlab.analysis.anomalies.found import Claimed, FoundEpisode, packets
from latlab.analysis.anomalies.limit import change_point, lattice_ns
from latlab.analysis.anomalies.parts import one_way_stamps
from latlab.analysis.words import duration
from latlab.model.timestamps import PATH
from latlab.result.types import Evidence

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]

EDGE = 0.6
"""An episode extends outward while the level is off by this share of what begins one."""
FLAT, FLAT_SCATTER = 0.35, 3.5
SHARP = 0.7
BRIDGE = 0.25
MONOTONE = 0.9


@dataclass(frozen=True)
class Moved:
    """Intervals begin to end (excluded) whose level was off, and how.

    off_ns: float64, a value each interval, without the noise of single ones. kind: `step`, `swing` or `drift`.
    """

    begin: int
    end: int
    off_ns: Float64
    kind: str


def find_levels(seen: Claimed) -> Iterator[FoundEpisode]:
    """Clock swings, drifts and steps, and changes of the path."""
    one_way = one_way_ns(seen)
    course = course_of(seen, one_way)
    if course is None:
        return
    tolerance = tolerance_ns(seen, course)
    line = _drift(course, tolerance, seen.signals.thresholds.drift_share)
    if line is not None:
        yield _told(seen, course, Moved(0, len(line), line - line[0], "drift"), one_way, line - line[0])
    if line is not None or seen.oscillation:
        return
    base = shorth(course.coarse)
    off = course.fine - base
    calm = np.abs(off) <= tolerance
    # Where the level is what it usually is, so is that of the fastest packets.
    fast = course.fast - float(np.median(course.fast[calm] if calm.any() else course.fast))
    fast = running_median(fast, course.per // 2)
    smooth = running_median(off, 1), running_median(off, course.per // 2)
    spans = list(_episodes(seen, course.coarse - base, tolerance))
    shifts = _shifts(seen)
    for begin, end in spans:
        one = _told(seen, course, _shaped(course, off, smooth, begin, end, tolerance), one_way, fast)
        if not _is_told(shifts, one):
            yield one
    yield from _near_the_ends(seen, course, one_way, spans, shifts)


def _near_the_ends(
    seen: Claimed, course: Course, one_way: Float64, spans: list[tuple[int, int]], shifts: Int64
) -> Iterator[FoundEpisode]:
    """Steps that readings of a clock show, too near to an end of the stream to leave a level that lasts."""
    signals = seen.signals
    n, size, second = len(signals.row), course.size, course.per * course.size
    least = signals.thresholds.level_length_ns // signals.context.period_ns + second
    for step in signals.context.steps:
        between = np.searchsorted(signals.launch_ns, (step.from_tai_ns, step.to_tai_ns))
        first, last = max(0, int(between[0]) - second), min(n, int(between[1]) + second)
        known = first + np.flatnonzero(~np.isnan(one_way[first:last]))
        at = change_point(one_way[known], tolerance_ns(seen, course))
        if at is None:
            continue
        place = int(known[at])
        begin, end = (0, place) if place < n - place else (place, n)
        if end - begin >= least or any(a * second < end and begin < b * second for a, b in spans):
            continue
        off = float(
            np.nanmedian(one_way[begin:end])
            - np.nanmedian(one_way[known[known < place] if begin else known[known >= place]])
        )
        stretches = begin // size, max(begin // size + 1, min(-(-end // size), len(course.fine)))
        flat = np.full(stretches[1] - stretches[0], off)
        moved = Moved(*stretches, flat, "step")
        one = told(seen, course, moved, (begin, end), one_way, np.full(len(course.fine), off))
        if "steps" in one.evidence and not _is_told(shifts, one):
            yield one


def _shifts(seen: Claimed) -> Int64:
    """The first and the last row of each shift that was found, int64 [k, 2]."""
    found = [one for one in seen.found if isinstance(one, FoundEpisode) and "kind" in one.evidence]
    return np.array([(one.first, one.last) for one in found], np.int64).reshape(-1, 2)


def _is_told(shifts: Int64, one: FoundEpisode) -> bool:
    """Whether half of it is in shifts that were found already."""
    both = np.minimum(one.last, shifts[:, 1]) + 1 - np.maximum(one.first, shifts[:, 0])
    return 2 * int(np.maximum(both, 0).sum()) > one.last + 1 - one.first


def _drift(course: Course, tolerance: float, share: float) -> Float64 | None:
    """The straight line on which the level goes all the time, float64 [intervals]; None where it does not."""
    coarse, half = course.coarse, len(course.coarse) // 2
    steps = (coarse[half:] - coarse[: len(coarse) - half]) / half
    slope = float(np.median(steps))
    rise = abs(slope) * (len(coarse) - 1)
    left = coarse - slope * np.arange(len(coarse))
    spread = float(np.quantile(left, 0.95) - np.quantile(left, 0.05))
    if rise < 2 * tolerance or spread > share * rise or np.mean(np.sign(steps) == np.sign(slope)) < MONOTONE:
        return None
    middle = (np.arange(len(course.fine)) - (course.per - 1) / 2) / course.per
    line: Float64 = np.median(left) + slope * middle
    return line


def _episodes(seen: Claimed, off: Float64, tolerance: float) -> Iterator[tuple[int, int]]:
    """Points begin to end (excluded) at which the level is off, both lobes of a wave together."""
    begins, ends = runs(np.abs(off) > tolerance)
    spans: list[tuple[int, int]] = []
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        if spans:
            before, last = spans[-1]
            opposite = np.sign(off[last - 1]) != np.sign(off[begin])
            gap = max(1, BRIDGE * min(last - before, end - begin)) if opposite else 1
            if begin - last <= gap:
                spans[-1] = before, end
                continue
        spans.append((begin, end))
    least = seen.signals.thresholds.level_length_ns // seen.signals.thresholds.level_ns
    yield from (span for span in spans if span[1] - span[0] >= least)


def _shaped(
    course: Course, off: Float64, smooth: tuple[Float64, Float64], begin: int, end: int, tolerance: float
) -> Moved:
    """The intervals of an episode, and whether it is a step or a swing.

    smooth: what is off, without the noise of single intervals, and without that of a second.
    """
    first, last = course.stretch(begin), min(course.stretch(end), len(off))
    if end * course.per + course.per > len(off):
        last = len(off)
    near, wide = smooth
    edge = EDGE * tolerance
    sign_first = np.sign(np.median(off[first : first + course.per]))
    sign_last = np.sign(np.median(off[last - course.per : last]))
    while first > 0 and near[first - 1] * sign_first > edge:
        first -= 1
    while first < last - 1 and near[first] * sign_first <= edge:
        first += 1
    while last < len(off) and near[last] * sign_last > edge:
        last += 1
    while last > first + 1 and near[last - 1] * sign_last <= edge:
        last -= 1
    inside = wide[first:last]
    whole = [course.coarse[point] for point in range(begin + 1, end - 1)] or inside.tolist()
    plateau = abs(float(np.median(inside)))
    flat = float(np.quantile(whole, 0.9) - np.quantile(whole, 0.1))
    is_flat = flat <= max(FLAT * plateau, FLAT_SCATTER * course.scatter_ns)
    sharp = [_is_sharp(off, place, plateau, course.per) for place in (first, last) if 0 < place < len(off)]
    return Moved(first, last, inside, "step" if is_flat and sharp and all(sharp) else "swing")


def _is_sharp(off: Float64, place: int, plateau: float, per: int) -> bool:
    """Whether the level changes by most of the plateau around there, at once but for the interval it happens in."""
    most, reach = 0.0, max(1, per // 2)
    for at in range(max(1, place - 2), min(place + 2, len(off) - 2) + 1):
        before, after = off[max(0, at - reach) : at], off[at + 1 : at + 1 + reach]
        most = max(most, abs(float(np.median(after) - np.median(before))))
    return most >= SHARP * plateau


def _told(seen: Claimed, course: Course, moved: Moved, one_way: Float64, fast_ns: Float64) -> FoundEpisode:
    """The episode, with what the clocks' records say of it. fast_ns: how far the fastest packets moved, by interval."""
    return told(seen, course, moved, _places(course, moved, one_way, len(seen.signals.row)), one_way, fast_ns)


def told(
    seen: Claimed,
    course: Course,
    moved: Moved,
    places: tuple[int, int],
    one_way: Float64,
    fast_ns: Float64,
    rows: Int64 | None = None,
) -> FoundEpisode:
    """The same, of judged packets from one place to another (excluded); rows: those that are in it, None for all."""
    signals = seen.signals
    begin, end = places
    off = moved.off_ns
    peak = float(off[np.argmax(np.abs(off))])
    middles = np.minimum((np.arange(moved.begin, moved.end) * course.size + course.size // 2), len(signals.row) - 1)
    records = records_of(signals, signals.launch_ns[middles], off, tolerance_ns(seen, course))
    most = np.abs(off) >= 0.5 * abs(peak)
    parallel = float(np.median(fast_ns[moved.begin : moved.end][most] / off[most]))
    by_clocks = not records.excluded and parallel >= signals.thresholds.parallel
    kind = "step" if records.stepped else moved.kind
    by_clock = {"step": "clock_step"}.get(kind, "clock_swing") if records.supported else "unexplained"
    name = by_clock if by_clocks else "path_change"
    if moved.kind == "drift" and not records.supported:
        name = "drift"
    lasted = int(signals.launch_ns[end - 1] - signals.launch_ns[begin]) + signals.context.period_ns
    # Over a second's worth of intervals, so that noise makes no rate.
    steps = off[course.per :: course.per] - off[: -course.per : course.per] if len(off) > course.per else np.zeros(1)
    fastest = float(np.abs(steps).max()) / (course.per * course.size * signals.context.period_ns) * 1e9
    evidence: Evidence = {
        "kind": moved.kind,
        "peak_ns": round(peak),
        "pk_pk_ns": round(float(off.max() - min(off.min(), 0.0) if off.max() > 0 else -off.min())),
        "length_ns": lasted,
        "fastest_ppb": round(fastest),
        "below_zero": int((one_way[begin:end] < 0).sum()),
        "parallel": round(parallel, 2),
        "where": PATH,
        **records.evidence,
    }
    row = signals.row
    stays = "until" if begin == 0 < len(signals.row) - end else "from" if end == len(signals.row) and begin else ""
    text = _text(name, moved.kind, peak, evidence, lasted, records, stays)
    first = signals.warmup if begin == 0 and not seen.started else int(row[begin])
    return FoundEpisode(name, first, int(row[end - 1]), rows, abs(peak), evidence, text)


def _text(name: str, kind: str, peak: float, evidence: Evidence, lasted: int, records: Records, stays: str) -> str:
    """stays: a level that the run begins with ends there (`until`), or one begins that lasts to its end (`from`)."""
    if kind == "step" and stays == "until":
        # It is the change that happened, and not the level that was before it.
        peak = -peak
    size = f"{'+' if peak > 0 else '−'}{duration(abs(peak))}"
    if kind == "drift":
        moved = f"all latencies drifted by {size} within {duration(lasted)}"
    elif kind == "step":
        end = {"until": f" after {duration(lasted)}, and stayed", "from": ", and stayed"}
        moved = f"all latencies jumped by {size}{end.get(stays, f', for {duration(lasted)}')}"
    else:
        moved = f"all latencies moved by up to {size} within {duration(lasted)}"
    below = f", so that {packets(evidence['below_zero'])} arrived before leaving" if evidence["below_zero"] else ""
    like = {
        "clock_step": ", as if a clock was stepped",
        "clock_swing": ", as if a clock was slewed" if kind != "drift" else ", as with clocks of different rates",
    }.get(name, "")
    if name == "drift":
        return f"{moved}{below}, by {evidence['fastest_ppb']} ns a second{records.text}"
    if name == "path_change" and not records.excluded:
        return f"{moved}{below}, but not the fastest packets, so it was not a clock"
    if name == "unexplained":
        return f"{moved}{below}, because of the clocks or of the path: no clock's record shows it{records.text}"
    return f"{moved}{below}{like}{records.text}"


def _places(course: Course, moved: Moved, one_way: Float64, n: int) -> tuple[int, int]:
    """The judged packets from which and to which (excluded) it goes; of a step to the packet."""
    begin, end = moved.begin * course.size, min(moved.end * course.size, n)
    if moved.kind == "step":
        if begin > 0:
            begin = _step_place(one_way, begin, course.size)
        if end < n:
            end = _step_place(one_way, end, course.size)
    return begin, max(end, begin + 1)


def _step_place(one_way: Float64, near: int, size: int) -> int:
    first = max(0, near - 2 * size)
    values = one_way[first : near + 2 * size]
    known = np.flatnonzero(~np.isnan(values))
    at = change_point(values[known])
    return near if at is None else first + int(known[at])


# The course of the level: how long packets usually take between the two hosts, over the stream.


POINTS_LEAST = 8
FEW_POINTS = 4.0
"""Of so few points the scatter is known within a half; of many it is known well."""
LAG = 3
"""Second differences say how much a level scatters, whatever it slowly does: of neighbours, and over so many points."""
CORRELATED = 1.5
"""Of noise that is correlated over a second neighbours differ by so much less; what is beyond that is no noise."""
LATTICE = 1.2
"""Medians of what comes in steps jump by one of them at the least change."""


@dataclass(frozen=True)
class Course:
    """The level of one-way delays over the stream: medians of intervals of `size` packets, and of `per` intervals.

    fine: float64 [intervals], a quantile of the one-way delay: of the median, the 25th and the 10th percentile the one
    that scatters least (where packets have several ways, medians jump from one to the other). fast: the 10th. coarse:
    float64 [points], medians of `per` of `fine`. scatter_ns: of coarse, as noise has it. spread_ns: of packets.
    lattice_ns: of what delays are multiples.
    """

    size: int
    per: int
    fine: Float64
    fast: Float64
    coarse: Float64
    scatter_ns: float
    spread_ns: float
    lattice_ns: int

    def stretch(self, point: int) -> int:
        """The first interval of a point."""
        return point * self.per


def one_way_ns(seen: Claimed) -> Float64:
    """Each judged packet's delay between the two hosts, float64 [n], NaN where it is unknown: by NICs, else by kernels.

    Without timestamps of leaving, from the launch on.
    """
    signals = seen.signals
    rows = signals.rows
    pair = one_way_stamps(rows)
    if pair is None:
        return signals.level_ns + signals.late_ns
    start, end = (rows[f"{name}_tai_ns"] for name in pair)
    values = (end - start).cast(float).to_numpy()  # null becomes NaN
    return values if len(signals.row) == rows.height else values[signals.row]


def course_of(seen: Claimed, one_way: Float64) -> Course | None:
    """The course of the level; None for a stream that is too short to have one."""
    signals = seen.signals
    size = signals.size
    per = max(1, round(signals.thresholds.level_ns / (size * signals.context.period_ns)))
    if len(one_way) < POINTS_LEAST * per * size:
        return None
    late = np.zeros(len(signals.row), np.bool_)
    late[signals.late] = True
    late[: seen.started] = True
    shares = (0.1, 0.25, 0.5, 0.75, 0.9)
    quantiles = [filled(one) for one in block_quantiles(one_way, size, shares, left_out=late)]
    if seen.started:
        begun = -(-seen.started // size) + 1
        for one in quantiles:
            one[:begun] = np.median(one[begun : begun + per])
    points = len(quantiles[0]) // per

    def point_medians(fine: Float64) -> Float64:
        return np.median(fine[: points * per].reshape(points, per), axis=1)

    def scatter(fine: Float64) -> float:
        # Of points at every interval, not only of those that are kept: in short streams there are few.
        levels = running_median(fine, per // 2)
        near, far = (scatter_about_line(levels, lag * per) for lag in (1, LAG))
        return max(near, min(far, CORRELATED * near)) * (1 + FEW_POINTS / points)

    fine = min((quantiles[number] for number in (2, 1, 0)), key=scatter)
    low, quarter, _, three_quarters, high = quantiles
    spread = float(np.median(np.minimum((three_quarters - quarter) / 1.349, (high - low) / 2.563)))
    least = 1.25 * spread / np.sqrt(per * size)
    return Course(size, per, fine, low, point_medians(fine), max(scatter(fine), least), spread, lattice_ns(one_way))


def tolerance_ns(seen: Claimed, course: Course) -> float:
    """How far off a level may be by noise."""
    thresholds = seen.signals.thresholds
    return max(
        thresholds.level_spread * course.spread_ns,
        thresholds.level_scatter * course.scatter_ns,
        thresholds.level_least_ns,
    ) + (LATTICE * course.lattice_ns if course.lattice_ns > 1 else 0)
