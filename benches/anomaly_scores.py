"""How well anomalies are found: precision and recall of each class over random runs, and the cost of a large one.

`benches/anomaly_scores.py [--cases N] [--packets N] [--first SEED] [--kinds KIND,…] [--large N]`

Each case is a run of its own (`latlab.synthetic.random_description`): period, noise, sizes, lengths and places are
drawn anew. `mix` draws several kinds at once. A packet is right if it was given the class it plainly has; wrong if it
was given one that it neither has nor may have: `may` counts those that may have theirs. `clean` and `single_losses` are
noise: there is nothing to find in them.
--large: seconds and memory of find_anomalies for so many packets instead.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from latlab.analysis.anomalies import Context, find_anomalies
from latlab.synthetic import KINDS, Description, generate, random_description, random_mix
from latlab.synthetic.description import LateWakes, Losses, Noise, Periodic, Stall, Swing, Throttling
from latlab.synthetic.score import Count, Score, score

MIX = "mix"
LARGE_PERIOD_NS = 100_000
HEADINGS = f"{'precision':>9} {'recall':>7} {'there':>8} {'wrong':>6}"
MAY = "may"


def main() -> None:
    """Nothing; prints a table, or with --large one line of JSON."""
    parser = argparse.ArgumentParser(description="precision and recall of the anomaly classes")
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--packets", type=int, default=60_000, help="at most, in each case")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--kinds", default=",".join((*KINDS, MIX)))
    parser.add_argument("--large", type=int)
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.write:
        write_large(arguments.write, arguments.large)
        return
    if arguments.measure:
        print(json.dumps(measure(arguments.measure)))
        return
    if arguments.large:
        with tempfile.TemporaryDirectory(prefix="latlab-bench-") as root:
            path = Path(root) / "packets.parquet"
            for arguments_of in (["--write", str(path), "--large", str(arguments.large)], ["--measure", str(path)]):
                subprocess.run([sys.executable, __file__, *arguments_of], check=True)
        return
    print(f"{'':35} {'packets':>33} {'':>6} {'episodes':>35}")
    print(f"{'kind':16} {'class':12} {'cases':>5} {HEADINGS} {MAY:>6} {HEADINGS}")
    seeds = range(arguments.first, arguments.first + arguments.cases)
    for kind in arguments.kinds.split(","):
        began = time.perf_counter()
        for line in table(kind, evaluate(kind, seeds, arguments.packets), len(seeds)):
            print(line)
        print(f"{'':16} {time.perf_counter() - began:.1f} s", flush=True)


def evaluate(kind: str, seeds: range, packets_most: int) -> Score:
    """The score of all cases of one kind together."""
    total = Score()
    for seed in seeds:
        kinds = random_mix(seed) if kind == MIX else (kind,)
        synthetic = generate(random_description(seed, kinds, packets_most=packets_most))
        total.add(score(synthetic, find_anomalies(synthetic.packets, synthetic.context())))
    return total


def table(kind: str, total: Score, cases: int) -> Iterator[str]:
    """A line for each class that there was, or that was said; and one of how many packets there were."""
    said = False
    for name, episodes in total.episodes.items():
        packets = total.packets.get(name, Count())
        if (
            packets.excused
            + packets.right
            + packets.missed
            + packets.wrong
            + episodes.right
            + episodes.missed
            + episodes.wrong
            == 0
        ):
            continue
        said = True
        yield f"{kind:16} {name:12} {cases:5} {counted(packets)} {packets.excused:6} {counted(episodes)}"
    yield f"{kind:16} {'nothing else' if said else 'nothing':12} {cases:5} in {total.judged} packets"


def counted(count: Count) -> str:
    """Precision and recall, and how many there were and how many were said that were not; of none a dash."""
    there = count.right + count.missed
    precision = f"{count.precision:.4f}" if count.right + count.wrong else "-"
    recall = f"{count.recall:.4f}" if there else "-"
    return f"{precision:>9} {recall:>7} {there:>8} {count.wrong:>6}"


def write_large(path: Path, packets: int) -> None:
    """Nothing; `path` then holds one stream's packet table with a bit of everything."""
    span_ns = packets * LARGE_PERIOD_NS
    description = Description(
        seed=1,
        packets=packets,
        period_ns=LARGE_PERIOD_NS,
        noise=Noise(3_000, "lognormal", sigma=0.4),
        ingredients=(
            Stall(span_ns // 10, 6_100_000),
            Periodic(80_000, every_packets=503),
            Losses(1e-4, ((packets // 50, 5),)),
            Throttling(span_ns // 100),
            Swing(span_ns // 5, span_ns // 20, 50_000),
            LateWakes(tuple(range(1_000, packets - 1_000, 10_007)), 70_000),
        ),
    )
    generate(description).packets.write_parquet(path)


def measure(path: Path) -> dict[str, float | int]:
    """Seconds, CPU seconds and this process's peak memory: with the table alone, and when its anomalies are found."""
    rows = pl.read_parquet(path)
    with_table = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    anomalies = find_anomalies(rows, Context(period_ns=LARGE_PERIOD_NS))
    return {
        "packets": rows.height,
        "seconds": round(time.perf_counter() - wall, 2),
        "cpu_s": round(time.process_time() - cpu, 2),
        "table_rss_mib": with_table >> 10,
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        "episodes": len(anomalies.episodes),
    }


if __name__ == "__main__":
    main()
