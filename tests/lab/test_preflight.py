"""Preflight: every problem at once, each in one line with its remedy, and nothing changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lab_machine import scenario

from latlab.errors import EXIT_LAB, EXIT_USAGE, LabError, UsageError
from latlab.lab.machine import CAPABILITIES, Machine, effective_capabilities, parse_cpu_list, read_machine
from latlab.lab.preflight import find_agent, preflight, raise_problems

ABLE = Machine(frozenset(CAPABILITIES), frozenset({0, 1}), frozenset({"lo", "enp1s0"}), lambda tool: True)
NETNS = {"sensor": "netns", "ecu": "netns"}


@pytest.fixture(autouse=True)
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "latlab-agent"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    monkeypatch.setenv("LATLAB_AGENT", str(path))
    return path


def problems(machine: Machine = ABLE, hosts: dict[str, str] = NETNS, **parts: Any) -> list[str]:
    return [str(problem) for problem in preflight(scenario(hosts, **parts), machine)]


def test_a_machine_that_has_all_is_fine() -> None:
    assert problems() == []


def test_this_machine_can_run_a_small_scenario() -> None:
    assert problems(read_machine()) == []


def test_without_root_it_says_so() -> None:
    (line,) = problems(replace(ABLE, capabilities=frozenset()))
    assert "CAP_NET_ADMIN" in line
    assert "CAP_SYS_ADMIN" in line
    assert "run with sudo" in line


def test_an_unknown_interface_is_named_with_those_there_are() -> None:
    stream = {"talker": "a", "listener": "b", "period": "1ms", "size": "64B", "transport": "ethernet"}
    links = [{"ends": ["a.enp1s0", "b.enp7s0"]}]
    (line,) = problems(hosts={"a": "local", "b": "local"}, links=links, streams={"control": stream})
    assert line == "links.0: b.enp7s0: this machine has no interface enp7s0 (its interfaces: enp1s0)"


def test_an_interface_name_that_is_taken_is_refused() -> None:
    links = [{"ends": ["sensor.eth0", "ecu.enp1s0"]}]
    (line,) = problems(hosts={"sensor": "netns", "ecu": "local"}, links=links)
    assert "has an interface enp1s0 already" in line


def test_a_cpu_that_is_not_there_is_named_with_its_place_in_the_scenario() -> None:
    (line,) = problems(tuning={"sensor": {"talker": {"cpus": [1, 7]}}})
    assert line == "tuning.sensor.talker.cpus: no CPU 7 is online (online: 0, 1)"


def test_a_missing_netperf_points_to_the_other_loads() -> None:
    lacking = replace(ABLE, has_tool=lambda tool: tool not in ("netperf", "netserver"))
    load = {"kind": "netperf", "from": "sensor", "to": "ecu"}
    lines = problems(lacking, loads={"netperf3": load})
    assert [line.split()[0] for line in lines] == ["netperf", "netserver"]
    assert all("iperf3 or flood" in line for line in lines)


def test_a_tool_that_only_another_load_needs_is_not_missed() -> None:
    lacking = replace(ABLE, has_tool=lambda tool: tool not in ("netperf", "iperf3", "chrt"))
    assert problems(lacking, loads={"f": {"kind": "flood", "from": "sensor", "to": "ecu"}}) == []


def test_a_missing_agent_is_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LATLAB_AGENT")
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setattr("sys.executable", str(tmp_path / "nowhere" / "python"))
    (line,) = problems()
    assert "make build" in line


def test_the_agent_is_the_named_one_or_the_one_beside_python(agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_agent() == agent
    monkeypatch.delenv("LATLAB_AGENT")
    monkeypatch.setattr("sys.executable", str(agent.parent / "python"))
    assert find_agent() == agent


def test_all_problems_come_together_and_a_wrong_scenario_decides_the_exit_code() -> None:
    found = preflight(
        scenario(NETNS, tuning={"sensor": {"talker": {"cpus": [9]}}}), replace(ABLE, capabilities=frozenset())
    )
    assert [problem.exit_code for problem in found] == [EXIT_USAGE, EXIT_LAB]
    with pytest.raises(UsageError, match=r"2 problems:\n.*CPU 9.*\n.*missing privilege"):
        raise_problems([*found, *found])
    with pytest.raises(LabError, match="missing privilege"):
        raise_problems(found[1:])
    raise_problems([])


def test_the_kernel_s_lists_and_masks_are_read() -> None:
    assert parse_cpu_list("0-2,8\n") == {0, 1, 2, 8}
    assert parse_cpu_list("\n") == set()
    assert effective_capabilities("CapPrm:\t0\nCapEff:\t0000000000001000\n") == {"CAP_NET_ADMIN"}
