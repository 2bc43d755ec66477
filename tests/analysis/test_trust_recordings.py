"""What recordings, counts and bridges may show before a measurement is distrusted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from latlab.analysis.evidence import Evidence
from latlab.analysis.trust import judge
from support.analysis.evidence import ROW, SILENT, across_xdp, agents, evidence, step, stream_of, talked
from support.analysis.packets import changed


@pytest.mark.parametrize(
    "found",
    [
        across_xdp("frames redirected 10, passed 0, dropped 0"),
        across_xdp("frames redirected 512, passed 700, dropped 3"),
        across_xdp("frames redirected 20, passed 0", "sensor", "plc"),
        across_xdp("no counts"),
        across_xdp("frames redirected 0, passed 10, dropped 0", kind="tap"),
        across_xdp("frames redirected 0, passed 10, dropped 0", guests=["vm2"]),
    ],
    ids=["all of them", "a load's beside them", "two streams", "not counted", "another bridge", "another's guests"],
)
def test_packets_may_all_have_taken_the_xdp_bridge(found: Evidence) -> None:
    assert not [reason for reason in judge(found) if "xdp" in reason.id]


def test_what_an_xdp_bridge_counted_before_a_cell_was_cut_short_is_not_compared_with_it() -> None:
    found = across_xdp("frames redirected 0, passed 2, dropped 0")
    cut = replace(found, cell=changed(found.cell, status="interrupted"))
    assert [reason.id for reason in judge(cut) if "xdp" in reason.id] == []
    assert [reason.id for reason in judge(found) if "xdp" in reason.id] == ["xdp-carried"]


def test_the_step_that_ended_a_cell_is_reported_once() -> None:
    failed = {"what": "give the vCPU SCHED_FIFO 1: failed", "where": "ecu", "remedy": ""}
    found = judge(evidence(status="failed", reason=failed, steps=[step(ok=False)]))
    assert [reason.id for reason in found] == ["cell-ended"]


def test_a_packet_lost_without_a_launch_time_is_no_finding_about_qdiscs() -> None:
    assert "launch-dropped" not in [one.id for one in judge(evidence([ROW, SILENT]))]


def test_a_few_missing_timestamps_are_normal() -> None:
    rows = [ROW] * 1999 + [{"wake_due": 0, "wake": 5, "rx_soft": 100, "rx_user": 120}]
    assert judge(evidence(rows, streams=stream_of(2000), agents=agents(talked(2000)))) == []
