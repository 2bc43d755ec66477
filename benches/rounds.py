"""Things measured in turn, round by round: what the benchmarks that hold them against each other share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from bed import quantile
from numpy.typing import NDArray

FIGURES = {"median": 0.5, "p99.9": 0.999, "max": 1.0}
COMPARED = ("median", "p99.9")
"""What ratios are of: a maximum of one round is chance."""

Measure = Callable[[], Awaitable[NDArray[Any]]]
"""Measures once: values, ns."""


async def side_by_side(runs: Mapping[str, Measure], rounds: int) -> dict[str, dict[str, list[float]]]:
    """{figure: {name: its value in each round, µs}}; each round is printed as it is measured."""
    found: dict[str, dict[str, list[float]]] = {figure: {name: [] for name in runs} for figure in FIGURES}
    names = list(runs)
    for number in range(rounds):
        # Each round begins with another one, so that none always follows the same.
        first = number % len(names)
        for name in names[first:] + names[:first]:
            values = await runs[name]()
            for figure, share in FIGURES.items():
                found[figure][name].append(quantile(values, share) / 1000)
            shown = "  ".join(f"{figure} {found[figure][name][-1]:8.2f} µs" for figure in FIGURES)
            print(f"round {number + 1}  {name:{max(map(len, names))}}  n {len(values):7}  {shown}", flush=True)
    return found
