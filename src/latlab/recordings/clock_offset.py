"""How far one host's clock is ahead of another's at given instants, and how well that is known.

cell.json's `clocks` are edges between hosts (docs/reference/run-folder.md): what bounds the difference of two clocks,
over time. Two hosts that nothing compares directly may be joined by a chain of edges, each of which holds in both
directions.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.model.clock_sources import source_named
from latlab.model.units import PPB, SECOND_NS
from latlab.recordings.cell import ClockEdge, ClockWindow

Instants = NDArray[np.int64]
Known = NDArray[np.bool_]

_REACH_NS: Final = SECOND_NS
"""How far beyond the first and last comparison their rates are taken to hold: no further is anything known."""


@dataclass(frozen=True)
class Offset:
    """One clock − another at n instants: estimate_ns int64 [n], and half_ns int64 [n], by which it may be off at most.

    known bool [n]: where anything bounds it; elsewhere both are 0 and say nothing.
    """

    estimate_ns: Instants
    half_ns: Instants
    known: Known


@dataclass(frozen=True)
class OffsetWindow:
    """The offset's interval at one instant, and the rates it changes by at least and at most before and after, ppb."""

    reference_ns: int
    lower_ns: int
    upper_ns: int
    least_ppb: float
    most_ppb: float

    def reversed(self) -> OffsetWindow:
        """The same, of the other clock's offset, by that clock: θ' = −θ, whose rate is −d / (1 + d).

        The other clock read something between reference + lower and reference + upper then: over what may be missing to
        the middle of the two the rate widens the interval.
        """
        middle = (self.lower_ns + self.upper_ns) // 2
        least, most = (-d / (1 + d * PPB) for d in (self.most_ppb, self.least_ppb))
        slack = _ceil(max(abs(least), abs(most)) * PPB * (self.upper_ns - middle))
        return OffsetWindow(self.reference_ns + middle, -self.upper_ns - slack, -self.lower_ns + slack, least, most)


_ONE_CLOCK: Final = OffsetWindow(0, 0, 0, 0.0, 0.0)


@dataclass(frozen=True)
class Edge:
    """What bounds host `to`'s clock − host `from_`'s, by `from_`'s clock: windows in order of time, at least one.

    span_ns: the first and last instant of the comparisons; None where the bound holds at all times.
    """

    from_: str
    to: str
    windows: tuple[OffsetWindow, ...]
    span_ns: tuple[int, int] | None = None

    def reversed(self) -> Edge:
        """The same, seen from the other host."""
        windows = tuple(window.reversed() for window in self.windows)
        moved = None
        if self.span_ns:
            # Each window's reference is moved by the offset there, and so are the ends.
            first, last = (windows[n].reference_ns - self.windows[n].reference_ns for n in (0, -1))
            moved = self.span_ns[0] + first, self.span_ns[1] + last
        return Edge(self.to, self.from_, windows, moved)

    def width_ns(self) -> int:
        """How well it bounds: the median width of its windows, ns."""
        return int(np.median([window.upper_ns - window.lower_ns for window in self.windows]))

    def at(self, instants: Instants) -> tuple[Instants, Instants, Known]:
        """The offset's interval at instants of `from_`'s clock: lower, upper, and where there is one.

        The windows before and after an instant both bound it, each widened by what its rates bring until then. Where
        the two exclude each other a clock was stepped between them, and nothing bounds the offset.
        """
        if self.windows == (_ONE_CLOCK,):
            nothing = np.zeros(len(instants), np.int64)
            return nothing, nothing, np.ones(len(instants), np.bool_)
        after = np.searchsorted([window.reference_ns for window in self.windows], instants)
        last = len(self.windows) - 1
        one = self._from_window(instants, np.maximum(after - 1, 0))
        other = self._from_window(instants, np.minimum(after, last))
        lower, upper = np.maximum(one[0], other[0]), np.minimum(one[1], other[1])
        return lower, upper, (lower <= upper) & self._within_reach(instants)

    def _within_reach(self, instants: Instants) -> Known:
        if self.span_ns is None:
            return np.ones(len(instants), np.bool_)
        first, last = self.span_ns
        reached: Known = (instants >= first - _REACH_NS) & (instants <= last + _REACH_NS)
        return reached

    def _from_window(self, instants: Instants, which: NDArray[np.intp]) -> tuple[Instants, Instants]:
        def of(name: str, dtype: type) -> NDArray[Any]:
            return np.array([getattr(window, name) for window in self.windows], dtype)[which]

        away = (instants - of("reference_ns", np.int64)).astype(np.float64) * PPB
        gains = away * of("least_ppb", np.float64), away * of("most_ppb", np.float64)
        lower = of("lower_ns", np.int64) + np.floor(np.minimum(*gains)).astype(np.int64)
        upper = of("upper_ns", np.int64) + np.ceil(np.maximum(*gains)).astype(np.int64)
        return lower, upper

    def widest_rate(self) -> float:
        """The largest rate at which the offset may change, either way, ns per ns."""
        return max(max(abs(window.least_ppb), abs(window.most_ppb)) for window in self.windows) * PPB


