"""Guests of one kind go on from one snapshot, and only the first of them is booted for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from latlab.scenario import Scenario, parse
from latlab.testbed.guests import guest_steps
from latlab.testbed.guests.start import start_conditions, unbuilt_image
from latlab.testbed.machine import assumed_machine
from latlab.testbed.site import Site


def with_guests(**guests: dict[str, Any]) -> Scenario:
    """Guests by name behind the same uplink."""
    found = parse(
        {
            "name": "guests",
            "hosts": {"sensor": {"kind": "netns"}, "ecu": {"kind": "netns"}},
            "links": [{"ends": ["sensor.eth0", "ecu.eth0"]}],
            "guests": {name: {"host": "ecu", "uplink": "eth0", **given} for name, given in guests.items()},
            "streams": {"down": {"talker": "sensor", "listener": "vm1", "period": "1ms", "size": "64B"}},
            "duration": "1s",
        }
    ).scenario
    assert found
    return found


def titles(scenario: Scenario) -> list[str]:
    """What is done to start the guests."""
    image = unbuilt_image("debian-cloud")
    site = Site("t1", machine=replace(assumed_machine(), say=lambda argv: "QEMU emulator version 7.2.22"))
    site = replace(site, images={image.name: image})
    site = replace(site, **start_conditions(scenario, site))
    return [step.title for step in guest_steps(scenario, site) if step.title.startswith(("boot ", "start ", "save "))]


def test_the_first_of_a_kind_is_booted_and_kept() -> None:
    assert titles(with_guests(vm1={}, vm2={})) == [
        "boot vm1 for its snapshot",
        "save vm1 as it is now: this and later runs start from this snapshot",
        "start vm1",
        "start vm2",
    ]


def test_one_of_another_kind_is_booted_for_its_own() -> None:
    booted = [title for title in titles(with_guests(vm1={}, vm2={"vcpus": 2})) if title.startswith("boot")]
    assert booted == ["boot vm1 for its snapshot", "boot vm2 for its snapshot"]


def test_a_snapshot_is_of_one_machine_with_its_options() -> None:
    scenario = with_guests(vm1={})
    image = unbuilt_image("debian-cloud")
    machine = replace(assumed_machine(), say=lambda argv: "QEMU emulator version 7.2.22")
    keys = set()
    for architecture in ("x86_64", "aarch64"):
        site = replace(Site("t1", machine=replace(machine, architecture=architecture)), images={image.name: image})
        keys.add(start_conditions(scenario, site)["snapshots"]["vm1"])
    assert len(keys) == 2


def test_nobody_is_booted_once_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latlab.testbed.guests.steps.is_whole", lambda path: isinstance(path, Path))
    assert titles(with_guests(vm1={}, vm2={})) == ["start vm1", "start vm2"]
