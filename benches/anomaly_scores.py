"""How well anomalies are found: precision and recall of each class over random runs, and the cost of a large one.

`benches/anomaly_scores.py [--cases N] [--packets N] [--first SEED] [--kinds KIND,…] [--large N]`

Each case is a separate run (`latlab.synthetic.random_description`): period, noise, sizes, lengths and places are
drawn again. `mix` draws several kinds at once. A packet is right if it was given the class it plainly has; wrong if it
was given one that it neither has nor may have: `may` counts those that may have theirs. `clean` and `single_losses` are
noise: there is nothing to find in them.
--grid: late packets of every share and separation, at random and in combs, in each of six noises, instead; of some
with --noises and --separations.
--false-alarms RUNS: runs of nothing but noise, of eight kinds, in turn, instead.
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
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from latlab.analysis.anomalies import Context, find_anomalies
from latlab.synthetic import KINDS, Description, Synthetic, generate, random_description, random_mix
from latlab.synthetic.description import (
    Ingredient,
    LateWakes,
    Losses,
    Noise,
    Periodic,
    Spikes,
    Stall,
    Swing,
    Throttling,
)
from latlab.synthetic.score import Count, Score, score

MIX = "mix"
LARGE_PERIOD_NS = 100_000
HEADINGS = f"{'precision':>9} {'recall':>7} {'there':>8} {'wrong':>6}"
MAY = "may"


def main() -> None:
    """Print a table, or with --large one line of JSON."""
    parser = argparse.ArgumentParser(description="precision and recall of the anomaly classes")
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--packets", type=int, default=60_000, help="at most, in each case")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--kinds", default=",".join((*KINDS, MIX)))
    parser.add_argument("--large", type=int)
    parser.add_argument("--grid", action="store_true")
    parser.add_argument("--noises", default=",".join(GRID_NOISES), help="of the grid")
    parser.add_argument("--separations", default=",".join(map(str, SEPARATIONS)), help="of the grid")
    parser.add_argument("--false-alarms", type=int)
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
    if arguments.grid or arguments.false_alarms:
        separations = [int(one) for one in arguments.separations.split(",")]
        lines = grid(arguments.first, arguments.noises.split(","), separations)
        for line in lines if arguments.grid else false_alarms(arguments.false_alarms, arguments.first):
            print(line, flush=True)
        return
    print(f"{'':35} {'packets':>33} {'':>6} {'episodes':>35}")
    print(f"{'kind':16} {'class':12} {'cases':>5} {HEADINGS} {MAY:>6} {HEADINGS}")
    seeds = range(arguments.first, arguments.first + arguments.cases)
    for kind in arguments.kinds.split(","):
        began = time.perf_counter()
        for line in table(kind, evaluate(kind, seeds, arguments.packets), len(seeds)):
            print(line)
        print(f"{'':16} {time.perf_counter() - began:.1f} s", flush=True)


GRID_NOISES = {
    "gaussian": Noise(15_000),
    "lognormal": Noise(15_000, "lognormal"),
    "exponential": Noise(15_000, "exponential"),
    "bimodal": Noise(6_000, "modes", modes=((0.3, 30_000),)),
    "autocorrelated": Noise(15_000, "exponential", rho=0.97),
    "uniform": Noise(30_000, "uniform"),
}
CLEAN_NOISES = GRID_NOISES | {
    "heavy": Noise(15_000, "heavy"),
    "slow": Noise(8_000, slow_ns=15_000, slow_correlation_ns=200_000_000),
    "lattice": Noise(15_000, lattice_ns=4_000),
}
SHARES = (0.0005, 0.002, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
SEPARATIONS = (3, 4, 6, 12)
COMBS = (1_000, 200, 50, 25, 10, 4)
GRID_PACKETS = 20_000
RUNS, RUNS_OF_RARE = 5, 20
"""Of a share below RARE a run has ten late packets: fewer runs would say how many they happen to have."""
RARE = 0.001


def noisy(noise: Noise, seed: int, *ingredients: Ingredient) -> Synthetic:
    """A run of this noise, a packet a millisecond, on one kernel."""
    return generate(
        Description(seed, GRID_PACKETS, 1_000_000, noise, ingredients, clock_bound_ns=0, least_ns=(120_000,) * 8)
    )


def grid(first: int, noises: Sequence[str], separations: Sequence[int]) -> Iterator[str]:
    """Recall and precision, of packets with any class, of each noise, share and separation: RUNS each.

    A separation is in spreads of the bulk: how far its 99.9th percentile lies from its median, of the same noise alone.
    """
    for name in noises:
        noise = GRID_NOISES[name]
        rows = noisy(noise, first).packets
        latency = (rows["rx_user_tai_ns"] - rows["launch_tai_ns"]).to_numpy()
        spread = float(np.quantile(latency, 0.999) - np.median(latency))
        for separation in separations:
            extra = int(separation * spread)
            cells = [_found(noise, first, extra, share=share) for share in SHARES]
            combs = [_found(noise, first, extra, every=every) for every in COMBS]
            yield f"| {name} | {separation} | {' | '.join(cells)} |  comb: {' | '.join(combs)} |"


def _found(noise: Noise, first: int, extra: int, share: float = 0.0, every: int = 0) -> str:
    right = there = said = 0
    for seed in range(first, first + (RUNS_OF_RARE if 0 < share < RARE else RUNS)):
        chosen = np.random.default_rng([seed, 5]).random(GRID_PACKETS) < share
        if every:
            chosen[::every] = True
        one = Periodic(extra, every_packets=every) if every else Spikes(tuple(np.flatnonzero(chosen).tolist()), extra)
        synthetic = noisy(noise, seed, one)
        found = find_anomalies(synthetic.packets, synthetic.context()).class_of > 0
        right += int((found & chosen).sum())
        there, said = there + int(chosen.sum()), said + int(found.sum())
    return f"{right / max(there, 1):.3f} / {right / max(said, 1):.3f}"


def false_alarms(runs: int, first: int) -> Iterator[str]:
    """How many clean runs, and packets, were given a class, by noise."""
    for number, (name, noise) in enumerate(CLEAN_NOISES.items()):
        alarms, packets = Counter[str](), 0
        counted = range(first + number, first + runs, len(CLEAN_NOISES))
        for seed in counted:
            synthetic = noisy(noise, seed)
            found = find_anomalies(synthetic.packets, synthetic.context())
            alarms.update({one.class_ for one in found.episodes})
            packets += int((found.class_of > 0).sum())
        yield f"| {name} | {len(counted)} | {dict(alarms) or 'none'} | {packets} |"


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
    """Write to `path` one stream's packet table with a bit of everything."""
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
