"""Ports: what other traffic may add to a stream's wait, and the warnings, each with its numbers."""

from __future__ import annotations

from dataclasses import replace
from math import lcm
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latlab.analysis.frames import FrameSize
from latlab.analysis.gate_checks import CHECKS, Warned, warnings
from latlab.analysis.gate_port import GateLoad, GatePort, interference, nearest_departures_ns
from latlab.analysis.gates import GateEntry, Schedule
from latlab.analysis.promise import GatedStream, Handover, Launch, LaunchQueue, openings_of
from support.analysis.gates import EXPERIMENT_1, SCHEDULES
from support.suite.examples import examples

CONTROL = GatedStream("control", 0, 0, 1_006_000, FrameSize.of(64, "udp"))
STATUS = GatedStream("status", 2, 250_000, 503_000, FrameSize.of(1400, "udp"))
PORT = GatePort("sensor.eth0", "software", EXPERIMENT_1, 10**9, FrameSize.largest(1500, vlan=True), (CONTROL,))
APART = Schedule((GateEntry((0,), 101_000), GateEntry((), 103_000), GateEntry((2,), 109_000), GateEntry((3,), 190_000)))


def port(**parts: Any) -> GatePort:
    return replace(PORT, schedule=APART, **parts)


def said(one: GatePort) -> str:
    return "\n".join(f"{warned.where}: {warned.what}" for warned in warnings(one))


def test_a_stream_with_its_own_window_and_a_period_of_whole_cycles_is_warned_of_nothing() -> None:
    assert warnings(port(flows=(CONTROL, STATUS))) == ()


def test_others_are_told_apart_by_where_they_come_from() -> None:
    twin, clock = replace(CONTROL, name="twin"), replace(CONTROL, name="clock", traffic_class=1)
    found = interference(replace(PORT, flows=(CONTROL, twin, clock, STATUS)), CONTROL)
    assert found.blocking_ns == (1500 + 18 + 4 + 20) * 8
    assert found.same_class_ns == (110 + 20) * 8
    assert found.other_classes_ns == (110 + 20) * 8
    assert (found.unbounded, found.total_ns) == ((), found.blocking_ns + 2 * (110 + 20) * 8)


def test_nothing_is_in_the_way_of_a_stream_that_has_its_window_for_itself() -> None:
    found = interference(port(flows=(CONTROL, STATUS)), CONTROL)
    assert (found.blocking_ns, found.total_ns) == (0, 0)
    assert interference(port(shared=frozenset({0})), CONTROL).blocking_ns > 0


@pytest.mark.parametrize(
    ("beneath", "alone"),
    [
        ({0: LaunchQueue(200_000), 2: LaunchQueue(200_000)}, True),
        ({0: LaunchQueue(0, offload=True), 2: LaunchQueue(5_000, offload=True)}, True),
        ({0: LaunchQueue(100_000), 2: LaunchQueue(200_000)}, False),
        ({0: LaunchQueue(200_000, deadline=True), 2: LaunchQueue(200_000)}, False),
        ({0: LaunchQueue(200_000), 2: LaunchQueue(200_000, deadline=True)}, False),
        ({2: LaunchQueue(200_000)}, False),
    ],
)
def test_classes_that_leave_by_other_deltas_than_each_other_may_be_in_the_way(
    beneath: dict[int, LaunchQueue], alone: bool
) -> None:
    one = port(mode="txtime-assist", flows=(CONTROL, STATUS), beneath=beneath | {3: beneath[2]})
    assert (interference(one, CONTROL).total_ns == 0) is alone
    load = GateLoad("flood", 2, FrameSize.of(1400, "udp"))
    loaded = replace(one, loads=(load,))
    assert (interference(loaded, CONTROL).total_ns is not None) is alone
    assert ("load flood is in class 2, whose frames leave at the same time" in said(loaded)) is not alone
    assert interference(replace(loaded, mode="software"), CONTROL).total_ns == 0


def test_a_load_in_a_class_that_is_open_at_the_same_time_has_no_bound() -> None:
    load = GateLoad("flood", 1, FrameSize.of(1400, "udp"))
    found = interference(replace(PORT, loads=(load,)), CONTROL)
    assert (found.unbounded, found.total_ns) == (("flood",), None)
    assert interference(replace(PORT, loads=(replace(load, traffic_class=3),)), CONTROL).total_ns is not None


