"""What clocks may do before a measurement is distrusted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from latlab.analysis.evidence import Evidence
from latlab.analysis.trust import judge
from support.analysis.evidence import (
    EARLY,
    GOOD,
    MS,
    ROW,
    agents,
    bound,
    bounded,
    clocks,
    evidence,
    facts,
    guest,
    launched,
    merged,
    on_ecu,
    to_guest,
)
from support.analysis.packets import cell_document, changed


def test_a_negative_latency_within_the_clocks_bound_is_no_finding_about_them() -> None:
    found = judge(evidence(EARLY, clocks=bound(-400, 400)))
    assert "arrived-early" not in [reason.id for reason in found]


def test_a_talker_that_wakes_within_its_lead_is_punctual_however_short_its_period() -> None:
    late = [{**ROW, "wake": 1500}] * 10

    def found(lead_ns: int) -> list[tuple[str, str]]:
        reasons = judge(evidence(late, streams=launched(lead_ns)))
        return [(reason.expected, reason.actual) for reason in reasons if reason.id == "talker-punctual"]

    assert found(1500) == []
    assert found(1499) == [("every wake-up within the lead, 1.499 µs", "max 1.5 µs (sequence 0)")]
    assert found(100) == [("every wake-up within a period, 1 µs", "max 1.5 µs (sequence 0)")]


def test_a_packet_with_a_launch_time_may_leave_as_early_as_its_lead() -> None:
    def checks(lead_ns: int) -> list[str]:
        return [reason.id for reason in judge(evidence(EARLY, streams=launched(lead_ns)))]

    assert "arrived-early" not in checks(200)
    assert "arrived-early" in checks(199)


def test_a_slow_reading_of_the_clocks_is_no_step() -> None:
    slow = clocks(tai_ns=2 * MS, real_ns=2 * MS, bracket_ns=MS)
    assert judge(replace(GOOD, clocks={"talker-sensor": slow})) == []


def test_a_step_of_far_less_than_a_millisecond_is_one() -> None:
    """Steering turns REALTIME and MONOTONIC alike: only a step parts them, however small."""
    stepped = clocks(tai_ns=300_000, real_ns=300_000)
    assert "clock-stepped" in [one.id for one in judge(replace(GOOD, clocks={"talker-sensor": stepped}))]


def remedies(found: Evidence) -> list[str]:
    return [reason.remedy for reason in judge(found) if reason.id == "clock-bound"]


def test_what_to_do_about_clocks_that_nothing_bounds_is_said_of_whose_they_are() -> None:
    """Advice for a guest is none to two hosts, and none of both helps a network card's clock."""
    (of_hosts,) = remedies(evidence(clocks=[]))
    assert "{sync: exchange}" in of_hosts and "guest" not in of_hosts and "card" not in of_hosts
    (for_a_time,) = remedies(bounded(None, *[0] * 9))
    assert "temporarily" in for_a_time and "guest" not in for_a_time
    (of_a_guest,) = remedies(evidence(clocks=[], streams=to_guest(), guests=[guest()]))
    assert "the guest's clock" in of_a_guest and "card" not in of_a_guest
    of_cards, of_the_rest = remedies(evidence([{**ROW, "tx_hard": 40, "rx_hard": 90}] * 10, clocks=[]))
    assert "network cards" in of_cards and "guest" not in of_cards and of_the_rest == of_hosts


SLEWED = clocks(steered_ns=(0, 0, 50_000))
SLEW = "clock-slewed"


def checks(found: Evidence) -> list[str]:
    return [reason.id for reason in judge(found)]


def test_a_clock_may_be_slewed_where_talker_and_listener_share_it_or_ptp_keeps_them_alike() -> None:
    found = replace(GOOD, clocks={"listener-ecu": SLEWED})
    assert checks(found) == [SLEW]
    one_kernel = {"kernel": {"boot_id": "b"}}
    shared = {host: merged(one, one_kernel) for host, one in found.facts_before.items()}
    assert checks(replace(found, facts_before=shared)) == []
    port = {"port": "ecu.eth0", "role": "slave"}
    assert SLEW not in checks(replace(found, cell=changed(found.cell, ptp=[port])))


def test_a_clock_that_runs_at_another_rate_all_the_time_is_not_slewed() -> None:
    fast = clocks(monotonic_ns=50_000, real_ns=50_000, tai_ns=50_000, steered_ns=(50_000,) * 3)
    assert checks(replace(GOOD, clocks={"listener-ecu": fast})) == []


def test_a_rate_is_only_as_sharp_as_the_readings() -> None:
    blurred = clocks(steered_ns=(0, 0, 50_000), bracket_ns=25_000)
    assert checks(replace(GOOD, clocks={"listener-ecu": blurred})) == []


def test_two_readings_tell_no_change_of_a_rate() -> None:
    assert (
        checks(replace(GOOD, clocks={"listener-ecu": clocks(tai_ns=50_000, monotonic_ns=50_000, real_ns=50_000)})) == []
    )


MS_4 = {"clock": {"tick_ns": 4_000_000}}
STEPS: dict[str, tuple[int, dict[str, Any], bool]] = {
    "a multiple": (8_000_000, MS_4, True),
    "the tick itself": (4_000_000, MS_4, True),
    "a divisor": (500_000, MS_4, True),
    "neither": (1_006_000, MS_4, False),
    "the one that is recommended": (4_093_000, MS_4, False),
    "neither, though some ticks are some periods": (5_000_000, MS_4, False),
    "ticks that are no whole nanoseconds": (10_000_000, {"clock": {"tick_ns": 3_333_333}}, True),
    "one millisecond between them": (1_000_000, {"clock": {"tick_ns": 3_333_333}}, False),
    "by the kernel's configuration": (1_000_000, {"kernel": {"config": {"CONFIG_HZ": "1000"}}}, True),
    "a kernel that does not tell": (1_000_000, {"kernel": {"config": {"CONFIG_HZ": None}}}, False),
    "CPUs without a tick": (1_000_000, merged(MS_4, {"cpu": {"nohz_full": [1, 2]}}), False),
    "some CPUs without a tick": (1_000_000, merged(MS_4, {"cpu": {"nohz_full": [2]}}), True),
}
TICK = "timer-tick"


@pytest.mark.parametrize(("period_ns", "kernel", "in_step"), STEPS.values(), ids=STEPS)
def test_a_stream_to_a_guest_is_out_of_step_with_ticks(period_ns: int, kernel: dict[str, Any], in_step: bool) -> None:
    in_guest = [{**one, "host": "vm1"} for one in agents()]
    found = on_ecu({}, rows=[ROW] * 10, streams=to_guest(period_ns=period_ns), guests=[guest()], agents=in_guest)
    found = replace(found, facts_before={"vm1": merged(facts(), kernel)})
    assert [reason.where for reason in judge(found) if reason.id == TICK] == ["stream control, vm1"] * in_step


def test_without_a_virtual_machine_a_tick_decides_nothing_but_in_virtual_time() -> None:
    streams = [{**stream, "period_ns": 1_000_000} for stream in cell_document()["streams"]]
    found = on_ecu(MS_4, rows=[ROW] * 10, streams=streams)
    assert TICK not in checks(found)
    virtual = changed(found.cell, label="virtual time", instructions_per_ns=1)
    assert TICK in checks(replace(found, cell=virtual))
