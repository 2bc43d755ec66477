"""What PTP needs of this machine is found missing before anything is started, and nothing else is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from latlab.scenario import Scenario, parse
from latlab.testbed.machine import CAPABILITIES, Machine
from latlab.testbed.preflight import preflight
from latlab.testbed.ptp.port import ptp_needs
from support.testbed.ptp import made

CAPTURED = Path(__file__).parents[1] / "captured"
ALL = {
    *("ptp4l", "phc2sys", "phc_ctl", "hwstamp_ctl", "ethtool", "setpriv", "grep", "sed", "chrt", "taskset"),
}


def of_cards(**ptp: Any) -> Scenario:
    """Two cards of this machine, joined by a cable."""
    raw: dict[str, Any] = {
        "name": "cards",
        "hosts": {name: {"kind": "local"} for name in ("a", "b")},
        "links": [{"ends": ["a.eth6", "b.eth7"]}],
        "streams": {
            "control": {"talker": "a", "listener": "b", "period": "1ms", "size": "64B", "transport": "ethernet"}
        },
        "clock": {"ptp": {"ports": {"b.eth7": "slave"}} | ptp},
        "duration": "1s",
    }
    parsed = parse(raw)
    assert parsed.scenario, parsed.findings
    return parsed.scenario


def tools(one: Scenario, port: str) -> set[str]:
    (found,) = (needs for needs in ptp_needs(one, one.hosts) if str(needs.end) == port)
    return set(found.tools)


def capabilities(one: Scenario, port: str) -> set[str]:
    (found,) = (needs for needs in ptp_needs(one, one.hosts) if str(needs.end) == port)
    return set(found.capabilities)


NOTHING_TURNED = {"ptp4l", "setpriv", "grep", "chrt"}


def test_where_no_clock_is_turned_nothing_that_turns_one_is_needed() -> None:
    for port in ("sensor.eth0", "ecu.lat0"):
        assert tools(made(), port) == NOTHING_TURNED
        assert capabilities(made(), port) == {"CAP_NET_RAW", "CAP_SYS_NICE"}


def test_threads_as_they_are_need_no_privilege_and_cpus_another_program() -> None:
    plain = made(fifo=None, cpus=[0])
    assert tools(plain, "ecu.lat0") == NOTHING_TURNED - {"chrt"} | {"taskset"}
    assert capabilities(plain, "ecu.lat0") == {"CAP_NET_RAW"}


def test_a_slave_of_somebody_elses_master_turns_its_machines_clock() -> None:
    software = of_cards(timestamps="software")
    assert tools(software, "b.eth7") == NOTHING_TURNED | {"phc_ctl", "sed"}
    assert capabilities(software, "b.eth7") == {"CAP_NET_RAW", "CAP_SYS_NICE", "CAP_SYS_TIME"}
    assert tools(of_cards(), "b.eth7") == ALL - {"taskset"}


def test_cards_of_one_machine_need_nothing_that_joins_the_slaves_and_the_systems_clock() -> None:
    both = of_cards(ports={"a.eth6": "master", "b.eth7": "slave"})
    assert "phc2sys" in tools(both, "a.eth6")
    assert "phc2sys" not in tools(both, "b.eth7")
    assert "phc_ctl" in tools(both, "b.eth7")


@pytest.fixture
def problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """What preflight says of a machine with the two cards, all programs and all privileges, but for these."""
    agent = tmp_path / "latlab-agent"
    agent.write_text("#!/bin/sh\n")
    agent.chmod(0o755)
    monkeypatch.setenv("LATLAB_AGENT", str(agent))

    def of(one: Scenario, tools: tuple[str, ...] = (), capabilities: tuple[str, ...] = (), card: str = "") -> list[str]:
        machine = Machine(
            capabilities=frozenset(CAPABILITIES) - {*capabilities},
            cpus=frozenset({0, 1}),
            interfaces=frozenset({"lo", "eth6", "eth7"}),
            has_tool=lambda tool: tool not in tools,
        )
        said = (CAPTURED / card).read_text() if card else None
        return [str(problem) for problem in preflight(one, replace(machine, say=lambda _: said))]

    return of


def test_what_is_missing_is_reported_with_the_port_that_needs_it(problems: Callable[..., list[str]]) -> None:
    assert problems(of_cards()) == []
    (line,) = problems(of_cards(), tools=("chrt",))
    assert line.startswith("clock.ptp.ports.b.eth7: chrt is missing")
    assert problems(made(), tools=("phc_ctl", "phc2sys", "hwstamp_ctl", "taskset")) == []
    (line,) = problems(of_cards(), capabilities=("CAP_SYS_TIME",))
    assert line.startswith("missing privilege: CAP_SYS_TIME (")
    (line,) = problems(made(), capabilities=("CAP_NET_RAW", "CAP_SYS_TIME"))
    assert line.startswith("missing privilege: CAP_NET_RAW (")


def test_a_card_that_stamps_nothing_is_reported_before_the_run(problems: Callable[..., list[str]]) -> None:
    (line,) = problems(of_cards(), card="ethtool-veth.txt")
    assert line.startswith("clock.ptp.ports.b.eth7: b.eth7 has no hardware timestamp of packets that it sends, ")
    assert "timestamps: software" in line
    assert problems(of_cards(), card="ethtool-igc.txt") == []
    assert problems(of_cards(timestamps="software"), card="ethtool-veth.txt") == []
