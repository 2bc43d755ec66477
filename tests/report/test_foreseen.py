"""What will make a measurement suspect is reported before it is run, by the rules that judge it afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from latlab.cli import app
from latlab.foreseen import as_line, facts_of_this_machine, foreseen
from latlab.model.errors import LabError
from latlab.scenario import Loaded, load_scenario
from latlab.testbed import unavailable
from latlab.testbed.machine import Machine, assumed_machine

STREAM = {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B"}
SCENARIO: dict[str, Any] = {
    "name": "small",
    "hosts": {"sensor": {"kind": "netns"}, "ecu": {"kind": "netns"}},
    "links": [{"ends": ["sensor.eth0", "ecu.eth0"]}],
    "streams": {"control": STREAM},
    "duration": "1s",
}
TO_GUEST = {
    "guests": {"vm1": {"host": "ecu", "uplink": "eth0", "acceleration": "kvm"}},
    "streams": {"control": STREAM | {"listener": "vm1"}},
}
CABLE = {
    "hosts": {"sensor": {"kind": "local"}, "ecu": {"kind": "local"}},
    "links": [{"ends": ["sensor.enp1s0", "ecu.enp2s0"]}],
    "streams": {"control": STREAM | {"transport": "ethernet", "launch_time": True}},
    "shapers": {"sensor.enp1s0": {"kind": "etf"}},
}
PINNED = {"tuning": {"sensor": {"talker": {"cpus": [2]}}, "ecu": {"listener": {"cpus": [3]}}}}
FACTS = {
    "agent": {"cpus": [0, 1]},
    "kernel": {"preempt_rt": True, "release": "6.12-rt"},
    "cpu": {"online": [0, 1, 2, 3], "isolated": [2, 3]},
    "clock": {"tick_ns": 4_000_000, "source": "tsc"},
}
RESTING = {"irqs": [], "qdiscs": [{"kind": "fq_codel"}], "energy_efficient_ethernet": {"active": True}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "small.yaml"


def loaded(path: Path, **parts: Any) -> Loaded:
    path.write_text(yaml.safe_dump(SCENARIO | PINNED | parts, sort_keys=False))
    return load_scenario(path)


def told(found: Loaded, facts: dict[str, Any], machine: Machine | None = None) -> list[tuple[str, str]]:
    return [(reason.id, reason.where) for reason in foreseen(found, machine or assumed_machine(), facts)]


def test_a_tuned_machine_is_not_blamed_beforehand_for_what_is_not_known_yet(path: Path) -> None:
    assert told(loaded(path), FACTS) == []
    assert told(loaded(path), {}) == []


def test_what_the_machine_is_is_reported_once_for_all_cells(path: Path) -> None:
    ordinary = FACTS | {"kernel": {"preempt_rt": False}}
    cells = loaded(path, matrix={"streams.control.size": ["64B", "128B"]})
    assert told(cells, ordinary) == [("preempt-rt", "sensor, ecu")]
    off = {"off": {"preempt-rt": "bridges are compared"}}
    assert told(loaded(path, trust=off), ordinary) == []


def test_agents_that_are_not_pinned_run_where_programs_run(path: Path) -> None:
    (found,) = told(loaded(path, tuning={"ecu": PINNED["tuning"]["ecu"]}), FACTS)
    assert found == ("cpus-isolated", "talk on sensor")


def test_a_period_in_step_with_the_vm_hosts_tick_is_reported(path: Path) -> None:
    tick = ("timer-tick", "stream control, ecu")
    assert told(loaded(path, **TO_GUEST), FACTS) == [tick]
    apart = TO_GUEST | {"streams": {"control": TO_GUEST["streams"]["control"] | {"period": "4093us"}}}
    assert told(loaded(path, **apart), FACTS) == []
    tcg = TO_GUEST | {"guests": {"vm1": TO_GUEST["guests"]["vm1"] | {"acceleration": "tcg"}}}
    assert told(loaded(path, **tcg), FACTS) == []


def test_a_card_of_the_scenario_is_judged_but_for_what_the_test_bed_sets_up(path: Path) -> None:
    cards = {"enp1s0": RESTING, "enp9s0": RESTING}
    assert told(loaded(path, **CABLE), FACTS | {"interfaces": cards}) == [("eee-off", "sensor.enp1s0")]
    assert told(loaded(path), FACTS | {"interfaces": {"eth0": RESTING}}) == []


def test_another_machine_is_not_judged_by_this_ones_facts(path: Path) -> None:
    hosts = {"sensor": {"kind": "ssh"}, "ecu": {"kind": "ssh"}}
    ordinary = FACTS | {"kernel": {"preempt_rt": False}}
    assert told(loaded(path, hosts=hosts, tuning={}), ordinary) == []


def test_an_agent_that_cannot_be_asked_tells_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LATLAB_AGENT", str(tmp_path / "nowhere"))
    assert facts_of_this_machine() == {}
    broken = tmp_path / "latlab-agent"
    broken.write_text("#!/bin/sh\necho no facts\n")
    broken.chmod(0o755)
    monkeypatch.setenv("LATLAB_AGENT", str(broken))
    assert facts_of_this_machine() == {}


def test_validate_tells_it_in_a_line_each_and_in_its_document(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    agent = tmp_path / "latlab-agent"
    agent.write_text(f"#!/bin/sh\necho '{json.dumps(FACTS | {'kernel': {'preempt_rt': False}})}'\n")
    agent.chmod(0o755)
    monkeypatch.setenv("LATLAB_AGENT", str(agent))
    found = loaded(path)
    (reason,) = foreseen(found, assumed_machine(), facts_of_this_machine())
    said = CliRunner().invoke(app, ["validate", str(path)]).stdout
    assert said.splitlines()[-1] == f"always suspect on this machine: {as_line(reason)}"
    document = json.loads(CliRunner().invoke(app, ["validate", str(path), "--json"]).stdout)
    assert document["foreseen"] == [reason.document()]
    assert "(preempt-rt)" in as_line(reason)


def test_validate_says_once_why_cells_cannot_run_here_and_which(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LATLAB_AGENT", str(tmp_path / "nowhere"))
    lacking = LabError("iperf3 is missing", where="loads.x", remedy="install it")
    monkeypatch.setattr(unavailable, "unavailable_here", lambda scenario: [lacking] if scenario.loads else [])
    flood = {"kind": "flood", "from": "sensor", "to": "ecu", "size": "64B", "rate": "1Mbit/s"}
    loaded(path, loads={"a": flood, "b": flood}, matrix={"loads": ["none", "a", "b"]})
    lines = CliRunner().invoke(app, ["validate", str(path)]).stdout.splitlines()
    assert "  loads=none" in lines
    assert "  loads=a: unavailable on this machine" in lines
    (why,) = [line for line in lines if "iperf3 is missing" in line]
    assert why == f"unavailable on this machine: loads a, b: {lacking}"
