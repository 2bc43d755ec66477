"""How often levels of an extrapolated tail hold the truth: `benches/tail_levels.py [--repetitions R] [--only NAME]`.

Series whose tail is known exactly; a line a process, length and level: in how many per cent the level was given; how
many per cent of those given have the truth in their interval, with two standard errors; the median of level / truth.
The last line of each says how often a tail was refused, by the first words of the reason.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import exp, expm1, log, sqrt
from statistics import NormalDist, median

import numpy as np
from interval_coverage import (
    STALL_MEAN,
    STALL_RATE,
    UNIT_NS,
    Floats,
    batches,
    exponential,
    latent,
    moving_maxima,
    stalls,
)

from latlab.analysis.tail import tail_of


@dataclass(frozen=True)
class Tail:
    """make: series [rows, n]. level: what the worst of an episode exceeds once in m values."""

    name: str
    make: Callable[[np.random.Generator, int, int], Floats]
    level: Callable[[float], float]
    lengths: tuple[int, ...] = (10_000, 100_000)


def generalized_pareto(shape: float) -> Tail:
    return Tail(
        f"generalized Pareto {shape}",
        lambda random, rows, n: np.expm1(-shape * np.log(1 - random.random((rows, n)))) / shape,
        lambda m: expm1(shape * log(m)) / shape,
    )


def lognormal(sigma: float) -> Tail:
    return Tail(
        f"lognormal {sigma}",
        latent(0, lambda z: np.exp(sigma * z)),
        lambda m: exp(sigma * NormalDist().inv_cdf(1 - 1 / m)),
    )


TAILS = (
    generalized_pareto(-0.25),
    Tail("exponential", latent(0, exponential), log),
    generalized_pareto(0.25),
    generalized_pareto(0.4),
    Tail("normal", latent(0, lambda z: z), lambda m: NormalDist().inv_cdf(1 - 1 / m)),
    lognormal(0.5),
    lognormal(1),
    Tail("clusters of 10, Gumbel", partial(moving_maxima, 10), log, (30_000, 100_000)),
    Tail("a stall in 1000 packets", stalls, lambda m: STALL_MEAN * log(m * STALL_RATE), (10_000, 30_000, 100_000)),
)


def main() -> None:
    """Nothing; prints the table."""
    parser = argparse.ArgumentParser(description="how often levels of an extrapolated tail hold the truth")
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--only", default="", help="processes whose name contains this")
    parser.add_argument("--longest", type=int, default=100_000, help="no series longer than this")
    arguments = parser.parse_args()
    print(f"{'process':28} {'n':>7} {'level':>6} {'given':>6} {'held':>6} {'':>5} {'level / truth':>13}   per cent")
    for tail in TAILS:
        for n in tail.lengths:
            if arguments.only in tail.name and n <= arguments.longest:
                report(tail, n, arguments.repetitions)


def report(tail: Tail, n: int, repetitions: int) -> None:
    """Nothing; prints the lines of one process and length."""
    packets = (n, 10 * n)
    held: dict[int, list[bool]] = {m: [] for m in packets}
    ratio: dict[int, list[float]] = {m: [] for m in packets}
    reasons: Counter[str] = Counter()
    for seed, rows in batches(repetitions):
        for row in tail.make(np.random.default_rng((seed, n)), rows, n):
            document = tail_of(np.floor(row * UNIT_NS).astype(np.int64), packets).document()
            if document["why"]:
                reasons[document["why"].split(":")[0]] += 1
            for level in document["levels"]:
                if level["value_ns"] is not None:
                    truth = tail.level(level["packets"]) * UNIT_NS
                    held[level["packets"]].append(level["low_ns"] <= truth <= level["high_ns"])
                    ratio[level["packets"]].append(level["value_ns"] / truth)
    for m in packets:
        line = f"{tail.name:28} {n:7} {f'{m // n} n':>6} {100 * len(held[m]) / repetitions:6.1f}"
        if held[m]:
            share = sum(held[m]) / len(held[m])
            error = 2 * sqrt(max(share * (1 - share), 1 / len(held[m]) / 4) / len(held[m]))
            line += f" {100 * share:6.1f} ±{100 * error:4.1f} {median(ratio[m]):13.2f}"
        print(line)
    refused = "; ".join(f"{why} {100 * times / repetitions:.1f}" for why, times in reasons.most_common())
    print(f"{'':28} {'':7} refused: {refused or 'never'}", flush=True)


if __name__ == "__main__":
    main()
