"""How often 95 % intervals hold the truth: `benches/interval_coverage.py [--repetitions R] [--only NAME] [--jobs J]`.

Series are made of processes whose percentiles, mean and standard deviation are known exactly, R of each length; a line
a process, length and statistic: in how many per cent an interval was given; how many per cent of those given held the
truth, with two standard errors; how many per cent of all series got an interval that was wrong.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from math import erfc, exp, floor, log, pi, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.confidence import moment_intervals, percentile_intervals
from latlab.model.statistics import PERCENTILES

Floats = NDArray[np.float64]

UNIT_NS = 1_000_000
"""One unit of a process in ns: what rounding to integers does is not seen next to chance."""

ROWS = 50
"""Series made at a time."""


@dataclass(frozen=True)
class Process:
    """make: series [rows, n] by their random generator. quantile: of the values; mean, deviation: of the same."""

    name: str
    make: Callable[[np.random.Generator, int, int], Floats]
    quantile: Callable[[float], float]
    mean: float
    deviation: float
    lengths: tuple[int, ...]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="how often 95 %% intervals hold the truth")
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--only", default="", help="processes whose name contains this")
    parser.add_argument("--longest", type=int, default=300_000, help="no series longer than this")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    print(f"{'process':34} {'n':>7} {'statistic':9} {'given':>6} {'held':>6} {'':>5} {'wrong':>6}   per cent")
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for process in PROCESSES:
            for n in process.lengths:
                if arguments.only in process.name and n <= arguments.longest:
                    report(process, n, list(pool.map(partial(held, process.name, n), batches(arguments.repetitions))))


def report(process: Process, n: int, found: list[dict[str, list[bool | None]]]) -> None:
    """Print a line a statistic: None is blank, else whether the interval held the truth."""
    for name in found[0]:
        results = [result for batch in found for result in batch[name]]
        given = [result for result in results if result is not None]
        line = f"{process.name:34} {n:7} {name:9} {100 * len(given) / len(results):6.1f}"
        if given:
            share, wrong = sum(given) / len(given), (len(given) - sum(given)) / len(results)
            error = 2 * sqrt(max(share * (1 - share), 1 / len(given) / 4) / len(given))
            line += f" {100 * share:6.1f} ±{100 * error:4.1f} {100 * wrong:6.1f}"
        print(line, flush=True)


def batches(repetitions: int) -> Iterator[tuple[int, int]]:
    """(seed, rows) of each batch."""
    for seed, first in enumerate(range(0, repetitions, ROWS)):
        yield seed, min(ROWS, repetitions - first)


def held(name: str, n: int, batch: tuple[int, int]) -> dict[str, list[bool | None]]:
    """Of each statistic, for each series of a batch: whether its interval held the truth, None where it is blank."""
    process = next(process for process in PROCESSES if process.name == name)
    seed, rows = batch
    series = process.make(np.random.default_rng((seed, n)), rows, n)
    truth = {"mean": process.mean, "stddev": process.deviation}
    truth |= {percentile: process.quantile(float(p)) for percentile, p in PERCENTILES.items()}
    results: dict[str, list[bool | None]] = {statistic: [] for statistic in truth}
    for row in series:
        value_ns = np.floor(row * UNIT_NS + 0.5).astype(np.int64)
        intervals = {**moment_intervals(value_ns), **percentile_intervals(value_ns)}
        for statistic, interval in intervals.items():
            if interval.low is None or interval.high is None:
                results[statistic].append(None)
            else:
                right = interval.low - 1 <= truth[statistic] * UNIT_NS <= interval.high + 1
                results[statistic].append(right)
    return results


def autoregressive(phi: float, rng: np.random.Generator, rows: int, n: int) -> Floats:
    """Standard normal series with correlation phi^lag."""
    series = rng.standard_normal((n, rows))
    for i in range(1, n):
        series[i] *= sqrt(1 - phi * phi)
        series[i] += phi * series[i - 1]
    return np.ascontiguousarray(series.T)


@cache
def _logarithm_above() -> tuple[Floats, Floats]:
    z = np.linspace(-9, 9, 200_001)
    return z, np.array([log(erfc(x / sqrt(2)) / 2) for x in z])


def exponential(z: Floats) -> Floats:
    """Normal values as exponential ones of mean 1, in the same order."""
    return -np.interp(z, *_logarithm_above())


def latent(phi: float, margin: Callable[[Floats], Floats]) -> Callable[[np.random.Generator, int, int], Floats]:
    return lambda rng, rows, n: margin(autoregressive(phi, rng, rows, n))


def pareto(shape: float, z: Floats) -> Floats:
    """Normal values as those with P(X > x) = x^−shape."""
    return np.exp(exponential(z) / shape)


def moving_maxima(width: int, rng: np.random.Generator, rows: int, n: int) -> Floats:
    """The largest of the last `width` of independent Gumbel values: what is large comes in clusters of `width`."""
    single = rng.gumbel(size=(rows, n + width - 1))
    largest = single[:, :n].copy()
    for shift in range(1, width):
        np.maximum(largest, single[:, shift : shift + n], out=largest)
    return largest


STALL_RATE, STALL_MEAN = 1e-3, 20.0


def stalls(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """Exponential values on top of stalls: at one packet in 1000 the delay jumps (exponentially, 20 on average) and
    falls by 1 a packet, as everything queued arrives at once."""
    before = 600
    jumps = rng.random((rows, n + before)) < STALL_RATE
    height = np.where(jumps, rng.exponential(STALL_MEAN, jumps.shape), 0.0)
    time = np.arange(n + before)
    level = np.maximum.accumulate(height + time, axis=1) - time
    return np.maximum(level, 0.0)[:, before:] + rng.exponential(1.0, (rows, n))


@cache
def stalled() -> tuple[Floats, Floats]:
    """(x, P(X ≤ x)) of `stalls`: the level stays below v if none of the jumps j packets ago was above v + j."""
    step = 0.01
    x = np.arange(0, 500, step)
    level = np.exp(np.sum([np.log1p(-STALL_RATE * np.exp(-(x + j) / STALL_MEAN)) for j in range(600)], axis=0))
    both = np.empty_like(x)
    both[0] = 0.0
    for i in range(1, len(x)):
        both[i] = both[i - 1] * exp(-step) + (level[i - 1] + level[i]) / 2 * (1 - exp(-step))
    return x, both


def stalled_moments() -> tuple[float, float]:
    x, share = stalled()
    step = x[1] - x[0]
    above = 1 - share
    mean = float(above.sum() - above[0] / 2) * step
    second = float((2 * x * above).sum()) * step
    return mean, sqrt(second - mean**2)


def stalled_quantile(p: float) -> float:
    x, share = stalled()
    return float(np.interp(p, share, x))


REGULAR_EVERY, REGULAR_STALL, REGULAR_NOISE = 1000, 50, 0.01


def regular_stalls(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """Exponential values of mean 0.01 on top of a stall of 50 every 1000 packets, which drains by 1 a packet, as real
    time throttling makes of a packet a millisecond. Which packet of the 1000 is the first is at random."""
    after = (np.arange(n) + rng.integers(REGULAR_EVERY, size=(rows, 1))) % REGULAR_EVERY
    stalls = np.maximum(REGULAR_STALL - after, 0)
    return np.asarray(stalls + rng.exponential(REGULAR_NOISE, (rows, n)), np.float64)


def regular_moments() -> tuple[float, float]:
    level = np.maximum(REGULAR_STALL - np.arange(REGULAR_EVERY), 0)
    return float(level.mean()) + REGULAR_NOISE, sqrt(float(level.var()) + REGULAR_NOISE**2)


def regular_quantile(p: float) -> float:
    """That of 950 packets in 1000 whose level is 0, and of one each at 1 to 50: what reaches from one level over the
    next, e^-100, is nothing."""
    free = 1 - REGULAR_STALL / REGULAR_EVERY
    if p < free:
        return -REGULAR_NOISE * log(1 - p / free)
    level = (p - free) * REGULAR_EVERY
    return 1 + floor(level + 1e-9) - REGULAR_NOISE * log(1 - max(0.0, level - floor(level + 1e-9)))


MODES_WEIGHT, MODES_APART = 0.3, 5.0


def two_modes(rng: np.random.Generator, rows: int, n: int) -> Floats:
    """Normal values, of which 30 % are 5 larger, as of packets that have two paths."""
    return rng.standard_normal((rows, n)) + MODES_APART * (rng.random((rows, n)) < MODES_WEIGHT)


def two_modes_quantile(p: float) -> float:
    normal = NormalDist()
    low, high = -10.0, 10.0 + MODES_APART
    while high - low > 1e-9:
        middle = (low + high) / 2
        share = (1 - MODES_WEIGHT) * normal.cdf(middle) + MODES_WEIGHT * normal.cdf(middle - MODES_APART)
        low, high = (middle, high) if share < p else (low, middle)
    return high


def lattice(step: float, phi: float) -> Process:
    """Exponential values rounded down to multiples of `step`."""
    levels = np.arange(0, 60, step)
    share = np.exp(-levels) - np.exp(-levels - step)
    mean = float(levels @ share)
    return Process(
        f"AR {phi}, exponential, lattice {step}",
        latent(phi, lambda z: np.floor(exponential(z) / step) * step),
        lambda p: float(np.floor(-log(1 - p) / step) * step),
        mean,
        sqrt(float(np.square(levels - mean) @ share)),
        (1000, 10_000, 30_000),
    )


def of_exponential(phi: float, *lengths: int) -> Process:
    name = f"AR {phi}, exponential" if phi else "independent, exponential"
    return Process(name, latent(phi, exponential), lambda p: -log(1 - p), 1.0, 1.0, lengths)


def of_pareto(phi: float, shape: float, *lengths: int) -> Process:
    name = f"AR {phi}, Pareto {shape}" if phi else f"independent, Pareto {shape}"
    mean = shape / (shape - 1)
    deviation = sqrt(shape / (shape - 2)) / (shape - 1)
    return Process(
        name, latent(phi, partial(pareto, shape)), lambda p: (1 - p) ** (-1 / shape), mean, deviation, lengths
    )


def of_lognormal(phi: float, sigma: float, *lengths: int) -> Process:
    name = f"AR {phi}, lognormal {sigma}" if phi else f"independent, lognormal {sigma}"
    mean = exp(sigma**2 / 2)
    return Process(
        name,
        latent(phi, lambda z: np.exp(sigma * z)),
        lambda p: exp(sigma * NormalDist().inv_cdf(p)),
        mean,
        mean * sqrt(exp(sigma**2) - 1),
        lengths,
    )


PROCESSES = (
    of_exponential(0, 200, 1000, 3000, 10_000, 30_000, 300_000),
    of_exponential(0.5, 1000, 3000, 10_000, 40_000),
    Process("independent, normal", latent(0, lambda z: z), NormalDist().inv_cdf, 0.0, 1.0, (1000, 10_000)),
    Process(
        "independent, two modes",
        two_modes,
        two_modes_quantile,
        MODES_WEIGHT * MODES_APART,
        sqrt(1 + MODES_WEIGHT * (1 - MODES_WEIGHT) * MODES_APART**2),
        (1000, 10_000),
    ),
    Process("AR 0.9, normal", latent(0.9, lambda z: z), NormalDist().inv_cdf, 0.0, 1.0, (2000, 5000, 20_000)),
    of_exponential(0.9, 1000, 2000, 5000, 20_000, 300_000),
    of_lognormal(0.5, 0.5, 1000, 10_000),
    of_pareto(0, 6, 1000, 10_000, 100_000),
    of_pareto(0.5, 6, 1000, 10_000, 100_000),
    of_pareto(0, 3, 1000, 10_000, 100_000),
    of_pareto(0.9, 3, 1000, 10_000, 100_000),
    of_lognormal(0, 1, 1000, 10_000, 100_000),
    lattice(0.05, 0),
    lattice(0.05, 0.9),
    lattice(0.5, 0.5),
    Process(
        "clusters of 10, Gumbel",
        partial(moving_maxima, 10),
        lambda p: log(10) - log(-log(p)),
        0.5772156649015329 + log(10),
        pi / sqrt(6),
        (1000, 10_000, 100_000),
    ),
    Process("a stall in 1000 packets", stalls, stalled_quantile, *stalled_moments(), (3000, 10_000, 30_000, 100_000)),
    Process(
        "a stall each 1000 packets",
        regular_stalls,
        regular_quantile,
        *regular_moments(),
        (3000, 10_000, 30_000, 60_000, 100_000),
    ),
)


if __name__ == "__main__":
    main()