@pytest.mark.parametrize(
    ("first", "second", "apart"),
    [
        (0, 30_000, 30_000),
        (0, 150_000, 0),
        (120_000, 300_000, 0),
        (0, 100_900, 0),
        (10_000, 5_000, 5_000),
        (0, 100_000, 100_000),
    ],
)
def test_departures_are_as_far_apart_as_gates_leave_them(first: int, second: int, apart: int) -> None:
    one, other = (replace(CONTROL, offset_ns=offset, period_ns=503_000) for offset in (first, second))
    assert nearest_departures_ns(port(), one, other) == apart


@settings(max_examples=examples(40))
@given(SCHEDULES, *(st.integers(0, 40) for _ in range(2)), *(st.integers(1, 40) for _ in range(2)))
def test_the_nearest_departures_are_the_nearest_of_all(
    schedule: Schedule, first: int, second: int, period: int, other_period: int
) -> None:
    tiny = replace(PORT, schedule=schedule, speed_bps=10**11)
    one = GatedStream("one", 0, first, period, FrameSize(40))
    other = GatedStream("other", 0, second, other_period, FrameSize(40))
    _, openings = openings_of(schedule, "software", one, tiny.speed_bps)
    if not openings:
        assert nearest_departures_ns(tiny, one, other) is None
        return
    repeat = lcm(period, other_period, schedule.cycle_ns)
    here, there = (
        {
            int(openings.departs(launch - schedule.shift_ns)) % repeat
            for launch in range(flow.offset_ns, flow.offset_ns + repeat, flow.period_ns)
        }
        for flow in (one, other)
    )
    nearest = min(min((a - b) % repeat, (b - a) % repeat) for a in here for b in there)
    assert nearest_departures_ns(tiny, one, other) == nearest


def test_departures_of_periods_longer_than_a_cycle_are_those_of_launches_that_meet() -> None:
    """Both launch in even nanoseconds, 2 ns apart, over a cycle of 9 ns; in phases of it they would seem 1 ns apart."""
    schedule = Schedule((GateEntry((0,), 9),), shift_ns=1)
    one, other = GatedStream("one", 0, 0, 2, FrameSize(40)), GatedStream("other", 0, 2, 18, FrameSize(40))
    assert nearest_departures_ns(replace(PORT, schedule=schedule, speed_bps=10**11), one, other) == 0


def test_departures_of_periods_that_hardly_ever_meet_may_be_as_near_as_can_be() -> None:
    one, other = replace(CONTROL, period_ns=999_983), replace(CONTROL, name="other", period_ns=999_979)
    assert nearest_departures_ns(port(), one, other) == 0


