"""Robust local figures of long arrays: quantiles of intervals of equal length, and curves through them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]
Bools = NDArray[np.bool_]

Numbers = NDArray[np.float64] | NDArray[np.int64]

TRIMMED: Final = 0.025
HALF: Final = 0.5
OF_GAUSSIAN: Final = 1.4336
"""2 (φ(0) − φ(z)) / (½ − TRIMMED), z the quantile of 1 − TRIMMED: what block_spreads divides by."""
QUARTER_OF_GAUSSIAN: Final = 0.3186
"""The 25th percentile of |x|, x standard normal."""

GOLDEN: Final = 0.6180339887498949
"""Its multiples, modulo 1, lie evenly and never repeat."""
_PIECE: Final = 1 << 20
_NEAR: Final = 8
_TRANSFORMED: Final = 1 << 16


def block_quantiles(values: Numbers, size: int, shares: Sequence[float], *, left_out: Bools | None = None) -> Float64:
    """Quantiles of each interval of `size` values, float64 [shares, blocks]; nearest rank; the last may be shorter.

    left_out: bool [n], values that do not count. An interval with fewer than a quarter of its values has NaN.
    """
    found = np.full((len(shares), -(-len(values) // size)), np.nan)
    for first, table, there in _sorted_stretches(values, size, left_out):
        enough = np.flatnonzero(there * 4 >= min(size, len(values)))
        for row, share in enumerate(shares):
            found[row, first + enough] = table[enough, _rank(share, there[enough])]
    return found


def block_spreads(values: Numbers, size: int, *, left_out: Bools | None = None) -> Float64:
    """How wide each interval's values lie, float64 [blocks]: the standard deviation, were they gaussian.

    The mean of the upper half less that of the lower, both without their outer TRIMMED of all. Of packets that have
    several ways it changes little as a few more take one of them, where differences of quantiles jump.
    """
    found = np.full(-(-len(values) // size), np.nan)
    for first, table, there in _sorted_stretches(values, size, left_out):
        enough = np.flatnonzero(there * 4 >= min(size, len(values)))
        rows, count = table[enough], there[enough]
        sums = np.concatenate((np.zeros((len(rows), 1)), np.nancumsum(rows, axis=1)), axis=1)
        cuts = [_rank(share, count) for share in (TRIMMED, HALF, HALF, 1 - TRIMMED)]
        lower, upper = ((np.arange(len(rows)), cut) for cut in (cuts[0], cuts[1]))
        below = (sums[upper] - sums[lower]) / np.maximum(cuts[1] - cuts[0], 1)
        lower, upper = ((np.arange(len(rows)), cut) for cut in (cuts[2], cuts[3] + 1))
        above = (sums[upper] - sums[lower]) / np.maximum(cuts[3] + 1 - cuts[2], 1)
        found[first + enough] = (above - below) / OF_GAUSSIAN
    return found


def _sorted_stretches(
    values: Numbers, size: int, left_out: Bools | None
) -> Iterator[tuple[int, Float64, NDArray[np.int64]]]:
    """Pieces of many intervals: the number of the first, its values in order with NaN last, and how many there are."""
    blocks = -(-len(values) // size)
    per = max(1, _PIECE // size)
    for first in range(0, blocks, per):
        last = min(first + per, blocks)
        piece = np.full((last - first) * size, np.nan)
        inside = slice(first * size, min(last * size, len(values)))
        count = inside.stop - inside.start
        piece[:count] = values[inside]
        if left_out is not None:
            piece[:count][left_out[inside]] = np.nan
        table = piece.reshape(-1, size)
        table.sort(axis=1)
        yield first, table, size - np.isnan(table).sum(axis=1)


def _rank(share: float, count: NDArray[np.int64]) -> NDArray[np.int64]:
    rank: NDArray[np.int64] = np.maximum(np.ceil(share * count).astype(np.int64) - 1, 0)
    return rank


def filled(values: Float64) -> Float64:
    """The values, NaN replaced by what lies on the straight line between its neighbours; 0 where there are none."""
    known = np.flatnonzero(~np.isnan(values))
    if not len(known):
        return np.zeros_like(values)
    return values if len(known) == len(values) else np.interp(np.arange(len(values)), known, values[known])


def running_median(values: Float64, reach: int) -> Float64:
    """The median of each value and `reach` neighbours on either side, float64 [n]; the ends are mirrored."""
    return running_quantile(values, reach, HALF)


def running_quantile(values: Float64, reach: int, share: float) -> Float64:
    """A quantile (nearest rank) of each value and `reach` neighbours on either side; the ends are mirrored."""
    if len(values) == 0 or reach == 0:
        return values
    width = 2 * reach + 1
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(values, reach, mode="symmetric"), width)
    rank = int(np.ceil(share * width)) - 1
    found = np.empty_like(values)
    for first in range(0, len(values), _PIECE // width + 1):
        piece = slice(first, first + _PIECE // width + 1)
        found[piece] = np.partition(windows[piece], rank, axis=1)[:, rank]
    return found


def through_middles(levels: Float64, size: int, n: int) -> Float64:
    """The broken line through the levels at their intervals' middles, float64 [n]; level beyond the first and last."""
    curve = np.empty(n)
    if len(levels) == 1:
        curve[:] = levels[0]
        return curve
    middles = (np.arange(len(levels)) + 0.5) * size - 0.5
    middles[-1] = ((len(levels) - 1) * size + n - 1) / 2
    for first in range(0, n, _PIECE):
        last = min(first + _PIECE, n)
        curve[first:last] = np.interp(np.arange(first, last), middles, levels)
    return curve


