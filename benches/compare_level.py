"""How often methods show a difference where there is none: `benches/compare_level.py [--times N]`.

Prints the table of docs/explanation/comparing.md, as Markdown: of N pairs of groups of repetitions that have the same
mean (or the same distribution), the share that each method calls different at 5 %, and how often it would call any of
24 independent comparisons different with Holm's correction. Welch's degrees of freedom are no whole numbers: his
quantiles are interpolated in 1/freedom between those of whole ones, which is good to a relative 1 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import cache
from math import comb

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.comparison.effect import critical

Array = NDArray[np.float64]
ALPHA, FAMILY = 0.05, 24
SIZES = ((3, 3), (5, 5), (10, 10), (3, 10))
KINDS: dict[str, Callable[[np.random.Generator, tuple[int, int], float], Array]] = {
    "normal, alike": lambda rng, size, _: rng.normal(size=size),
    "normal, b 5 times as wide": lambda rng, size, side: rng.normal(size=size) * (1 + 4 * side),
    "normal, a 5 times as wide": lambda rng, size, side: rng.normal(size=size) * (5 - 4 * side),
    "skewed (log-normal), alike": lambda rng, size, _: rng.lognormal(size=size),
    "two modes, alike": lambda rng, size, _: (rng.random(size) < 0.5) + rng.normal(size=size) / 50,
    "skewed b, narrow a, equal means": lambda rng, size, side: (
        rng.lognormal(size=size) - np.exp(0.5) if side else rng.normal(size=size) / 10
    ),
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="levels of methods to compare repetitions")
    parser.add_argument("--times", type=int, default=200_000)
    times = parser.parse_args().times
    print("| repetitions | spread | Welch | Wilcoxon | unpaired | paired | any of 24: Welch | unpaired | paired |")
    print("|---|---|---|---|---|---|---|---|---|")
    for sizes in SIZES:
        for kind in KINDS:
            print(f"| {sizes[0]} and {sizes[1]} | {kind} | {' | '.join(row(sizes, kind, times))} |", flush=True)


def row(sizes: tuple[int, int], kind: str, times: int) -> Iterator[str]:
    """The shares, in %, of one line of the table."""
    rng = np.random.default_rng([*sizes, *kind.encode()])
    a, b = (KINDS[kind](rng, (times, size), side) for side, size in enumerate(sizes))
    t, welch_freedom = unpaired(a, b)
    bounded = np.full(times, float(min(sizes) - 1))
    pairs = paired(a, b) if sizes[0] == sizes[1] else None
    yield percent(exceeds(t, welch_freedom, ALPHA))
    yield percent(ranks_differ(a, b))
    yield percent(exceeds(t, bounded, ALPHA))
    yield "" if pairs is None else percent(exceeds(pairs, bounded, ALPHA))
    yield percent(any_of(exceeds(t, welch_freedom, ALPHA / FAMILY)))
    yield percent(any_of(exceeds(t, bounded, ALPHA / FAMILY)))
    yield "" if pairs is None else percent(any_of(exceeds(pairs, bounded, ALPHA / FAMILY)))


def unpaired(a: Array, b: Array) -> tuple[Array, Array]:
    """|t| of each row, and Welch's degrees of freedom."""
    n, m = a.shape[1], b.shape[1]
    squares = a.var(1, ddof=1) / n, b.var(1, ddof=1) / m
    freedom = sum(squares) ** 2 / (squares[0] ** 2 / (n - 1) + squares[1] ** 2 / (m - 1))
    return np.abs(b.mean(1) - a.mean(1)) / np.sqrt(sum(squares)), freedom


def paired(a: Array, b: Array) -> Array:
    """|t| of each row's differences."""
    differences = b - a
    error: Array = differences.std(1, ddof=1) / np.sqrt(a.shape[1])
    return np.asarray(np.abs(differences.mean(1)) / error, np.float64)


def exceeds(t: Array, freedom: Array, alpha: float) -> float:
    """The share of t beyond the quantile of its degrees of freedom."""
    whole = np.arange(1, int(freedom.max()) + 2)
    quantiles = np.interp(1 / freedom, 1 / whole[::-1], [critical(alpha, int(one)) for one in whole[::-1]])
    return float((t >= quantiles).mean())


def ranks_differ(a: Array, b: Array) -> float:
    """The share that Wilcoxon's rank sum test, exact and two-sided, calls different at 5 %."""
    n, m = a.shape[1], b.shape[1]
    above = (b[:, :, None] > a[:, None, :]).sum((1, 2))
    cumulated = np.cumsum([ways(n, m, u) for u in range(n * m + 1)]) / comb(n + m, n)
    return float((2 * cumulated[np.minimum(above, n * m - above)] <= ALPHA).mean())


@cache
def ways(n: int, m: int, u: int) -> int:
    """In how many orders of n and m values u pairs have the second one above (Mann & Whitney, 1947)."""
    if u < 0:
        return 0
    if n == 0 or m == 0:
        return int(u == 0)
    return ways(n - 1, m, u - m) + ways(n, m - 1, u)


def any_of(share: float) -> float:
    """How often any of FAMILY independent comparisons is called different, if each is with this share."""
    return float(1 - (1 - share) ** FAMILY)


def percent(share: float) -> str:
    """The share in % with one decimal."""
    return f"{100 * share:.1f}"


if __name__ == "__main__":
    main()
