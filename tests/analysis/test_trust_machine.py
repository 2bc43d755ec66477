"""How a machine may be set before a measurement is distrusted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from latlab.analysis.trust import judge
from support.analysis.evidence import GOOD, MS, evidence, facts, launched, through
from support.analysis.packets import changed


def test_in_virtual_time_nobody_is_blamed_for_sharing_the_one_cpu_there_is() -> None:
    shared = replace(GOOD, facts_after={"ecu": facts(steal_ns=30 * MS, taken_tai_ns=2 * 10**9)})
    virtual = replace(shared, cell=changed(shared.cell, instructions_per_ns=1))
    assert "cpu-stolen" in [reason.id for reason in judge(shared)]
    assert "cpu-stolen" not in [reason.id for reason in judge(virtual)]


@pytest.mark.parametrize(
    ("clock", "kind", "kept"),
    [
        ("tai", "etf", True),
        ("tai", "fq", False),
        ("monotonic", "fq", True),
        ("monotonic", "etf", False),
        ("realtime", "etf", False),
        ("realtime", "fq", False),
    ],
)
def test_a_launch_time_is_kept_by_a_qdisc_that_goes_by_its_clock(clock: str, kind: str, kept: bool) -> None:
    found = replace(evidence(streams=launched(100, clock)), facts_before=through({"kind": kind}))
    assert ("launches-honoured" in [reason.id for reason in judge(found)]) is not kept


@pytest.mark.parametrize(("priority", "kept"), [(6, True), (7, False)])
def test_fq_keeps_no_launch_times_of_its_highest_priority(priority: int, kept: bool) -> None:
    streams = [{**stream, "priority": priority} for stream in launched(100, "monotonic")]
    found = replace(evidence(streams=streams), facts_before=through({"kind": "fq"}))
    assert ("launches-honoured" in [reason.id for reason in judge(found)]) is not kept


@pytest.mark.parametrize(("port", "kept"), [("eth0", True), ("eth0.5", False)])
def test_launch_times_by_a_vlan_interface_are_kept_by_the_qdiscs_of_its_port(port: str, kept: bool) -> None:
    streams = [{**stream, "interface": "eth0.5", "port": port} for stream in launched(100, "tai")]
    found = replace(evidence(streams=streams), facts_before=through({"kind": "etf"}))
    found.facts_before["sensor"]["interfaces"]["eth0.5"] = {"qdiscs": [{"kind": "noqueue"}]}
    assert ("launches-honoured" in [reason.id for reason in judge(found)]) is not kept