def spread_over(levels: Float64 | NDArray[np.float32], size: int, n: int) -> NDArray[np.float32]:
    """Each interval's figure for each of its values, float32 [n]."""
    return np.repeat(levels.astype(np.float32), size)[:n]


def in_spreads(late: Float64, spreads: Float64, size: int, step_ns: int) -> Float64:
    """How late packets are in the spreads of their intervals, float64 [n].

    Timestamps on a coarse lattice tie; between its points they are spread evenly.
    """
    found = np.empty(len(late))
    per, stretches = max(1, _PIECE // size), spreads.astype(np.float32)
    for number in range(0, len(stretches), per):
        here = slice(number * size, min((number + per) * size, len(late)))
        between = np.arange(here.start, here.stop) * GOLDEN
        between %= 1
        between -= 0.5
        between *= step_ns
        between += late[here]
        wide = np.repeat(stretches[number : number + per], size)[: len(between)]
        np.divide(between, wide, out=found[here])
    return found


def robust_scale(values: Float64) -> float:
    """1.4826 × the median distance from the median: the standard deviation, were they gaussian. 0 of nothing."""
    if len(values) == 0:
        return 0.0
    return float(1.4826 * np.median(np.abs(values - np.median(values))))


def scatter_about_line(values: Float64, lag: int = 1) -> float:
    """How much values scatter, whatever they slowly do: by their second differences over `lag`, of the quieter part.

    The standard deviation, were they independent and gaussian; 0 of too few.
    """
    second = values[2 * lag :] - 2 * values[lag:-lag] + values[: -2 * lag]
    return float(np.quantile(np.abs(second), 0.25)) / QUARTER_OF_GAUSSIAN / 6**0.5 if len(second) else 0.0


def lagged_products(values: Float64, lags: int) -> Float64:
    """Σ values[i] · values[i + lag] for each lag from 0 to `lags`, float64 [lags + 1].

    By Fourier transforms of pieces: one of the whole would take as much memory as everything else together.
    """
    piece = max(_TRANSFORMED - lags, lags)
    padded = 1 << (piece + lags - 1).bit_length()
    found = np.zeros(lags + 1)
    for first in range(0, len(values), piece):
        ahead = np.fft.rfft(values[first : first + piece + lags], padded)
        here = np.fft.rfft(values[first : first + piece], padded)
        found += np.fft.irfft(ahead * np.conj(here), padded)[: lags + 1]
    return found


def shorth(values: Float64) -> float:
    """The median of the shortest interval that has half of the values: where most of them are."""
    return shorth_of(np.sort(values))


def shorth_of(ordered: Float64) -> float:
    """The same of ascending values."""
    half = len(ordered) // 2
    first = int(np.argmin(ordered[half:] - ordered[: len(ordered) - half]))
    return float(np.median(ordered[first : first + half + 1]))


def runs(flags: Bools) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where intervals of True begin and where they end (excluded), ascending."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False]))))
    return edges[::2], edges[1::2]


def members(spans: tuple[Int64, Int64], n: int) -> Bools:
    """Which of n packets are in one of these spans, bool [n]."""
    begins, stops = spans
    edges = np.zeros(n + 1, np.int8)
    edges[begins] += 1
    # One may end where the next begins.
    edges[stops] -= 1
    found: Bools = np.cumsum(edges[:n], dtype=np.int8) > 0
    return found


def run_starts(numbers: Int64) -> Int64:
    """Where, among ascending numbers, each run of those that follow one another begins; none of none."""
    if not len(numbers):
        return np.empty(0, np.int64)
    return np.concatenate(([0], np.flatnonzero(np.diff(numbers) > 1) + 1))


def ranges(begins: Int64, ends: Int64) -> tuple[Int64, Int64]:
    """All numbers from each of `begins` to the end next to it (excluded), one range after the other; and where, among
    these, each range begins."""
    sizes = ends - begins
    starts = np.cumsum(sizes) - sizes
    return np.arange(int(sizes.sum())) - np.repeat(starts - begins, sizes), starts


def first_largest(values: Float64, starts: Int64) -> Int64:
    """Where the largest value of each part is, the first of equal ones; parts begin at `starts`, none is empty."""
    if not len(starts):
        return starts
    largest = np.maximum.reduceat(values, starts)
    equal = np.flatnonzero(values == np.repeat(largest, np.diff(starts, append=len(values))))
    found: Int64 = equal[np.searchsorted(equal, starts)]
    return found


def first_beyond(values: Float64, froms: Int64, tos: Int64, most: Float64) -> Int64:
    """Of each range [from, to) of `values` where the first one larger than its `most` is; `to` where there is none.

    Most are near: a few are tried one by one. The others climb a tree of the largest of 2, 4, 8 … and down again, so
    that no number of long ranges that overlap takes more than a few steps each.
    """
    at, left = froms.copy(), np.arange(len(froms))
    for _ in range(_NEAR):
        left = left[at[left] < tos[left]]
        left = left[values[at[left]] <= most[left]]
        at[left] += 1
    left = left[at[left] < tos[left]]
    if len(left):
        at[left] = _first_above(values, at[left], most[left])
    return np.minimum(at, tos)


def reached(froms: Int64, following: Int64) -> Int64:
    """All numbers below n that are reached from some of them by steps from each to the one that follows it, ascending.

    following int64 [n]: larger than the number itself; n: none follows. In as many rounds as the longest way has
    doublings.
    """
    n = len(following)
    there = np.zeros(n + 1, np.bool_)
    there[froms] = True
    jump = np.append(following, n)
    while True:
        before = np.flatnonzero(there[:n])
        there[jump[before]] = True
        if np.count_nonzero(there[:n]) == len(before):
            return before
        jump = jump[jump]


def chain_lengths(following: Int64) -> Int64:
    """How many numbers there are from each one on, by steps to the one that follows, itself counted, int64 [n].

    following: as of `reached`.
    """
    n = len(following)
    length = np.append(np.ones(n, np.int64), 0)
    jump = np.append(following, n)
    while (jump[:n] < n).any():
        length[:n] += length[jump[:n]]
        jump = jump[jump]
    return length[:n]


def _first_above(values: Float64, froms: Int64, most: Float64) -> Int64:
    """Of each of `froms` where the first value from there on is that is larger than its `most`; n where there is none.

    Up a tree of the largest of 2, 4, 8 … values, and down again to the first of those that are in the largest.
    """
    tree = [values]
    while len(tree[-1]) > 1:
        level = tree[-1] if len(tree[-1]) % 2 == 0 else np.append(tree[-1], -np.inf)
        tree.append(np.maximum(level[::2], level[1::2]))
    place, height = froms.copy(), np.full(len(froms), -1)
    left = np.arange(len(froms))
    for number, level in enumerate(tree):
        left = left[place[left] < len(level)]
        # What a place in the middle of two begins is seen only here; another is seen with its neighbour further up.
        tried = left if len(level) == 1 else left[place[left] % 2 == 1]
        above = level[place[tried]] > most[tried]
        height[tried[above]] = number
        place[tried[~above]] += 1
        left = left[height[left] < 0]
        place[left] //= 2
    found = np.flatnonzero(height >= 0)
    place[height < 0] = len(values)
    for number in range(len(tree) - 1, 0, -1):
        here = found[height[found] >= number]
        place[here] *= 2
        place[here] += tree[number - 1][place[here]] <= most[here]
    return place
