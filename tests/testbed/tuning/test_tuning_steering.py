"""VLAN priorities into receive queues: the real ethtool, with a NIC's rule table in the kernel's place."""

from __future__ import annotations

from pathlib import Path

import pytest

from latlab.testbed.site import Site
from latlab.testbed.tuning.interrupts import steered, steering_steps
from support.machine import run
from support.testbed.tuning import Outcome, applied, tuned

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("machine")]

RULE_TABLE = Path(__file__).with_name("rule_table.c")
RULES = Path(__file__).parent / "captured" / "ethtool-rules.txt"


@pytest.fixture
def nic(machine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """lat0 takes rules for its four receive queues, as an igb does."""
    veth()
    library = tmp_path / "rule_table.so"
    run("cc", "-shared", "-fPIC", "-o", str(library), str(RULE_TABLE), "-ldl")
    monkeypatch.setenv("RULE_TABLE", str(tmp_path / "rules"))
    monkeypatch.setenv("LD_PRELOAD", str(library))


def veth() -> None:
    run("ip", "link", "add", "lat0", "type", "veth", "peer", "name", "other")


def rules() -> list[str]:
    """Tag and queue of each rule in the NIC."""
    lines = run("ethtool", "-n", "lat0").splitlines()
    return [line.split(": ", 1)[1] for line in lines if line.startswith(("\tVLAN: ", "\tAction: "))]


def steer(queues: dict[int, int], meanwhile: list[str] | None = None) -> Outcome:
    """What became of the steps; the rules that stood meanwhile are added to the list."""
    seen = [] if meanwhile is None else meanwhile
    return applied(steering_steps("ecu", tuned(steering={"lat0": queues}), Site("0a9f")), lambda: seen.extend(rules()))


@pytest.mark.usefixtures("nic")
def test_each_priority_goes_to_its_queue_and_nothing_stays_behind() -> None:
    seen: list[str] = []
    outcome = steer({7: 3, 3: 1}, seen)
    assert outcome.findings == {}
    assert all(result.ok for result in outcome.again.values())
    assert seen == [
        *("0x6000 mask: 0x1fff", "Direct to queue 1"),
        *("0xe000 mask: 0x1fff", "Direct to queue 3"),
    ]
    assert rules() == []


@pytest.mark.usefixtures("nic")
def test_rules_of_others_stay() -> None:
    for other in (("vlan", "0xe005", "m", "0x1fff"), ("vlan", "0x6000", "m", "0x1fff", "dst", "02:00:00:00:00:09")):
        run("ethtool", "-N", "lat0", "flow-type", "ether", *other, "action", "3")
    before = rules()
    assert steer({7: 1, 3: 3}).findings == {}
    assert rules() == before


@pytest.mark.usefixtures("nic")
def test_a_rule_that_is_there_already_is_used_and_kept_by_its_owner() -> None:
    run("ethtool", "-N", "lat0", "flow-type", "ether", "vlan", "0xe000", "m", "0x1fff", "action", "3")
    before = rules()
    (why,) = steer({7: 3}).findings.values()
    assert "it exists already" in str(why)
    assert rules() == before


@pytest.mark.usefixtures("nic")
def test_what_the_driver_refuses_is_reported_though_ethtool_ends_well() -> None:
    (why,) = steer({7: 9}).findings.values()
    assert why == ("read back: no rule; output: rmgr: Cannot insert RX class rule: Invalid argument")


@pytest.mark.usefixtures("nic")
def test_a_rule_that_others_delete_is_missed_at_the_end() -> None:
    steps = steering_steps("ecu", tuned(steering={"lat0": {7: 3}}), Site("0a9f"))
    outcome = applied(steps, lambda: run("ethtool", "-N", "lat0", "delete", "15"))
    assert outcome.changed == {"lat0 puts VLAN priority 7 into receive queue 3": "no rule"}


def test_an_interface_that_cannot_is_a_finding_with_its_answer() -> None:
    veth()
    outcome = applied(steering_steps("ecu", tuned(steering={"lat0": {7: 3}}), Site("0a9f")))
    (why,) = outcome.findings.values()
    assert "Cannot get RX class rule count: Operation not supported" in str(why)


def test_what_ethtool_prints_is_read() -> None:
    output = RULES.read_text()
    assert steered(output, "0xe000") == "queue 3"
    assert steered(output, "0x6000") == "queue 1"
    assert steered(output, "0x8000") == "Drop"
    assert steered(output, "0x2000") == "no rule"


def test_the_mask_leaves_nothing_but_the_priority_to_be_compared() -> None:
    (step,) = steering_steps("ecu", tuned(steering={"lat0": {5: 2}}), Site("0a9f"))
    tag, mask = int(step.do[step.do.index("vlan") + 1], 16), int(step.do[step.do.index("m") + 1], 16)
    assert [tag >> 13, ~mask & 0xFFFF] == [5, 0b111 << 13]
