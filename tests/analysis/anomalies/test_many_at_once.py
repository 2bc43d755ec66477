"""What is found in all packets at once is what is found one by one; episodes are made when they are asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from latlab.analysis.anomalies import by_class
from latlab.analysis.anomalies.blocks import chain_lengths, first_beyond, first_largest, members, ranges, reached
from latlab.analysis.anomalies.held import held_in, of_overlapping
from latlab.analysis.anomalies.limit import Ordered
from latlab.analysis.anomalies.signals import Signals
from latlab.analysis.anomalies.thresholds import THRESHOLDS
from latlab.synthetic.description import PeriodicStalls, Spikes
from support.analysis.anomalies import PERIOD_NS, SECOND, found, stream

Spans = list[tuple[int, int]]
SPREAD_NS = 500.0

numbers = st.lists(st.integers(-20, 20), min_size=1, max_size=120)


@given(numbers)
def test_the_first_value_beyond_is_that_of_a_search_from_the_left(values: list[int]) -> None:
    rng = np.random.default_rng(len(values))
    n = len(values)
    froms = np.sort(rng.integers(0, n + 1, 30))
    tos = froms + rng.integers(0, n + 1 - froms)
    most = rng.integers(-21, 21, 30).astype(np.float64)
    one_by_one = [
        next((at for at in range(begin, end) if values[at] > least), end)
        for begin, end, least in zip(froms.tolist(), tos.tolist(), most.tolist(), strict=True)
    ]
    assert first_beyond(np.array(values, np.float64), froms, tos, most).tolist() == one_by_one


@given(st.lists(st.integers(1, 9), min_size=1, max_size=200), st.sets(st.integers(0, 199)))
def test_all_that_is_reached_step_by_step_is_reached(steps: list[int], froms: set[int]) -> None:
    n = len(steps)
    starts = sorted(one for one in froms if one < n)
    following = np.minimum(np.arange(n) + steps, n)
    there = set()
    for at in starts:
        while at < n:
            there.add(at)
            at = int(following[at])
    assert reached(np.array(starts, np.int64), following).tolist() == sorted(there)
    length = [1] * n
    for at in reversed(range(n)):
        length[at] += length[int(following[at])] if following[at] < n else 0
    assert chain_lengths(following).tolist() == length


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), max_size=20))
def test_the_largest_of_each_part_is_the_first_of_equal_ones(parts: list[list[int]]) -> None:
    starts = np.cumsum([0, *(len(part) for part in parts)])[:-1].astype(np.int64)
    values = np.array([value for part in parts for value in part], np.float64)
    assert first_largest(values, starts).tolist() == [
        int(start) + part.index(max(part)) for start, part in zip(starts, parts, strict=True)
    ]


@given(
    st.lists(st.sampled_from([-1.5, 0.0, 0.1, 0.3, 2.0, 7.0]) | st.floats(-9, 9), min_size=3, max_size=40),
    st.integers(0, 40),
    st.integers(0, 5),
    st.floats(0, 1),
)
def test_quantiles_without_a_few_values_are_those_of_the_rest(
    values: list[float], begin: int, size: int, share: float
) -> None:
    every = np.array(values)
    rest = np.delete(every, slice(begin, begin + size))
    if len(rest):
        ordered = Ordered.without(np.sort(every), every[begin : begin + size])
        most = float(rest[len(rest) // 2])
        shares = [share, 0.0, 0.5, 1.0]
        assert len(ordered) == len(rest)
        assert ordered.quantiles(shares).tolist() == np.quantile(rest, shares).tolist()
        assert ordered.up_to(most).quantiles(shares).tolist() == np.quantile(rest[rest <= most], shares).tolist()
        assert Ordered.of(rest).quantiles(shares).tolist() == np.quantile(rest, shares).tolist()


def test_ranges_follow_one_another() -> None:
    place, starts = ranges(np.array([3, 7, 7]), np.array([5, 7, 10]))
    assert (place.tolist(), starts.tolist()) == ([3, 4, 7, 8, 9], [0, 2, 2])
    assert np.flatnonzero(members((np.array([3, 5]), np.array([5, 9])), 10)).tolist() == [3, 4, 5, 6, 7, 8]


def one_by_one(signals: Signals, begin: int, end: int) -> Spans:
    """The holds of one interval, as its docstring says them."""
    found: Spans = []
    while end - begin >= 2:
        first = begin + int(np.argmax(signals.late_ns[begin:end]))
        if signals.late_ns[first] <= signals.limit_ns[first]:
            break
        size = 1
        while first + size < end:
            behind = signals.end_ns[first + size] - signals.end_ns[first]
            meant = signals.launch_ns[first + size] - signals.launch_ns[first]
            if behind > signals.thresholds.crowd * meant + 2 * signals.spread_ns:
                break
            size += 1
        if size > 2 or (size == 2 and signals.late_ns[first + 1] > signals.limit_ns[first + 1]):
            found.append((first, first + size))
        begin = first + size
    return found


def made_late(seed: int, n: int) -> tuple[Signals, NDArray[np.int64], NDArray[np.int64]]:
    """Packets that are late at random, held, or behind a queue that empties slowly; and intervals of them."""
    rng = np.random.default_rng(seed)
    late = rng.integers(0, 20, n) * 500.0
    for at in rng.integers(0, n, n // 40).tolist():
        size, pace = int(rng.integers(2, 60)), float(rng.choice([200.0, 500.0, 900.0]))
        queue = np.maximum(size * pace - np.arange(size) * pace, 0)[: n - at]
        late[at : at + size] = np.maximum(late[at : at + size], queue)
    launch = np.arange(n, dtype=np.int64) * 1_000
    edges = np.unique(rng.integers(0, n, n // 15))
    begins, ends = edges[:-1], edges[1:]
    signals = SimpleNamespace(
        late_ns=late,
        limit_ns=np.full(n, 4_000, np.float32),
        launch_ns=launch,
        end_ns=np.maximum.accumulate(launch + late.astype(np.int64)),
        spread_ns=SPREAD_NS,
        thresholds=THRESHOLDS,
    )
    return cast(Signals, signals), begins[ends - begins > 1], ends[ends - begins > 1]


@pytest.mark.parametrize("seed", range(20))
def test_holds_of_all_intervals_are_those_of_each(seed: int) -> None:
    signals, begins, ends = made_late(seed, 1_500)
    of_each = [
        span
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        for span in one_by_one(signals, begin, end)
    ]
    assert list(zip(*(one.tolist() for one in held_in(signals, begins, ends)), strict=True)) == of_each
    assert len(of_each) > 10


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=12),
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), min_size=1, max_size=12),
)
def test_of_two_that_overlap_the_one_with_more_packets_is_left(one: Spans, other: Spans) -> None:
    spans = sorted((begin, begin + size) for begin, size in (*one, *other))
    taken: Spans = []
    for span in spans:
        if not taken or span[0] >= taken[-1][1]:
            taken.append(span)
        elif span[1] - span[0] > taken[-1][1] - taken[-1][0]:
            taken[-1] = span
    arrays = (
        np.array([(begin, begin + size) for begin, size in part], np.int64).reshape(-1, 2) for part in (one, other)
    )
    first, second = arrays
    left = of_overlapping(first[:, 0], first[:, 1], second[:, 0], second[:, 1])
    assert list(zip(*(part.tolist() for part in left), strict=True)) == taken


def test_episodes_are_a_sequence_and_what_is_reported_is_the_same_each_time() -> None:
    anomalies = found(stream(PeriodicStalls(6_300_000, 2 * SECOND, SECOND), Spikes((3_500, 12_500), 300_000)))
    episodes = anomalies.episodes
    every = list(episodes)
    assert len(episodes) == len(every) > 10 and episodes[-1] == every[-1] and episodes[2:4] == every[2:4]
    with pytest.raises(IndexError):
        episodes[len(every)]
    names = list(dict.fromkeys(one.class_ for one in every))
    assert names == ["stall", "periodic", "unexplained"]
    assert list(episodes.of(names)) == every and list(episodes.of(["drift"])) == []
    stalls = [every[at] for at in episodes.places("stall")]
    assert {one.class_ for one in stalls} == {"stall"}
    assert {round(one.evidence["every_ns"] / PERIOD_NS) for one in stalls} == {2_000}
    assert "every_ns" not in every[-1].evidence
    shown = by_class(anomalies, shown=2)["stall"].document()
    worst = sorted(stalls, key=lambda one: -one.severity)[:2]
    assert [one["number"] for one in shown["shown"]] == sorted(one.number for one in worst)
    assert shown["worst"] == worst[0].text