ASSISTED = Handover.of("txtime-assist", 300_000, LaunchQueue(200_000), None)
CHECKED = Handover.of("software", 0, None, Launch(300_000))
CASES: dict[str, tuple[GatePort, str]] = {
    "packets_fit_a_window": (
        port(flows=(replace(CONTROL, frame=FrameSize.of(1400, "udp")),), speed_bps=10**8),
        "stream control: a frame of 1446 bytes needs 116.3 µs, the longest window of class 0 is 101 µs: no packet "
        "leaves",
    ),
    "launch_times_are_in_windows": (
        port(flows=(replace(CONTROL, handover=CHECKED),), beneath={0: LaunchQueue(0)}),
        "stream control: all of its launch times are outside the windows of class 0: taprio drops such packets "
        "silently, as launches exactly at the start of an entry are",
    ),
    "launch_times_are_waited_for": (
        port(flows=(replace(CONTROL, handover=CHECKED, offset_ns=50_000),)),
        "stream control: its queue has no etf: taprio checks its launch times, but sends its packets as soon as they "
        "arrive and their gate is open, up to 300 µs early",
    ),
    "periods_keep_their_phase": (
        port(flows=(replace(CONTROL, period_ns=1_000_000),)),
        "stream control: a period of 1 ms is not a multiple of the cycle, 503 µs: its launches go through 503 phases, "
        "1 µs apart, and wait 0 to 402 µs",
    ),
    "launches_meet_open_gates": (
        port(flows=(replace(CONTROL, offset_ns=150_000),)),
        "stream control: every packet meets a closed gate and waits 353 µs",
    ),
    "windows_are_where_they_seem": (
        port(
            mode="txtime-assist",
            flows=(replace(CONTROL, handover=ASSISTED, offset_ns=210_000),),
            beneath={0: LaunchQueue(200_000), 2: LaunchQueue(200_000)},
        ),
        "classes 0, 2: no NIC launches its packets: its etf sends each 200 µs before its launch time, so windows "
        "appear 200 µs early",
    ),
    "streams_of_a_class_keep_apart": (
        port(flows=(CONTROL, replace(CONTROL, name="twin", offset_ns=500))),
        "streams control and twin: both are in class 0, and their packets depart as near as 500 ns to each other: one "
        "of them waits up to 1.04 µs more",
    ),
    "classes_are_protected": (
        replace(PORT, flows=(replace(CONTROL, traffic_class=1),)),
        "class 1: the gate of stream control never closes",
    ),
    "loads_fit_the_windows": (
        port(loads=(GateLoad("flood", 0, FrameSize.largest(1500)),), speed_bps=10**8),
        "load flood: its frames of up to 1518 bytes need 122.1 µs: more than every entry of class 0, the shortest "
        "101 µs",
    ),
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_each_check_warns_with_its_numbers(check: Any) -> None:
    one, expected = CASES[check.__name__]
    promises = {promised.stream: promised for promised in one.promises()}
    found: list[Warned] = list(check(one, promises))
    assert expected in "\n".join(f"{warned.where}: {warned.what}" for warned in found)
    assert all(warned.expected and warned.remedy for warned in found)
    assert expected in said(one)


def test_the_offset_that_a_warning_asks_for_ends_the_wait() -> None:
    waiting = replace(CONTROL, offset_ns=150_000)
    assert "an offset of 0 ns" in [warned.remedy for warned in warnings(port(flows=(waiting,)))]
    assert warnings(port(flows=(replace(waiting, offset_ns=0),))) == ()
    beside = replace(waiting, traffic_class=2)
    assert "an offset of 204 µs" in [warned.remedy for warned in warnings(port(flows=(beside,)))]
    assert warnings(port(flows=(replace(beside, offset_ns=204_000),))) == ()


def test_stepping_from_one_open_entry_to_the_next_is_no_wait_worth_a_warning() -> None:
    clock = replace(CONTROL, traffic_class=1, period_ns=1_000_000, offset_ns=500)
    assert "not a multiple" not in said(replace(PORT, flows=(clock,)))


def test_very_many_streams_of_a_class_are_reported_as_such() -> None:
    flows = tuple(replace(CONTROL, name=f"s{number}") for number in range(25))
    assert "class 0: 25 streams share it: too many to compare" in said(port(flows=flows))


def test_an_etf_that_takes_launch_times_as_deadlines_keeps_no_gate() -> None:
    one = port(mode="txtime-assist", flows=(), beneath={0: LaunchQueue(200_000, deadline=True)})
    assert "sends at once: its gate is not observed" in said(one)


def test_a_packet_that_fits_adjacent_entries_together_alone_depends_on_the_kernel() -> None:
    halves = Schedule((GateEntry((0,), 1_000), GateEntry((0, 1), 1_000), GateEntry((1,), 8_000)))
    one = replace(PORT, schedule=halves, flows=(replace(CONTROL, frame=FrameSize.of(128, "udp")),))
    assert "fits no entry of class 0, only 2 µs of adjacent ones: kernels before 6.3 never send it" in said(one)


PTP = GateLoad("PTP", 0, FrameSize(90), endless=False)
"""Messages of a protocol, one at a time."""


def test_messages_that_fit_no_window_are_reported_as_what_they_are() -> None:
    (found,) = warnings(port(flows=(), loads=(PTP,), speed_bps=5_000_000))
    assert (found.where, found.remedy) == ("PTP", "a longer entry")
    assert found.what.startswith("its frames of up to 94 bytes need 163.2 µs: ")


def test_messages_come_one_at_a_time_and_bound_what_they_add() -> None:
    beside = port(flows=(CONTROL,), loads=(PTP,))
    assert warnings(beside) == ()
    found = interference(beside, CONTROL)
    assert (found.unbounded, found.same_class_ns) == ((), PTP.frame.occupied_ns(beside.speed_bps))


def test_a_load_in_the_class_of_a_stream_is_reported() -> None:
    one = port(loads=(GateLoad("flood", 0, FrameSize.of(1400, "udp")),))
    assert "load flood is in the same class: it delays stream control without a bound" in said(one)
