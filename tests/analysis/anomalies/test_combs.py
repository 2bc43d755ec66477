"""Equal intervals are found among events, with others between, and not where there are none."""

from __future__ import annotations

import numpy as np
import pytest

from latlab.analysis.anomalies.regular import Comb, find_combs
from latlab.analysis.anomalies.thresholds import THRESHOLDS

PERIOD_NS = 1_000_000
SECOND = 1_000_000_000


def combs(at: list[int] | np.ndarray, **options: int) -> list[Comb]:
    return list(find_combs(np.sort(np.asarray(at, np.int64)), PERIOD_NS, THRESHOLDS, **options))


def test_events_every_minute_are_one_comb() -> None:
    (comb,) = combs([7 * SECOND + 60 * SECOND * n for n in range(15)])
    assert comb.every_ns == pytest.approx(60e9) and comb.off_ns < 1
    assert comb.members.tolist() == list(range(15))


def test_some_may_be_left_out_and_all_may_be_a_little_off() -> None:
    rng = np.random.default_rng(1)
    at = [10 * SECOND * n + int(rng.integers(-50_000_000, 50_000_000)) for n in range(20) if n not in (4, 11, 12)]
    (comb,) = combs(at)
    assert comb.every_ns == pytest.approx(10e9, rel=0.002) and len(comb.members) == 17


def test_other_events_between_are_not_its_members() -> None:
    rng = np.random.default_rng(2)
    regular = np.arange(30) * 3 * SECOND
    others = rng.integers(0, 90 * SECOND, 12)
    at = np.sort(np.concatenate((regular, others)))
    best = combs(at)[0]
    assert best.every_ns == pytest.approx(3e9, rel=1e-3)
    assert len(set(at[best.members]) & set(regular)) >= 29


def test_two_combs_are_told_apart() -> None:
    at = np.concatenate((np.arange(40) * 3 * SECOND, 500_000_000 + np.arange(17) * 7 * SECOND))
    assert sorted(round(comb.every_ns / SECOND) for comb in combs(at)) == [3, 7]


@pytest.mark.slow
@pytest.mark.parametrize("events", [4, 8, 20, 60, 200])
def test_events_without_any_order_are_no_comb(events: int) -> None:
    """At most one of 200 sets of random events."""
    found = 0
    for seed in range(200):
        at = np.random.default_rng([seed, events]).integers(0, 300 * SECOND, events)
        found += bool(combs(at))
    assert found <= 1


def test_thousands_of_events_keep_their_interval() -> None:
    every = 250_000_123
    (comb,) = combs(np.arange(20_000) * every)
    assert comb.every_ns == pytest.approx(every, abs=1e-3)


def test_a_known_interval_needs_fewer_events() -> None:
    at = [0, SECOND, 2 * SECOND]
    assert not combs(at)
    (comb,) = combs(at, repeats=3, every_ns=SECOND)
    assert len(comb.members) == 3
