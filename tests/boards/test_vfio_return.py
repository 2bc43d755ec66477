"""A card that VFIO had is its driver's again, and its interface as it was: on a machine that outlives the guest."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from latlab.hosts import MACHINE, LocalMachine
from latlab.hosts.guest import BoardGuest
from latlab.scenario import load_scenario
from latlab.testbed.apply import TestBed
from latlab.testbed.bridges.joints import joints
from latlab.testbed.bridges.vfio import Vfio
from latlab.testbed.machine import machine_at
from latlab.testbed.machines.board import LOAD
from latlab.testbed.site import Site
from support.boards.beds import kept_board
from support.boards.place import BoardPlace

AS_FOUND = """
modprobe igb
ip addr add 192.0.2.1/24 dev eth1
ip link set dev eth1 mtu 1400 up
"""


def test_a_card_comes_back_to_its_driver_with_its_state_mtu_and_addresses(
    place: BoardPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LATLAB_STATE", str(tmp_path / "journal"))
    scenario_file = place.board_scenario(
        hosts={
            "board1": {"kind": "board", "nics": 2, "memory": "1536MiB"},
            "sensor": {"kind": "netns", "on": "board1", "cards": ["eth0"]},
        },
        links=[{"ends": ["sensor.eth0", "board1.eth1"]}],
        guests={"vm1": {"host": "board1", "uplink": "eth1", "bridge": "vfio"}},
        streams={"in": {"talker": "sensor", "listener": "vm1", "period": "1ms", "size": "64B"}},
    )
    (cell,) = load_scenario(scenario_file).combinations
    scenario = cell.scenario

    async def session(board: BoardGuest, site: Site) -> None:
        await board.run(("sh", "-c", LOAD + AS_FOUND))
        before = await found(board)
        assert before["driver"] == "igb" and before["mtu"] == 1400 and "UP" in before["flags"]
        (joint,) = joints(scenario, "t1")
        machine = await asyncio.to_thread(machine_at, board)
        there = replace(site.on("board1"), machine=machine)
        assert Vfio().lacking(joint, there) is None
        async with TestBed("t1", {MACHINE: LocalMachine(MACHINE), "board1": board}) as bed:
            await bed.apply(Vfio().before_guests(joint, there))
            assert (await found(board))["driver"] == "vfio-pci"
        assert await found(board) == before

    with kept_board(scenario, tmp_path) as (board, site):
        asyncio.run(session(board, site))


async def found(board: BoardGuest) -> dict[str, Any]:
    """The card's driver, and of its interface, where it is there, what its owner sees of it."""
    driver = (await board.run(("readlink", "/sys/bus/pci/devices/0000:02:00.0/driver"))).stdout.strip()
    shown = (await board.run(("ip", "-j", "addr", "show", "dev", "eth1"), check=False)).stdout
    (interface,) = json.loads(shown or "[{}]")
    addresses = [one["local"] for one in interface.get("addr_info", ()) if one["scope"] == "global"]
    flags = {"UP"} & set(interface.get("flags", ()))
    return {"driver": Path(driver).name, "mtu": interface.get("mtu"), "flags": flags, "addresses": addresses}
