"""What belongs to the whole machine: CPUs kept free, and KVM's polling."""

from __future__ import annotations

from pathlib import Path

import pytest

from latlab.scenario import Scenario
from latlab.testbed.site import Site
from latlab.testbed.tuning.cpus import HALT_POLL, cpu_list, halt_poll_steps, isolation_steps, listed, same_list
from support.testbed.tuning import applied, cover, tuned

SITE = Site("0a9f")
POLLED = "have KVM poll 0 ns for a halted vCPU"
SCHEDULER = "isolation of CPU 2-3: the scheduler places no threads there (isolcpus=)"
TICK = "isolation of CPU 2-3: no tick while one thread runs (nohz_full=)"


def kernel_says(folder: Path, isolated: str, nohz_full: str | None) -> None:
    lists = {"isolated": isolated} | ({} if nohz_full is None else {"nohz_full": nohz_full})
    cover("/sys/devices/system/cpu", lists, folder)


def isolated() -> Scenario:
    return tuned(isolated=[2, 3])


@pytest.mark.real
@pytest.mark.usefixtures("machine")
def test_isolated_cpus_are_as_wanted_where_the_kernel_lists_them(tmp_path: Path) -> None:
    kernel_says(tmp_path, "1-3\n", "2-3\n")
    outcome = applied(isolation_steps("ecu", isolated(), SITE))
    assert {title: result.actual for title, result in outcome.first.items()} == {SCHEDULER: "2-3", TICK: "2-3"}
    assert outcome.findings == {}


@pytest.mark.real
@pytest.mark.usefixtures("machine")
def test_cpus_that_are_not_isolated_are_a_finding(tmp_path: Path) -> None:
    kernel_says(tmp_path, "3\n", None)
    outcome = applied(isolation_steps("ecu", isolated(), SITE))
    assert outcome.findings[SCHEDULER] == "read back: 3"
    assert "nohz_full: No such file" in str(outcome.findings[TICK])


@pytest.mark.parametrize("text", ["\n", "(null)\n", ""])
def test_an_empty_list_isolates_nothing(text: str) -> None:
    assert listed(text, (2, 3)) == "none"


def halt_poll(folder: Path, files: dict[str, str]) -> Path:
    """The parameter's file, in a machine whose kernel has these."""
    cover("/sys/module", files, folder)
    return Path(HALT_POLL)


@pytest.mark.real
@pytest.mark.usefixtures("machine")
def test_halt_polling_is_set_and_put_back(tmp_path: Path) -> None:
    path = halt_poll(tmp_path, {"kvm/parameters/halt_poll_ns": "200000\n"})
    seen: list[str] = []
    outcome = applied(halt_poll_steps("ecu", tuned(halt_poll=0), SITE), lambda: seen.append(path.read_text()))
    assert outcome.findings == {}
    assert seen == ["0\n"]
    assert path.read_text() == "200000\n"


@pytest.mark.real
@pytest.mark.usefixtures("machine")
def test_halt_polling_that_others_set_is_found_at_the_end_and_put_back_all_the_same(tmp_path: Path) -> None:
    path = halt_poll(tmp_path, {"kvm/parameters/halt_poll_ns": "200000\n"})
    outcome = applied(halt_poll_steps("ecu", tuned(halt_poll="50us"), SITE), lambda: path.write_text("10000\n"))
    assert outcome.changed == {"have KVM poll 50000 ns for a halted vCPU": "10000"}
    assert path.read_text() == "200000\n"


@pytest.mark.real
@pytest.mark.usefixtures("machine")
def test_without_kvm_halt_polling_is_a_finding(tmp_path: Path) -> None:
    halt_poll(tmp_path, {"other/parameters/value": "1\n"})
    outcome = applied(halt_poll_steps("ecu", tuned(halt_poll=0), SITE))
    assert "halt_poll_ns: No such file" in str(outcome.findings[POLLED])


def test_nothing_is_done_that_was_not_asked_for() -> None:
    assert [*isolation_steps("ecu", tuned(), SITE), *halt_poll_steps("ecu", tuned(), SITE)] == []


def test_cpus_are_written_as_the_kernel_writes_them() -> None:
    assert cpu_list([3, 1, 2, 8]) == "1-3,8"
    assert cpu_list([]) == "none"
    assert same_list("0,1,2,7") == "0-2,7"
