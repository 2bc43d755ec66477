"""Promises hold: every departure lies in an open window with room, and the extremes are those of all launches."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latlab.analysis.frames import FrameSize
from latlab.analysis.gates import GateEntry, Schedule, slots_late
from latlab.analysis.promise import GatedStream, Handover, Launch, LaunchQueue, Mode, Promise, openings_of, promise
from support.analysis.gates import CLASS, EXPERIMENT_1, SCHEDULES, departs, entry_at, has_room, is_open

SPEED = 10**11
"""At which a frame of 64 bytes takes 6 ns, and by the kernel's reckoning of 40 bytes 3 ns."""
FRAME = FrameSize(40)
MODES: tuple[Mode, ...] = ("software", "txtime-assist", "offload")
CONTROL = FrameSize.of(64, "udp")


def flow(frame: FrameSize = FRAME, **parts: Any) -> GatedStream:
    return GatedStream(
        **{"name": "control", "traffic_class": CLASS, "offset_ns": 0, "period_ns": 7, "frame": frame, **parts}
    )


def of_experiment_1(**parts: Any) -> Promise:
    stream = flow(**{"frame": CONTROL, "period_ns": 1_006_000, **parts})
    return promise(EXPERIMENT_1, "software", 10**10, stream)


def test_the_control_stream_of_the_first_experiment_never_waits() -> None:
    found = of_experiment_1()
    assert (found.phases, found.earliest_ns, found.latest_ns, found.worst_wait_ns) == (1, 0, 0, 0)
    assert (found.frame_ns, found.guard_ns) == (95, 95)
    assert [(one.window.start_ns, one.window.length_ns, one.phases) for one in found.windows] == [(0, 101_000, 1)]


def test_a_period_of_a_millisecond_meets_every_gate() -> None:
    found = of_experiment_1(period_ns=1_000_000)
    assert (found.phases, found.step_ns) == (503, 1_000)
    # 100 µs is the last whole microsecond with room: the next one waits for the next cycle.
    assert (found.earliest_ns, found.worst_wait_ns) == (0, 402_000)


def test_a_launch_into_a_closed_gate_waits_for_the_next_cycle() -> None:
    found = of_experiment_1(offset_ns=101_000)
    assert (found.least_wait_ns, found.worst_wait_ns) == (402_000, 402_000)


def waits_by_walking(schedule: Schedule, mode: Mode, one: GatedStream) -> list[tuple[int | None, int | None]]:
    """The earliest and the latest wait of each launch until they repeat."""
    wire_ns, kernel_ns, guard_ns = FRAME.serialisation_ns(SPEED), FRAME.kernel_ns(SPEED), FRAME.guard_ns(SPEED)
    rules = {
        "software": ((kernel_ns, False), (guard_ns, True)),
        "txtime-assist": ((kernel_ns, True), (guard_ns, True)),
        "offload": ((wire_ns, False), (wire_ns, False)),
    }[mode]
    found = []
    for n in range(schedule.cycle_ns):
        ready = (one.offset_ns - schedule.shift_ns + n * one.period_ns) % schedule.cycle_ns + one.handover.ready_ns
        both = [departs(schedule, ready, guard, within_entry=entry) for guard, entry in rules]
        found.append(tuple(None if at is None else at - ready for at in both))
    return found  # type: ignore[return-value]


