"""A run with something of several kinds to be marked, an interval that is cut, and a window that was chosen."""

from __future__ import annotations

from pathlib import Path

from latlab.evaluation.run import make_result
from latlab.recordings.run_folder import RunFolder
from latlab.synthetic import Description, generate, write_run
from latlab.synthetic.description import LateWakes, Noise, Spikes, Stall, Swing

S = 10**9
CELL = "all/r1"
STALLS = 3
LATE_SENDS = 30
LATE = tuple(4_011 + 230 * number + 37 * number**2 % 97 for number in range(LATE_SENDS))
"""Not at regular intervals."""
SPIKES = (1_500, 2_500, 19_000)


def write_marked_run(folder: Path) -> RunFolder:
    """The run, analysed: 20 s of a packet a millisecond, three stalls, a clock that swings from 8 s to 16 s, 30 late
    sends and three late packets; its scenario names the window from 2 s to 5 s.
    """
    description = Description(
        seed=3,
        packets=20_000,
        period_ns=1_000_000,
        warmup=1_000,
        clock_bound_ns=10_000_000,
        ptp=True,
        noise=Noise(2_000),
        ingredients=(
            Swing(8 * S, 8 * S, 60_000, ptp=True),
            *(Stall(at * S + S // 2, 6_300_000 + at * 1_000_000) for at in (3, 6, 17)),
            LateWakes(LATE, 300_000),
            Spikes(SPIKES, 400_000),
        ),
        least_ns=(8_000, 3_000, 2_000, 3_000, 2_000, 30_000, 3_000, 9_000),
    )
    run = RunFolder(write_run(generate(description), folder))
    text = run.scenario_path.read_text()
    run.scenario_path.write_text(f"{text}windows:\n  - {{from: 2s, to: 5s, why: before it <swung>}}\n")
    make_result(run)
    return run
