"""By what the clocks of two hosts are joined follows from where they are, and from the clocks the guests have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from latlab.model.clock_sources import EXCHANGE, ONE_KERNEL, PTP_KVM, SHARED_PAGE
from latlab.model.errors import LabError
from latlab.run.clock_legs import Leg, leg_specs, needed_legs
from latlab.run.clocks import KVM_CLOCK, planned_with_kvm_clock, tai_offset_s, with_kvm_clock
from latlab.run.matrix import plan
from latlab.scenario import Scenario, load_scenario
from latlab.testbed.machine import Machine, read_machine
from latlab.testbed.makers import make_hosts
from latlab.testbed.site import Site

Make = Callable[..., Scenario]
RUN = "8f3c5e0d12ab34cd"
SITE = Site("0a1b")
SENSOR_TO_ECU = Leg("sensor", "ecu", ONE_KERNEL)
PAGE = Leg("ecu", "own", SHARED_PAGE)


def stream(talker: str, listener: str) -> dict[str, Any]:
    return {"talker": talker, "listener": listener, "period": "1ms", "size": "64B"}


def domain(name: str) -> dict[str, Any]:
    ssh = {"destination": f"{name}.lan"}
    return {"host": "ecu", "uplink": "lat0", "bridge": "tap", "domain": name, "ssh": ssh}


def document(*ends: tuple[str, str], sync: str) -> dict[str, Any]:
    """A scenario with hosts sensor and ecu, and on ecu a guest of latlab's and two domains; a stream for each pair."""
    return {
        "name": "small",
        "hosts": {"sensor": {"kind": "netns"}, "ecu": {"kind": "local"}},
        "links": [{"ends": ["sensor.eth0", "ecu.lat0"]}],
        "guests": {"own": {"host": "ecu", "uplink": "lat0"}, "vm1": domain("plc"), "vm2": domain("hmi")},
        "streams": {f"stream{n}": stream(*pair) for n, pair in enumerate(ends)},
        "clock": {"sync": sync},
        "duration": "2s",
    }


@pytest.fixture
def watched(scenario: Make) -> Make:
    """watched(point, …, ends=…, sync=…): the same with a flow, and streams between `ends`."""

    def made(*at: str, ends: tuple[tuple[str, str], ...] = (), sync: str = "auto") -> Scenario:
        return scenario(**document(*ends, sync=sync), flows={"seen": {"match": "udp", "at": list(at)}})

    return made


@pytest.fixture
def beside(scenario: Make) -> Make:
    """beside((talker, listener), …, sync=…): the scenario of `document`."""

    def made(*ends: tuple[str, str], sync: str = "auto") -> Scenario:
        return scenario(**document(*ends, sync=sync))

    return made


def legs(scenario: Scenario, *with_clock: str, site: Site = SITE) -> list[Leg]:
    return needed_legs(scenario, site, make_hosts(scenario, site), with_clock)


def ptp(guest: str) -> Leg:
    return Leg("ecu", guest, PTP_KVM)


def test_a_domain_that_has_kvms_clock_reads_its_hosts_by_it(beside: Make) -> None:
    assert legs(beside(("sensor", "vm1")), "vm1") == [SENSOR_TO_ECU, ptp("vm1")]
    assert legs(beside(("vm1", "ecu")), "vm1") == [ptp("vm1")]


def test_a_domain_without_it_exchanges_timestamps(beside: Make) -> None:
    assert legs(beside(("sensor", "vm1")), "vm2") == [Leg("sensor", "vm1", EXCHANGE)]


def test_two_domains_are_joined_through_their_host_if_both_have_it(beside: Make) -> None:
    assert legs(beside(("vm1", "vm2")), "vm1", "vm2") == [ptp("vm1"), ptp("vm2")]
    assert legs(beside(("vm1", "vm2")), "vm1") == [Leg("vm1", "vm2", EXCHANGE)]


def test_a_page_is_taken_before_kvms_clock(beside: Make) -> None:
    assert legs(beside(("ecu", "own")), "own", "vm1") == [PAGE]
    assert legs(beside(("own", "vm1")), "own", "vm1") == [PAGE, ptp("vm1")]


def test_on_arm_no_page_is_shared_and_a_guest_has_kvms_clock_or_exchanges(beside: Make) -> None:
    arm = Site("0a1b", machine=replace(read_machine(), architecture="aarch64"))
    assert legs(beside(("ecu", "own")), "own", site=arm) == [Leg("ecu", "own", PTP_KVM)]
    assert legs(beside(("sensor", "own")), site=arm) == [Leg("sensor", "own", EXCHANGE)]


def test_each_leg_is_there_once_however_many_streams_need_it(beside: Make) -> None:
    every = beside(("sensor", "vm1"), ("vm1", "sensor"), ("ecu", "vm1"), ("vm1", "vm2"))
    assert legs(every, "vm1", "vm2") == [SENSOR_TO_ECU, ptp("vm1"), ptp("vm2")]


def test_exchanges_are_made_where_they_are_asked_for_whatever_clock_there_is(beside: Make) -> None:
    assert legs(beside(("sensor", "vm1"), sync="exchange"), "vm1") == [Leg("sensor", "vm1", EXCHANGE)]


