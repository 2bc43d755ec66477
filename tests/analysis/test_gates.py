"""Gate schedules: windows, phases and departures are those that a walk through the cycle finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from latlab.analysis.gates import GateEntry, GateWindow, Lattice, Openings, Schedule, slots_late
from support.analysis.gates import CLASS, EXPERIMENT_1, SCHEDULES, departs, is_open

TAI_2026 = 1_795_000_037_000_000_000


def test_the_windows_of_the_first_experiment() -> None:
    assert EXPERIMENT_1.cycle_ns == 503_000
    assert EXPERIMENT_1.windows(0) == (GateWindow(0, 101_000),)
    assert EXPERIMENT_1.windows(1) == (GateWindow(0, None),)
    assert EXPERIMENT_1.windows(2) == (GateWindow(204_000, 109_000),)
    assert EXPERIMENT_1.windows(3) == (GateWindow(313_000, 190_000),)
    assert EXPERIMENT_1.windows(4) == ()


def test_a_window_goes_on_over_the_end_of_the_cycle() -> None:
    schedule = Schedule((GateEntry((0,), 10), GateEntry((1,), 20), GateEntry((0, 1), 5), GateEntry((0,), 7)))
    assert schedule.windows(0) == (GateWindow(30, 22),)
    assert schedule.windows(0)[0].end_ns == 52
    assert schedule.entry_windows(0) == (GateWindow(0, 10), GateWindow(30, 5), GateWindow(35, 7))


@given(SCHEDULES)
def test_windows_hold_each_open_nanosecond_once_and_no_other(schedule: Schedule) -> None:
    windows = schedule.windows(CLASS)
    cycle = schedule.cycle_ns
    held = [
        (one.start_ns + step) % cycle
        for one in windows
        for step in range(cycle if one.length_ns is None else one.length_ns)
    ]
    assert sorted(held) == [phase for phase in range(cycle) if is_open(schedule, phase)]
    for one in windows:
        if one.end_ns is not None:
            assert not is_open(schedule, one.end_ns)
            assert not is_open(schedule, one.start_ns - 1 + cycle)


@given(st.integers(0, 2**62), st.integers(1, 10**12), st.integers(0, 10**12))
def test_phases_are_exact_however_large_the_instant(tai: int, cycle: int, shift: int) -> None:
    schedule = Schedule((GateEntry((0,), cycle),), shift % cycle)
    assert int(schedule.phase(tai)) == (tai - schedule.shift_ns) % cycle


def test_phases_of_many_instants_have_their_shape() -> None:
    instants = np.array([[0, 1], [503_000, TAI_2026]], dtype=np.int64)
    found = EXPERIMENT_1.phase(instants)
    assert found.dtype == np.int64
    assert found.tolist() == [[0, 1], [0, TAI_2026 % 503_000]]


@given(SCHEDULES, st.integers(1, 12), st.integers(-200, 200), st.booleans())
def test_departures_are_the_first_instants_with_room(
    schedule: Schedule, guard_ns: int, at: int, within_entry: bool
) -> None:
    windows = schedule.entry_windows(CLASS) if within_entry else schedule.windows(CLASS)
    openings = Openings.of(schedule.cycle_ns, windows, guard_ns)
    expected = departs(schedule, at, guard_ns, within_entry=within_entry)
    assert bool(openings) == (expected is not None)
    if expected is not None:
        assert int(openings.departs(at)) == expected


def test_no_departure_where_no_window_has_room() -> None:
    openings = Openings.of(503_000, EXPERIMENT_1.windows(0), 101_001)
    assert not openings
    with pytest.raises(ValueError, match="as long as the guard"):
        openings.departs(0)


@given(st.integers(0, 500), st.integers(1, 400), st.integers(1, 120), st.integers(-300, 300), st.integers(0, 300))
def test_the_phases_of_a_stream_are_those_its_launches_have(
    offset: int, period: int, cycle: int, first: int, length: int
) -> None:
    lattice = Lattice.of(offset, period, cycle)
    visited = {(offset + n * period) % cycle for n in range(cycle)}
    assert sorted(visited) == list(lattice.phases(cycle))
    last = first + length
    inside = [one for one in range(first, last + 1) if one % cycle in visited]
    assert int(lattice.count(first, last)) == len(inside)
    after, before = int(lattice.at_or_after(first)), int(lattice.at_or_before(last))
    assert after == next(one for one in range(first, first + cycle) if one % cycle in visited)
    assert before == next(one for one in range(last, last - cycle, -1) if one % cycle in visited)


def late_by_walking(schedule: Schedule, departure: int, launch: int, guard_ns: int, early_ns: int) -> int:
    """Counts openings of the gate, nanosecond by nanosecond."""

    def opens(at: int) -> bool:
        return is_open(schedule, at - schedule.shift_ns) and not is_open(schedule, at - 1 - schedule.shift_ns)

    left = departs(schedule, launch - schedule.shift_ns, guard_ns, within_entry=False)
    assert left is not None
    own = left + schedule.shift_ns
    while not opens(own):
        own -= 1
    left_at = departure + early_ns
    if left_at >= own:
        return sum(opens(one) for one in range(own + 1, left_at + 1))
    return -sum(opens(one) for one in range(left_at + 1, own + 1))


@given(SCHEDULES, st.integers(0, 150), st.integers(-60, 250), st.integers(1, 8), st.integers(0, 30))
def test_slots_late_are_the_openings_that_were_missed(
    schedule: Schedule, launch: int, after: int, guard_ns: int, early_ns: int
) -> None:
    windows = schedule.windows(CLASS)
    assume(any(one.length_ns is not None and one.length_ns >= guard_ns for one in windows))
    found = slots_late(launch + after, launch, schedule, CLASS, guard_ns, early_ns)
    assert int(found) == late_by_walking(schedule, launch + after, launch, guard_ns, early_ns)


def test_slots_late_of_the_first_experiment_at_the_present_day() -> None:
    start = TAI_2026 // 503_000 * 503_000
    launch = start + np.arange(6, dtype=np.int64) * 1_006_000
    departure = launch + np.array([0, 60_000, 100_999, 350_000, 503_000, 1_100_000], dtype=np.int64)
    assert slots_late(departure, launch, EXPERIMENT_1, 0, 100).tolist() == [0, 0, 0, 0, 1, 2]
    assert slots_late(departure - 200_000, launch, EXPERIMENT_1, 0, 100, 200_000).tolist() == [0, 0, 0, 0, 1, 2]
    assert slots_late(launch - 1, launch, EXPERIMENT_1, 0, 100).tolist() == [-1] * 6


def test_a_launch_without_room_in_its_window_belongs_to_the_next_one() -> None:
    assert int(slots_late(503_000, 100_950, EXPERIMENT_1, 0, 100)) == 0
    assert int(slots_late(503_000, 100_900, EXPERIMENT_1, 0, 100)) == 1


def test_a_class_that_is_always_open_has_no_slots_to_be_late_by() -> None:
    assert slots_late(np.array([5, 10**9]), 0, EXPERIMENT_1, 1, 100).tolist() == [0, 0]


def test_slots_late_needs_a_window_with_room() -> None:
    with pytest.raises(ValueError, match="as long as the guard"):
        slots_late(0, 0, EXPERIMENT_1, 0, 200_000)
