"""A queue that does not drain is reported; a wait by the schedule or the talker is not one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from latlab.analysis.evidence import Evidence
from latlab.analysis.trust_checks import queues_drain
from latlab.result.types import Gates
from support.analysis.evidence import ROW, evidence
from support.analysis.packets import cell_document, changed
from support.results import partial

PERIOD_NS = 1000
"""Of the stream in the evidence."""


def queued(wait_ns: int, **change: Any) -> Evidence:
    """Ten packets that left so long after their launch."""
    row = {**ROW, "tx_soft": wait_ns, "rx_soft": wait_ns + 100, "rx_user": wait_ns + 120}
    return evidence([{**row, **change}] * 10)


def gated(found: Evidence, latest_ns: int, worst_wait_ns: int | None = None, **change: Any) -> Evidence:
    """worst_wait_ns: at the gate alone; None for the whole time from launch to departure."""
    gates = {
        "left": 10,
        "missed": 0,
        "windows_late": {},
        "interface": "sensor.eth0",
        "promised": {"latest_ns": latest_ns, "worst_wait_ns": latest_ns if worst_wait_ns is None else worst_wait_ns},
        **change,
    }
    control = found.streams["control"].model_copy(update={"gates": partial(Gates, gates)})
    return replace(found, streams={"control": control})


def test_a_wait_of_a_period_beyond_the_wake_up_is_none_and_one_more_is() -> None:
    assert list(queues_drain(queued(PERIOD_NS + ROW["wake"]))) == []
    assert len(list(queues_drain(queued(PERIOD_NS + ROW["wake"] + 1)))) == 1


def test_what_the_gate_schedule_guarantees_is_no_backlog() -> None:
    assert list(queues_drain(gated(queued(3000), latest_ns=2000))) == []
    (broken,) = queues_drain(gated(queued(3000), latest_ns=1000))
    assert broken.expected == (
        "most packets sent within a period, 1 µs, after the handover, or up to 1 µs later by their gate schedule"
    )


def test_the_delay_that_txtime_assist_gives_every_packet_is_no_backlog() -> None:
    assert list(queues_drain(gated(queued(300_000), latest_ns=300_000, worst_wait_ns=0))) == []
    assert len(list(queues_drain(gated(queued(301_006), latest_ns=300_000, worst_wait_ns=0)))) == 1


def test_a_wait_for_a_gate_that_ends_before_the_launch_explains_none_after_it() -> None:
    assert list(queues_drain(gated(queued(PERIOD_NS + ROW["wake"]), latest_ns=-500, worst_wait_ns=2000))) == []
    (broken,) = queues_drain(gated(queued(2500), latest_ns=-500, worst_wait_ns=2000))
    assert broken.expected == "most packets sent within a period, 1 µs, after the handover"


def test_windows_that_were_missed_are_reported_with_the_interface() -> None:
    (broken,) = queues_drain(gated(queued(3000), 0, missed=10, windows_late={"631": 4, "3447": 6}))
    assert broken.where == "control.lateness"
    assert broken.actual == (
        "half of them 3 µs or more after their launch (3 µs to 3 µs), 3 periods, although the talker woke within 5 ns; "
        "10 of 10 missed their window of sensor.eth0, 631 to 3,447 windows late"
    )


def test_a_talker_that_wakes_late_is_another_rules_matter() -> None:
    assert list(queues_drain(queued(4000, wake=3500))) == []


def test_a_few_packets_that_waited_are_no_backlog() -> None:
    late = {**ROW, "tx_soft": 9000, "rx_soft": 9100, "rx_user": 9120}
    assert list(queues_drain(evidence([ROW] * 6 + [late] * 4))) == []


def test_a_closed_loop_has_no_period_to_wait_longer_than() -> None:
    found = queued(4000)
    streams = [{**stream, "period_ns": None} for stream in cell_document()["streams"]]
    assert list(queues_drain(replace(found, cell=changed(found.cell, streams=streams)))) == []