def test_points_of_a_flow_on_two_kernels_have_their_clocks_compared_as_streams_have(watched: Make) -> None:
    assert legs(watched("sensor.eth0", "ecu.lat0")) == []
    assert legs(watched("sensor.eth0", "own.tap", "own.eth0")) == [SENSOR_TO_ECU, PAGE]
    assert legs(watched("ecu.lat0", "vm1.eth0"), "vm1") == [ptp("vm1")]
    both = watched("own.eth0", "vm1.eth0")
    assert legs(both, "vm1") == [PAGE, ptp("vm1")]


def test_where_nothing_else_joins_a_flows_kernels_an_exchange_does_and_rather_one_that_there_is(watched: Make) -> None:
    at = ("sensor.eth0", "vm1.eth0")
    assert legs(watched(*at)) == [Leg("sensor", "vm1", EXCHANGE)]
    assert legs(watched("ecu.lat0", "vm1.eth0", ends=(("vm1", "sensor"),))) == [
        Leg("vm1", "sensor", EXCHANGE),
        Leg("ecu", "sensor", ONE_KERNEL),
    ]
    assert legs(watched(*at, sync="shared")) == []
    nobody: dict[str, int | str] = {}
    told = leg_specs(watched(*at), SITE, Leg("sensor", "vm1", EXCHANGE), RUN, "/tmp/clock", nobody.__getitem__)
    assert [(host, spec["role"]) for host, spec in told] == [("vm1", "responder"), ("sensor", "initiator")]


def test_shared_takes_kvms_clock_and_without_it_says_how_to_get_it(beside: Make) -> None:
    assert legs(beside(("sensor", "vm1"), sync="shared"), "vm1") == [SENSOR_TO_ECU, ptp("vm1")]
    with pytest.raises(LabError, match="sensor and vm1 run different kernels") as raised:
        legs(beside(("sensor", "vm1"), sync="shared"))
    assert raised.value.where == "clock.sync"
    assert "`modprobe ptp_kvm` in vm1:" in raised.value.remedy


def test_the_guest_alone_is_told_to_read_the_clock_and_what_its_host_adds_to_utc(beside: Make) -> None:
    ((name, told),) = leg_specs(
        beside(("ecu", "vm1")), SITE, ptp("vm1"), RUN, "/tmp/clock-ecu-vm1", {"ecu": 37}.__getitem__
    )
    assert ptp("vm1").recorder == name == "vm1"
    assert (told["role"], told["device"], told["host_tai_offset_s"]) == ("ptp", "auto", 37)
    assert (told["recording"], told["run_id"]) == ("/tmp/clock-ecu-vm1", RUN)
    # As long as the cell, 2 s, and what may come before and after it.
    assert told["count"] * told["period_ns"] == 602 * 10**9


def facts(offset_s: int | None, *clocks: str | None) -> dict[str, Any]:
    """As `latlab-agent facts` prints them (docs/reference/facts.md)."""
    phcs: dict[str, Any] = {
        str(n): {"name": name, "max_adjustment_ppb": None, "interfaces": []} for n, name in enumerate(clocks)
    }
    return {"clock": {"tai_offset_s": offset_s, "phcs": phcs}}


def test_the_facts_tell_which_guests_have_the_clock_and_the_hosts_tai_offset() -> None:
    found = {"ecu": facts(37, "Intel I225"), "vm1": facts(0, "Intel I225", KVM_CLOCK), "vm2": facts(0, None)}
    assert with_kvm_clock(found) == {"vm1"}
    assert tai_offset_s(found, "ecu") == 37


def test_a_host_whose_tai_offset_is_unknown_is_named() -> None:
    with pytest.raises(LabError) as raised:
        tai_offset_s({"ecu": facts(None)}, "ecu")
    assert raised.value.where == "ecu" and raised.value.remedy


def test_for_a_plan_each_domain_is_asked_and_one_that_does_not_answer_has_no_such_clock(beside: Make) -> None:
    asked: list[tuple[str, ...]] = []

    def say(argv: tuple[str, ...]) -> str | None:
        asked.append(argv)
        return f"Intel I225\n{KVM_CLOCK}\n" if "plc.lan" in argv else None

    planned = beside(("sensor", "vm1"))
    machine = Machine(frozenset(), frozenset(), frozenset(), lambda tool: True, say=say)
    assert planned_with_kvm_clock(planned, machine, make_hosts(planned, SITE)) == {"vm1"}
    assert [argv[0] for argv in asked] == ["ssh", "ssh"]
    assert all("cat /sys/class/ptp/*/clock_name" in argv[-1] for argv in asked)


SSH = f"""#!/bin/sh
case "$*" in *clock_name*) echo "{KVM_CLOCK}" ;; esac
"""
"""In place of ssh: every domain answers, and has the clock."""


def test_a_plan_has_the_agent_that_reads_the_clock_and_names_the_offset_that_only_a_run_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ssh").write_text(SSH)
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(document(("sensor", "vm1"), sync="shared")))
    printed = plan(load_scenario(path))
    assert '"role": "ptp"' in printed and '"host_tai_offset_s": "TAI offset of ecu"' in printed
    assert '"role": "initiator"' not in printed and '"role": "page-writer"' not in printed
