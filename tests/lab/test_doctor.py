"""The doctor: what this machine can do, found out without a trace."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from lab_machine import dump

from latlab.host import MACHINE, LocalHost
from latlab.lab.doctor import WORTH, Finding, doctor, worth_doing
from latlab.lab.journal import Journal

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("machine")]


def found() -> dict[str, Finding]:
    return {finding.name: finding for finding in asyncio.run(doctor())}


def test_the_doctor_leaves_no_trace(journals: Path) -> None:
    before = dump()
    found()
    assert dump() == before
    assert list(journals.iterdir()) == []


def test_it_knows_what_this_machine_can_do() -> None:
    findings = found()
    assert findings["namespaces and veth"].ok
    assert findings["software timestamps"].ok
    assert findings["SCHED_FIFO"].ok
    assert findings["ip"].ok


def test_whatever_is_not_well_comes_with_a_remedy() -> None:
    assert [finding for finding in found().values() if not finding.ok and not finding.remedy] == []


def test_what_is_most_worth_doing_is_at_most_three_things_and_what_keeps_runs_from_working_first() -> None:
    def of(name: str, ok: bool | None) -> Finding:
        return Finding("area", name, ok, "found", f"mend {name}")

    limits = [of("RT throttling", None), of("isolated CPUs", None), of("PREEMPT_RT", None), of("qdisc etf", None)]
    assert worth_doing(limits) == [
        *("isolated CPUs: mend isolated CPUs", "PREEMPT_RT: mend PREEMPT_RT", "RT throttling: mend RT throttling"),
    ]
    assert worth_doing([*limits, of("ip", False)])[0] == "ip: mend ip"
    assert worth_doing([of("ip", True), of("qdisc etf", None)]) == []
    assert set(WORTH) <= set(found())


def test_an_unset_tai_offset_is_no_limit() -> None:
    assert found()["TAI offset"].ok is True


def test_a_qdisc_is_there_or_it_is_not() -> None:
    assert {finding.found for name, finding in found().items() if name.startswith("qdisc ")} <= {
        *("can be set", "not in this kernel"),
    }


def test_a_missing_tool_is_told_apart_from_one_that_would_be_nice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    findings = found()
    assert (findings["ip"].ok, findings["iperf3"].ok) == (False, None)
    assert findings["namespaces and veth"].ok is False
    assert "iproute2" in findings["ip"].remedy


def test_what_a_dead_run_left_is_named() -> None:
    journal = Journal.create("old-run")
    journal.record(LocalHost(MACHINE), "something", ("true",), None)
    journal.close()
    finding = found()["journals"]
    assert "old-run" in finding.found
    assert finding.remedy == "`latlab clean`"
