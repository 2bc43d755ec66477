"""Seconds and peak memory of the whole analysis of a large cell: `benches/analysis_size.py [--packets N]`.

A synthetic run of one stream (noise with a tail, stalls, spikes, losses) is written as a run folder. What `latlab
report` does with a cell before anything is drawn (every metric with its intervals, tail, variation, buckets and chain,
anomalies, clean windows, trust) runs in a separate process, whose peak resident memory counts.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from latlab.recordings.run_folder import RunFolder
from latlab.synthetic import Description, generate, write_run
from latlab.synthetic.description import Losses, Noise, Spikes, Stall

PERIOD_NS = 100_000
VALUES = ("noise", "constant", "two", "rare")
"""Noise with a tail; one value; two of them, the larger for one packet in ten, or in a thousand."""
MS = 1_000_000


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser(description="analyse a cell of N packets")
    parser.add_argument("--packets", type=int, default=10_000_000)
    parser.add_argument("--values", choices=VALUES, default="noise", help="how latencies are spread")
    parser.add_argument("--hardware", action="store_true", help="network cards stamp, too")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="make the run there, or take the one that is there")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--profile", action="store_true", help="print where the time goes, too")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(RunFolder(arguments.measure), profiled=arguments.profile)))
        return
    with tempfile.TemporaryDirectory(prefix="latlab-bench-") as root:
        folder = arguments.keep or Path(root) / "run"
        if not folder.exists():
            write_run(generate(description(arguments.packets, hardware=arguments.hardware)), folder)
            if arguments.values != "noise":
                few_valued(RunFolder(folder), arguments.values)
        command = [sys.executable, __file__, "--measure", str(folder), *(["--profile"] if arguments.profile else [])]
        subprocess.run(command, check=True)


def description(packets: int, *, hardware: bool) -> Description:
    """A run in which a little of everything happens."""
    span_ns = packets * PERIOD_NS
    return Description(
        seed=1,
        packets=packets,
        period_ns=PERIOD_NS,
        noise=Noise(spread_ns=6_000, shape="lognormal", sigma=0.5, slow_ns=800, slow_correlation_ns=50 * MS),
        ingredients=(
            *(Stall(at_ns=span_ns * part // 10, length_ns=6 * MS) for part in range(1, 10)),
            Spikes(sequences=tuple(range(997, packets, max(packets // 500, 1))), extra_ns=300_000),
            Losses(share=1e-5),
        ),
        warmup=1_000,
        hardware=hardware,
        clock_bound_ns=0,
    )


def few_valued(folder: RunFolder, which: str) -> None:
    """Give all packets of the run the same times up to the talker's driver, and few different ones after it."""
    (cell,) = folder.cells()
    packets = cell.packets()
    random = np.random.default_rng(1)
    launch = packets["launch_tai_ns"].to_numpy()
    share = {"constant": 0.0, "two": 0.1, "rare": 1e-3}[which]
    late_ns = (random.random(len(launch)) < share).astype(np.int64) * 50_000
    for number, name in enumerate(("wake", "submit", "tx_sched", "tx_soft", "rx_soft", "rx_user"), start=1):
        at = pl.Series(launch + 4_000 * number + (late_ns if name.startswith("rx") else 0))
        column = f"{name}_tai_ns"
        there = packets[column].is_not_null()
        packets = packets.with_columns(pl.when(there).then(at).alias(column))
    packets.write_parquet(cell.packets_path)


def measure(folder: RunFolder, *, profiled: bool) -> dict[str, float | int]:
    """Seconds of the clock and of the processor, this process's peak memory, and how many packets there were."""
    from latlab.evaluation.cell import cell_result

    (cell,) = folder.cells()
    began, used = time.perf_counter(), time.process_time()
    if profiled:
        import cProfile
        import pstats

        with cProfile.Profile() as profile:
            document = cell_result(cell).cell.document()
        pstats.Stats(profile).sort_stats("cumulative").print_stats(60)
    else:
        document = cell_result(cell).cell.document()
    (stream,) = document["streams"].values()
    return {
        "packets": stream["counts"]["scheduled"],
        "metrics": len(stream["metrics"]),
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_seconds": round(time.process_time() - used, 1),
        "peak_MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


if __name__ == "__main__":
    main()