@given(SCHEDULES, st.sampled_from(MODES), st.integers(0, 60), st.integers(1, 120), st.integers(0, 90))
def test_a_guarantee_is_what_a_walk_through_all_launches_finds(
    schedule: Schedule, mode: Mode, offset: int, period: int, delay: int
) -> None:
    one = flow(offset_ns=offset, period_ns=period, handover=Handover(ready_ns=delay, early_ns=delay // 2))
    found = promise(schedule, mode, SPEED, one)
    walked = waits_by_walking(schedule, mode, one)
    latest = [late for _, late in walked if late is not None]
    if not latest:
        assert (found.departs, found.earliest_ns, found.worst_wait_ns) == (False, None, None)
        return
    earliest = [early for early, _ in walked if early is not None]
    assert (found.least_wait_ns, found.worst_wait_ns) == (min(earliest), max(latest))
    assert (found.earliest_ns, found.latest_ns) == (
        delay + min(earliest) - delay // 2,
        delay + max(latest) - delay // 2,
    )
    assert sum(share.phases for share in found.windows) == found.phases
    assert found.phases == len(
        {(offset - schedule.shift_ns + n * period) % schedule.cycle_ns for n in range(schedule.cycle_ns)}
    )


@given(SCHEDULES, st.sampled_from(MODES), st.integers(0, 200))
def test_departures_lie_in_an_open_window_with_room_for_the_frame(schedule: Schedule, mode: Mode, at: int) -> None:
    for openings in openings_of(schedule, mode, flow(), SPEED):
        if openings:
            left = int(openings.departs(at))
            assert left >= at
            assert has_room(schedule, left, FRAME.kernel_ns(SPEED), within_entry=mode == "txtime-assist")
    late = openings_of(schedule, mode, flow(), SPEED)[1]
    if late:
        assert has_room(schedule, int(late.departs(at)), FRAME.serialisation_ns(SPEED), within_entry=mode != "offload")


@given(SCHEDULES, st.integers(0, 60), st.integers(1, 120), st.integers(0, 70))
def test_launch_times_survive_inside_their_entries_alone(
    schedule: Schedule, offset: int, period: int, delta: int
) -> None:
    queue = LaunchQueue(delta)
    handover = Handover.of("software", 0, queue, Launch(lead_ns=100))
    one = flow(offset_ns=offset, period_ns=period, handover=handover)
    found = promise(schedule, "software", SPEED, one)
    kernel_ns = FRAME.kernel_ns(SPEED)
    launches = {(offset - schedule.shift_ns + n * period) % schedule.cycle_ns for n in range(schedule.cycle_ns)}
    # Neither at an entry's very start nor so that the packet ends with it: find_entry_to_transmit, sch_taprio.c.
    kept = [
        at
        for at in launches
        if all(is_open(schedule, at + step) for step in range(-1, kernel_ns + 1))
        and len({entry_at(schedule, at + step) for step in range(-1, kernel_ns + 1)}) == 1
    ]
    assert found.dropped == len(launches) - len(kept)
    _, late = openings_of(schedule, "software", one, SPEED)
    if not kept or not late:
        # A window too short for the frame, its preamble and the gap behind it lets nothing through for certain.
        assert not found.departs
        return
    assert found.earliest_ns is not None
    assert -delta <= found.earliest_ns <= 0


def test_a_launch_time_at_the_very_start_of_a_window_is_dropped() -> None:
    handover = Handover.of("software", 0, LaunchQueue(10_000), Launch(lead_ns=100_000))
    assert of_experiment_1(handover=handover).dropped == 1
    inside = of_experiment_1(handover=handover, offset_ns=1)
    assert (inside.dropped, inside.earliest_ns, inside.latest_ns) == (0, -1, -1)
    assert of_experiment_1(handover=handover, offset_ns=50_000).earliest_ns == -10_000


@pytest.mark.parametrize(
    ("mode", "beneath", "launch", "expected"),
    [
        ("software", None, None, Handover()),
        ("offload", None, None, Handover()),
        ("txtime-assist", LaunchQueue(200), None, Handover(ready_ns=300, early_ns=200)),
        ("txtime-assist", LaunchQueue(200, offload=True), None, Handover(ready_ns=300)),
        ("txtime-assist", LaunchQueue(200, deadline=True), None, Handover(gated=False)),
        ("txtime-assist", LaunchQueue(200), Launch(900), Handover(early_ns=200, gated=False, checked=True)),
        ("software", LaunchQueue(200), Launch(900), Handover(ready_ns=-200, checked=True)),
        ("software", LaunchQueue(200, deadline=True), Launch(900, True), Handover(ready_ns=-900, checked=True)),
        ("software", None, Launch(900), Handover(ready_ns=-900, checked=True)),
        ("offload", LaunchQueue(200, offload=True), Launch(900), Handover(gated=False, checked=True)),
    ],
)
def test_how_packets_come_to_their_gate(
    mode: Mode, beneath: LaunchQueue | None, launch: Launch | None, expected: Handover
) -> None:
    assert Handover.of(mode, 300, beneath, launch) == expected


def test_assisted_packets_leave_early_by_delta_after_their_delay() -> None:
    handover = Handover.of("txtime-assist", 300_000, LaunchQueue(200_000), None)
    found = promise(EXPERIMENT_1, "txtime-assist", 10**10, flow(CONTROL, period_ns=503_000, handover=handover))
    # Handed over at 0, not to be launched before 300 µs: the next window is at 503 µs, and appears 200 µs early.
    assert (found.earliest_ns, found.latest_ns, found.worst_wait_ns) == (303_000, 303_000, 203_000)


def test_a_packet_longer_than_its_window_never_departs() -> None:
    short = Schedule((GateEntry((0,), 1_000), GateEntry((1,), 9_000)))
    found = promise(short, "software", 10**8, flow(CONTROL, period_ns=10_000))
    assert (found.departs, found.latest_ns, found.worst_wait_ns) == (False, None, None)


def test_a_shift_of_the_cycles_shifts_what_launches_meet() -> None:
    shifted = Schedule(EXPERIMENT_1.entries, 20_000)
    # Streams start at a multiple of the cycle: 20 µs before a cycle begins.
    assert promise(shifted, "software", 10**10, flow(CONTROL, period_ns=503_000)).worst_wait_ns == 20_000
    assert promise(shifted, "software", 10**10, flow(CONTROL, period_ns=503_000, offset_ns=20_000)).worst_wait_ns == 0


@given(SCHEDULES, st.integers(0, 200))
def test_a_packet_that_keeps_its_guarantee_is_no_slot_late(schedule: Schedule, at: int) -> None:
    openings, _ = openings_of(schedule, "offload", flow(), SPEED)
    if openings:
        launch = at + schedule.shift_ns
        left = int(openings.departs(at)) + schedule.shift_ns
        guard_ns = FRAME.serialisation_ns(SPEED)
        assert int(slots_late(left, launch, schedule, CLASS, guard_ns)) == 0
        assert int(slots_late(left + guard_ns - 1, launch, schedule, CLASS, guard_ns)) == 0
