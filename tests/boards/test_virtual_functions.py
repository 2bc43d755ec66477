"""Virtual functions of an emulated card: made, set, handed over and gone again; and packets through one to a guest."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from latlab.hosts import MACHINE, LocalMachine
from latlab.hosts.guest import BoardGuest
from latlab.scenario import load_scenario
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.apply import TestBed
from latlab.testbed.bridges.joints import joints
from latlab.testbed.bridges.vf import Vf
from latlab.testbed.images import build_image
from latlab.testbed.machine import machine_at
from latlab.testbed.machines.board import LOAD
from latlab.testbed.site import Site
from support.boards.beds import kept_board
from support.boards.place import BoardPlace
from support.command import cells_of

SHIPPED = Path(__file__).parents[2] / "scenarios" / "bridges-board.yaml"
IMAGE, RELEASE = "vf-board", "trixie"
"""A board by a QEMU whose igb has virtual functions with a link."""
CARD, FIRST = "0000:02:00.0", "0000:02:10.0"
SLOW_S = 120
"""For loading drivers on a board that has little of a busy machine."""
AS_FOUND = """
modprobe igb
ip addr add 192.0.2.1/24 dev eth1
ip link set dev eth1 up
for again in $(seq 100); do [ "$(cat /sys/class/net/eth1/operstate)" = up ] && break; sleep 0.2; done
"""
# The driver of a virtual function waits for an answer of the card's, which it may keep from its CPU.
ANSWERED_ELSEWHERE = """
for one in $(sed -n 's/^ *\\([0-9]*\\):.* eth1.*/\\1/p' /proc/interrupts); do
    echo 2 >/proc/irq/$one/smp_affinity || :
done
"""


@pytest.fixture(scope="session")
def with_functions(cache: Path) -> None:
    """The image of boards whose cards' functions work is there."""
    with mock.patch.dict(os.environ, LATLAB_CACHE=str(cache)):
        build_image(IMAGE, agent=find_agent(), kind="board", emulator_from=RELEASE)


