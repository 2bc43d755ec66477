"""Of random runs what was done to them is found, and hardly anything else: a part of benches/anomaly_scores.py."""

from __future__ import annotations

import numpy as np
import pytest

from latlab.analysis.anomalies import CODE, NAMES, find_anomalies
from latlab.synthetic import CLASS_OF, generate, random_description, random_mix
from latlab.synthetic.score import Count, Score, score

pytestmark = pytest.mark.slow

CASES = 25
PACKETS = 20_000
ENOUGH = 0.95
SINGLE = ("loss_burst", "throttled", "stall", "missed_slot", "reorder", "late_sender", "periodic", "unexplained")
"""Classes of which there are many episodes even in so few runs."""


def total(kind: str, cases: int = CASES, noise: str | None = None) -> Score:
    scored = Score()
    for seed in range(cases):
        kinds = random_mix(seed) if kind == "mix" else (kind,)
        synthetic = generate(random_description(seed, kinds, packets_most=PACKETS, noise=noise))
        scored.add(score(synthetic, find_anomalies(synthetic.packets, synthetic.context())))
    return scored


def wrong(scored: Score, *besides: str) -> int:
    return sum(count.wrong for name, count in scored.packets.items() if name not in besides)


@pytest.mark.parametrize(("kind", "name"), CLASS_OF.items())
def test_a_class_is_found_by_packet_and_by_episode(kind: str, name: str) -> None:
    scored = total(kind)
    packets, episodes = scored.packets[name], scored.episodes[name]
    assert packets.right > 90 and episodes.right > 10
    assert packets.precision >= ENOUGH and packets.recall >= ENOUGH, packets
    assert episodes.precision >= ENOUGH and episodes.recall >= ENOUGH, episodes


def test_duplicates_are_counted_and_nothing_else_is_said() -> None:
    scored = total("duplicate")
    assert scored.episodes["duplicate"] == Count(right=CASES)
    assert wrong(scored) == 0


def test_of_several_kinds_in_one_run_each_is_found() -> None:
    scored = total("mix", 40)
    for name in NAMES:
        if name in ("missed_slot", "oscillation", "drift", "duplicate"):  # in none of these mixes
            continue
        packets = scored.packets[name]
        assert packets.right, name
        assert packets.precision >= ENOUGH and packets.recall >= ENOUGH, (name, packets)
        if name in SINGLE:
            episodes = scored.episodes[name]
            assert episodes.precision >= ENOUGH and episodes.recall >= ENOUGH, (name, episodes)


@pytest.mark.parametrize("noise", ["gaussian", "lognormal", "heavy", "modes", "slow", "lattice"])
def test_noise_alone_is_nothing(noise: str) -> None:
    """Of a million packets at most five are called late, and none anything else."""
    scored = total("clean", 40, noise)
    assert scored.judged > 300_000
    assert wrong(scored, "unexplained") == 0
    assert scored.packets["unexplained"].wrong <= 5e-6 * scored.judged


def test_single_losses_are_nothing() -> None:
    scored = total("single_losses")
    assert scored.packets["loss_burst"].wrong == 0


def test_a_score_tells_right_from_wrong() -> None:
    synthetic = generate(random_description(4, ("stall",), packets_most=PACKETS))
    found = find_anomalies(synthetic.packets, synthetic.context())
    there = int((synthetic.truth.class_of == CODE["stall"]).sum())
    assert there and score(synthetic, found).packets["stall"].recall == 1
    found.class_of[:] = 0
    assert score(synthetic, found).packets["stall"].missed == there
    quiet = np.flatnonzero((synthetic.truth.class_of == 0) & (synthetic.truth.excused == 0))[:10]
    found.class_of[quiet] = CODE["late_sender"]
    assert score(synthetic, found).packets["late_sender"].wrong == 10
