"""Seconds and peak memory of the statistics of one metric: `benches/statistics_cost.py [--values N]`.

Each is computed in a separate process, whose peak resident memory counts, the values included.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from multiprocessing import get_context

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.buckets import buckets
from latlab.analysis.confidence import confidence_of
from latlab.analysis.metrics import variation_of
from latlab.analysis.statistics import statistics
from latlab.analysis.tail import tail_of

Ints = NDArray[np.int64]


def values(n: int) -> Ints:
    """Delays of some 60 µs with a long tail, of which ten in a row are alike."""
    random = np.random.default_rng(1)
    slow = np.repeat(random.lognormal(9, 0.6, n // 10 + 1), 10)[:n]
    return (50_000 + slow + random.exponential(500, n)).astype(np.int64)


def sequence(n: int) -> NDArray[np.uint64]:
    return np.arange(n, dtype=np.uint64)


PARTS: dict[str, Callable[[Ints], object]] = {
    "values": lambda value_ns: None,
    "statistics": lambda value_ns: statistics(value_ns, sequence(len(value_ns))),
    "confidence": lambda value_ns: confidence_of(value_ns, statistics(value_ns, sequence(len(value_ns)))).document(),
    "tail": tail_of,
    "buckets": buckets,
    "variation": lambda value_ns: variation_of(sequence(len(value_ns)), value_ns).document(),
}
"""What is measured; `confidence` has `statistics` in it."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="seconds and peak memory of the statistics of one metric")
    parser.add_argument("--values", type=int, default=10_000_000)
    arguments = parser.parse_args()
    print(f"{arguments.values:,} values   wall s    cpu s   peak MiB")
    for name in PARTS:
        with get_context("spawn").Pool(1) as pool:
            wall, cpu, peak = pool.apply(measure, (name, arguments.values))
        print(f"{name:18} {wall:8.2f} {cpu:8.2f} {peak:10d}", flush=True)


def measure(name: str, n: int) -> tuple[float, float, int]:
    """(seconds of the clock, of the processor, peak resident memory in MiB) of one part."""
    value_ns = values(n)
    wall, cpu = time.perf_counter(), time.process_time()
    PARTS[name](value_ns)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return wall, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    main()