def test_functions_are_made_set_and_handed_over_and_are_gone_again(
    place: BoardPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LATLAB_STATE", str(tmp_path / "journal"))
    on_it = {"host": "board1", "bridge": "vf"}
    scenario_file = place.board_scenario(
        hosts={
            "board1": {"kind": "board", "nics": 2, "cpus": 2, "memory": "1536MiB"},
            "sensor": {"kind": "netns", "on": "board1", "cards": ["eth0"]},
        },
        links=[{"ends": ["sensor.eth0", "board1.eth1"], "vlans": {5: {"egress": {0: 3}}}}],
        guests={
            "vm1": {**on_it, "uplink": "eth1", "vf": {"trust": True}},
            "vm2": {**on_it, "uplink": "eth1.5", "vf": {"by": "macvtap"}},
        },
        streams={"in": {"talker": "sensor", "listener": "vm1", "period": "1ms", "size": "64B"}},
    )
    (cell,) = load_scenario(scenario_file).combinations
    scenario = cell.scenario

    async def session(board: BoardGuest, site: Site) -> None:
        await board.run(("sh", "-c", LOAD + AS_FOUND + ANSWERED_ELSEWHERE), timeout_s=SLOW_S)
        before = await found(board)
        assert before["functions"] == [] and before["autoprobe"] == "1"
        machine = await asyncio.to_thread(machine_at, board)
        there = replace(site.on("board1"), machine=machine)
        plain, tagged = joints(scenario, "t1")
        async with TestBed("t1", {MACHINE: LocalMachine(MACHINE), "board1": board}) as bed:
            await board.run(("mkdir", "-p", there.guest_state("vm2")))
            for joint in (plain, tagged):
                assert Vf().lacking(joint, there) is None
                await bed.apply(Vf().before_guests(joint, there))
            made = await found(board)
            assert made["functions"] == [
                {"mac": plain.ports[0].mac, "vlan": 0, "qos": 0, "trust": True, "spoofchk": True},
                {"mac": tagged.ports[0].mac, "vlan": 5, "qos": 3, "trust": False, "spoofchk": True},
            ]
            assert made["driver"] == "vfio-pci"
            macvtap = json.loads((await board.run(("ip", "-d", "-j", "link", "show", "type", "macvtap"))).stdout)
            assert [one["linkinfo"]["info_data"]["mode"] for one in macvtap] == ["passthru"]
            assert [one["address"] for one in macvtap] == [tagged.ports[0].mac]
            another = replace(there, machine=await asyncio.to_thread(machine_at, board))
            missing = Vf().lacking(plain, another)
            assert missing and "2 virtual functions already" in missing.what
        assert await found(board) == before

    with kept_board(scenario, tmp_path) as (board, site):
        asyncio.run(session(board, site))


async def found(board: BoardGuest) -> dict[str, Any]:
    """The card's functions, and what its owner sees of it; the driver of the first function."""
    at = f"/sys/bus/pci/devices/{CARD}"
    (interface,) = json.loads((await board.run(("ip", "-j", "addr", "show", "dev", "eth1"))).stdout)
    (link,) = json.loads((await board.run(("ip", "-j", "link", "show", "dev", "eth1"))).stdout)
    autoprobe = (await board.run(("cat", f"{at}/sriov_drivers_autoprobe"))).stdout.strip()
    driver = await board.run(("readlink", f"/sys/bus/pci/devices/{FIRST}/driver"), check=False)
    queues = (await board.run(("sh", "-c", "ethtool -l eth1 | tail -n 2"))).stdout.split()
    return {
        "functions": [_function(one) for one in link.get("vfinfo_list", ())],
        "autoprobe": autoprobe,
        "driver": Path(driver.stdout.strip()).name,
        "queues": queues,
        "addresses": [one["local"] for one in interface["addr_info"] if one["scope"] == "global"],
        "up": "UP" in interface["flags"],
    }


def _function(one: dict[str, Any]) -> dict[str, Any]:
    vlan = next(iter(one.get("vlan_list", ())), one)
    return {
        "mac": one.get("address", one.get("mac")),
        "vlan": vlan.get("vlan", 0),
        "qos": vlan.get("qos", 0),
        "trust": one["trust"],
        "spoofchk": one["spoofchk"],
    }


@pytest.mark.long
@pytest.mark.usefixtures("with_functions")
def test_every_packet_reaches_a_guest_through_its_function_and_leaves_it_in_every_repetition_idle_and_loaded(
    place: BoardPlace,
) -> None:
    text = SHIPPED.read_text()
    whole = "[tap, macvtap, xdp, ovs, ovs-afxdp, vfio, user]\n  loads: [none, load-down]\nrepeat: 4"
    for was, becomes in (
        (whole, "[vf]\n  guests.vm1.vf.by: [vfio, macvtap]\n  loads: [none, load-down]\nrepeat: 2"),
        ("time: virtual, ", f"time: virtual, image: {IMAGE}, "),
        ("duration: 600ms", "duration: 300ms"),
    ):
        assert was in text
        text = text.replace(was, becomes)
    path = place.folder / "small.yaml"
    path.write_text(text)
    before = place.trace()
    ended = place.start("run", path).ended()
    assert ended.status == 0, ended.err + ended.out
    assert place.trace() == before
    for cell in cells_of(place.only_run()).values():
        (bridge,) = cell["bridges"]
        by = cell["cell"]["guests.vm1.vf.by"]
        assert bridge["kind"] == "vf" and f"{FIRST} by {by} for vm1" in bridge["detail"]
        read = {step["title"]: step["actual"] for step in cell["steps"]}
        assert read["make virtual functions of eth1: 1"] == "1"
        assert {again["actual"] for again in cell["rechecks"] if "virtual function" in again["title"]} >= {"on", "off"}
    result = json.loads((place.only_run() / "result.json").read_text())
    assert (result["verdict"], result["reasons"]) == ("trusted", [])
    counts = [stream["counts"] for one in result["cells"] for stream in one["streams"].values()]
    assert all(one["received"] == one["sent"] > 250 for one in counts) and len(counts) == 2 * 2 * 2 * 2