def offset_between(clocks: Sequence[ClockEdge], host: str, reference: str, instants: Instants) -> Offset | None:
    """host's clock − reference's at instants of host's clock (int64 [n]); None if no chain of edges joins the two.

    clocks: cell.json's.
    """
    chain = find_chain(clocks, host, reference)
    if chain is None:
        return None
    estimate, half = np.zeros(len(instants), np.int64), np.zeros(len(instants), np.int64)
    known = np.ones(len(instants), np.bool_)
    for edge in chain:
        # `estimate` is reference − host as far as the chain goes; half, how wrong instants on this edge's clock may be.
        lower, upper, bounded = edge.at(instants + estimate)
        slack = np.ceil(edge.widest_rate() * half).astype(np.int64)
        middle = lower + (upper - lower) // 2
        estimate, half, known = estimate + middle, half + slack + (upper - middle), known & bounded
    return Offset(np.where(known, -estimate, 0), np.where(known, half, 0), known)


def find_chain(clocks: Sequence[ClockEdge], start: str, end: str) -> tuple[Edge, ...] | None:
    """The edges that lead from one host to the other, those that bound best together; none for one host, None if there
    is no way.
    """
    edges = [turned for entry in clocks for edge in [_edge(entry)] if edge for turned in (edge, edge.reversed())]
    number = itertools.count()  # of equally good ways the first found is taken, and ways are never compared
    ways: list[tuple[int, int, int, str, tuple[Edge, ...]]] = [(0, 0, next(number), start, ())]
    seen: set[str] = set()
    while ways:
        width, hops, _, host, chain = heapq.heappop(ways)
        if host == end:
            return chain
        if host in seen:
            continue
        seen.add(host)
        for edge in edges:
            if edge.from_ == host:
                way = (width + edge.width_ns(), hops + 1, next(number), edge.to, (*chain, edge))
                heapq.heappush(ways, way)
    return None


def _edge(entry: ClockEdge) -> Edge | None:
    """An entry of cell.json's `clocks`; None if it bounds nothing.

    Packets over a network bound so loosely that only a line through all exchanges is narrow: it is taken where there
    is one. A page's looks are narrow already, so its windows are taken, and rates may change. Windows that do not
    bound the drift say nothing beyond their instant. Without any window the entry's interval holds all the time.
    """
    span = None
    line = entry.bound if source_named(entry.source).sends_packets else None
    if of_all := [line] if line and _window(line) else entry.windows:
        bounding = [window for window in of_all if _window(window)]
        windows = sorted(filter(None, map(_window, bounding)), key=lambda window: window.reference_ns)
        span = _span(bounding)
    elif entry.lower_ns is None or entry.upper_ns is None:
        windows = []
    else:
        windows = [OffsetWindow(0, entry.lower_ns, entry.upper_ns, 0.0, 0.0)]
    return Edge(entry.from_, entry.to, tuple(windows), span) if windows else None


def _span(windows: Sequence[ClockWindow]) -> tuple[int, int] | None:
    """The first and last instant of the windows, whose references are in their middle."""
    halves = [(window.reference_tai_ns, window.span_ns // 2) for window in windows]
    if not halves:
        return None
    return min(middle - half for middle, half in halves), max(middle + half for middle, half in halves)


def _window(window: ClockWindow) -> OffsetWindow | None:
    """None: it does not bound the drift."""
    least, most = window.drift_lower_ppb, window.drift_upper_ppb
    if least is None or most is None:
        return None
    return OffsetWindow(window.reference_tai_ns, window.lower_ns, window.upper_ns, float(least), float(most))


def _ceil(value: float) -> int:
    return int(np.ceil(value))


# Which TAI instant a CLOCK_REALTIME timestamp is, by the clocks its host recorded.


@dataclass(frozen=True)
class RealToTai:
    """TAI − REALTIME of one host, piecewise constant over REALTIME.

    The kernel keeps the difference as a whole number of seconds (kernel/time/timekeeping.c, `tai_offset`), so
    each recorded pair is rounded to one: what is left is only the time between the two reads. Between two
    rows that disagree the nearer row decides; where exactly the offset changed was not recorded, and the
    trust checks report the change itself.
    """

    from_real_ns: NDArray[np.int64]
    """Where each piece but the first begins; one shorter than offset_ns."""
    offset_ns: NDArray[np.int64]

    @classmethod
    def from_clocks(cls, clocks: pl.DataFrame, *, tai_offset_s: int | None = None) -> RealToTai | None:
        """The conversion that a clocks table gives (columns `tai_ns`, `real_ns`, any order).

        A table without rows falls back to `tai_offset_s`, what the agent said when it was ready; without that
        either there is no conversion: None.
        """
        if clocks.is_empty():
            if tai_offset_s is None:
                return None
            return cls(np.empty(0, np.int64), np.array([tai_offset_s * SECOND_NS], np.int64))
        by_real = clocks.sort("real_ns")
        real = by_real["real_ns"].to_numpy()
        offset = whole_seconds(by_real["tai_ns"].to_numpy() - real)
        changed = np.flatnonzero(np.diff(offset)) + 1
        middle = real[changed - 1] + (real[changed] - real[changed - 1]) // 2
        return cls(middle, offset[np.concatenate(([0], changed))])

    def __call__(self, real_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """The TAI instants of REALTIME instants, same shape, ns."""
        piece = np.searchsorted(self.from_real_ns, real_ns, side="right") if len(self.from_real_ns) else 0
        tai_ns: NDArray[np.int64] = real_ns + self.offset_ns[piece]
        return tai_ns


def whole_seconds(difference_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each difference rounded to the nearest whole second, in ns."""
    rounded: NDArray[np.int64] = (difference_ns + SECOND_NS // 2) // SECOND_NS * SECOND_NS
    return rounded
