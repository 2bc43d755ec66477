"""One bridge with the test bed around it, as a scenario has it, without starting its guests."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from latlab.scenario import Scenario
from latlab.testbed.apply import TestBed
from latlab.testbed.bridges.base import Joint
from latlab.testbed.bridges.joints import joints
from latlab.testbed.bridges.table import BRIDGES
from latlab.testbed.guests.steps import folder_steps
from latlab.testbed.host_setup import namespace_steps
from latlab.testbed.links import link_steps
from latlab.testbed.machine import Machine, read_machine
from latlab.testbed.makers import make_hosts
from latlab.testbed.site import STATE, Site
from latlab.testbed.step import Service, Step
from latlab.testbed.undo import clean_stale
from support.machine import run, scenario, settled, until_it_is
from support.programs import PROGRAMS

TAG = f"b{os.getpid() % 0x1000:03x}"
"""Of this process alone: tests run side by side."""
GUEST = PROGRAMS / "guest_on_a_tap.py"
ECHO = PROGRAMS / "echo.py"
CAPTURED = Path(__file__).parents[2] / "testbed/bridges/captured"


PLAIN: Mapping[str, Any] = {"period": "1ms", "size": "64B"}
TAGGED: Mapping[str, Any] = {**PLAIN, "transport": "ethernet", "vlan": 5}


def with_guest(kind: str, stream: Mapping[str, Any] = PLAIN, **guest: Any) -> Scenario:
    """Two namespaces, a cable between them, and a guest beyond the second."""
    return scenario(
        {"sensor": "netns", "ecu": "netns"},
        [{"ends": ["sensor.eth0", "ecu.nic"]}],
        guests={"vm1": {"host": "ecu", "uplink": "nic", "bridge": kind, **guest}},
        streams={"control": {"talker": "sensor", "listener": "vm1", **stream}},
    )


def on_a_cable(kind: str, stream: Mapping[str, Any] = PLAIN, talker: str = "ecu") -> Scenario:
    """This machine alone, with a cable between two interfaces that are there already; a guest on one of them."""
    return scenario(
        {"ecu": "local", "plc": "local"},
        [{"ends": ["plc.far", "ecu.near"]}],
        guests={"vm1": {"host": "ecu", "uplink": "near", "bridge": kind}},
        streams={"control": {"talker": talker, "listener": "vm1", **stream}},
    )


def lay_cable() -> None:
    """The cable that is there already, up: the kernel takes up to a second to see that both ends are."""
    run("ip", "link", "add", "near", "type", "veth", "peer", "name", "far")
    for end in ("near", "far"):
        # An address of its own would be tentative for a second or two: another state each time one looks.
        run("ip", "link", "set", end, "addrgenmode", "none")
        run("ip", "link", "set", end, "up")
    for end in ("near", "far"):
        until_it_is(end)


def joint_of(made: Scenario) -> Joint:
    """The only one."""
    (joint,) = joints(made, TAG)
    return joint


def site_of(logs: Path, machine: Machine | None = None) -> Site:
    """Here, or on the machine given."""
    return Site(TAG, machine=machine or read_machine(), logs=str(logs))


def real_site(kind: str, logs: Path, machine: Machine | None = None) -> Site:
    """Here, or on the machine given, where such a bridge can be made: `make test` has installed what that takes."""
    site = site_of(logs, machine)
    missing = BRIDGES[kind].lacking(joint_of(with_guest(kind)), site)
    assert missing is None, f"{missing.what}: {missing.remedy}"
    return site


def bridge_steps(made: Scenario, site: Site) -> list[Step | Service]:
    """Everything up to the guests."""
    joint = joint_of(made)
    before: list[Step | Service] = [*namespace_steps(made, site), *link_steps(made, site), *folder_steps(made, site)]
    return [*before, *BRIDGES[joint.kind].before_guests(joint, site)]


async def build(made: Scenario, site: Site) -> TestBed:
    """The test bed, standing."""
    bed = TestBed(TAG, make_hosts(made, site))
    await bed.apply(bridge_steps(made, site))
    return bed


async def plug_in(bed: TestBed, made: Scenario) -> None:
    """The stand-in of the only guest is on its tap; it goes with the test bed."""
    (port,) = joint_of(made).ports
    tap = f"ll{TAG}t{port.number}"
    guest = await bed.spawn(bed.hosts["ecu"], "the guest", (sys.executable, str(GUEST), tap))
    assert await guest.stdout.readline() == b"plugged in\n"


async def comes_back(bed: TestBed, made: Scenario, host: str, size: int = 1024) -> str:
    """What a UDP packet of that many bytes from the host to the guest makes of its way."""
    (port,) = joint_of(made).ports
    argv = (sys.executable, str(ECHO), str(port.address.ip), str(size))
    return (await bed.hosts[host].run(argv)).stdout.strip()


async def reaches_its_guest(bed: TestBed, made: Scenario) -> None:
    """Nothing; the only guest has answered the host beyond the cable, and its own."""
    await plug_in(bed, made)
    for host in ("sensor", "ecu"):
        assert await comes_back(bed, made, host) == "came back", host


async def killed(bed: TestBed, *, with_switch: bool) -> list[str]:
    """What was undone in words, after the lab was killed, and the daemons of its switch with it or not."""
    if with_switch:
        for pid in switch_pids(bed).values():
            os.kill(pid, signal.SIGKILL)
    bed._journal.close()
    return await clean_stale()


def assert_no_trace(before: Mapping[str, Any], journals: Path) -> None:
    """Nothing; interfaces are as they were (`dump`), and neither folder nor journal is left."""
    assert settled(dict(before)) == before
    assert not Path(STATE, TAG).exists()
    assert list(journals.iterdir()) == []


def switch_pids(bed: TestBed) -> Mapping[str, int]:
    """The daemons' pids by their titles."""
    found = {}
    for running in bed._services.values():
        assert isinstance(running.process.process, asyncio.subprocess.Process)
        found[running._service.title] = running.process.process.pid
    return found
