"""Which tuning is done when, and that a plan has it."""

from __future__ import annotations

import subprocess
from typing import Any

from latlab.hosts import LocalMachine
from latlab.scenario import Scenario
from latlab.testbed.site import Site
from latlab.testbed.step import Step
from latlab.testbed.tuning import before_guests_tuning, guest_tuning
from support.machine import scenario
from support.testbed.tuning import GUEST, tuned

SITE = Site("RUN")


def everything() -> Scenario:
    """A scenario that tunes all there is, on a host and in its guest."""
    host: dict[str, Any] = {
        "guests": {"vm1": {part: {"cpus": [0], "fifo": 5} for part in ("vcpus", "emulator", "vhost")}},
        "isolated": [1],
        "irq": {"lat0": {"cpus": [0], "queues": {0: [1]}}},
        "steering": {"lat0": {7: 0}},
        "halt_poll": 0,
    }
    guest = {key: {"eth0": host[key]["lat0"]} for key in ("irq", "steering")} | {"isolated": [0]}
    return scenario(
        {"sensor": "netns", "ecu": "local"},
        guests={"vm1": {"host": "ecu", "vcpus": 2, "uplink": "lat0"}},
        tuning={"vm1": guest, "ecu": host},
    )


def words(steps: list[Step]) -> list[str]:
    return [f"{step.host}: {step.title}" for step in steps]


def test_what_a_guest_is_made_with_is_set_before_it_starts() -> None:
    assert words(list(before_guests_tuning(everything(), SITE))) == [
        "ecu: isolation of CPU 1: the scheduler places no threads there (isolcpus=)",
        "ecu: isolation of CPU 1: no tick while one thread runs (nohz_full=)",
        "ecu: have KVM poll 0 ns for a halted vCPU",
    ]


def test_what_needs_running_guests_comes_after_the_hosts_first() -> None:
    assert words(list(guest_tuning(everything(), SITE))) == [
        "ecu: vm1's vCPUs on CPU 0",
        "ecu: vm1's vCPUs at SCHED_FIFO 5",
        "ecu: vm1's emulator threads on CPU 0",
        "ecu: vm1's emulator threads at SCHED_FIFO 5",
        "ecu: vm1's vhost threads on CPU 0",
        "ecu: vm1's vhost threads at SCHED_FIFO 5",
        "ecu: lat0 puts VLAN priority 7 into receive queue 0",
        "ecu: lat0's other interrupts on CPU 0",
        "ecu: lat0's interrupt of receive queue 0 on CPU 1",
        "vm1: isolation of CPU 0: the scheduler places no threads there (isolcpus=)",
        "vm1: isolation of CPU 0: no tick while one thread runs (nohz_full=)",
        "vm1: eth0 puts VLAN priority 7 into receive queue 0",
        "vm1: eth0's other interrupts on CPU 0",
        "vm1: eth0's interrupt of receive queue 0 on CPU 1",
    ]


def test_every_step_is_a_finding_where_it_cannot_be_done_and_is_checked_again() -> None:
    steps = [*before_guests_tuning(everything(), SITE), *guest_tuning(everything(), SITE)]
    assert all(step.optional and step.lasting and step.check for step in steps)


def test_a_guest_takes_its_settings_along_and_a_libvirt_domain_gets_its_former_ones_back() -> None:
    ours = guest_tuning(everything(), SITE)
    assert {step.host for step in ours if step.undo} == {"ecu"}
    domain = {"host": "ecu", "uplink": "lat0", "domain": "win", "ssh": {"destination": "win"}}
    lasting = scenario(
        {"sensor": "netns", "ecu": "local"},
        guests={"vm1": domain},
        tuning={"vm1": {"irq": {"eth0": {"cpus": [0]}}, "steering": {"eth0": {7: 0}}}},
    )
    assert all(step.undo for step in guest_tuning(lasting, SITE))


def test_every_command_can_be_pasted_into_a_shell() -> None:
    steps = [*before_guests_tuning(everything(), SITE), *guest_tuning(everything(), SITE)]
    for step in steps:
        for argv in filter(None, (step.do, step.undo, step.present, step.check.argv if step.check else None)):
            line = LocalMachine("ecu").command_line(argv)
            subprocess.run(["sh", "-n"], input=line, text=True, check=True)
            if argv[:2] == ("sh", "-c"):
                subprocess.run(["sh", "-n"], input=argv[2], text=True, check=True)


def test_a_scenario_without_tuning_changes_nothing() -> None:
    small = scenario({"sensor": "netns", "ecu": "local"})
    assert [*before_guests_tuning(small, SITE), *guest_tuning(small, SITE)] == []


def test_what_is_tuned_of_a_card_is_left_out_where_it_has_become_a_guests() -> None:
    tuning = {
        "irq": {"lat0": {"cpus": [0]}},
        "rss": {"lat0": [0]},
        "steering": {"lat0": {7: 0}},
        "coalescing": {"lat0": 0},
    }
    titles = {
        bridge: [step.title for step in guest_tuning(tuned(GUEST | {"bridge": bridge}, **tuning), Site("0a9f"))]
        for bridge in ("tap", "vfio")
    }
    assert len(titles["tap"]) == 4
    assert titles["vfio"] == []
