"""What is made on a card is taken away again, on a machine that outlives the lab: qdiscs, queues, VLANs, offloads."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import yaml

from latlab.hosts import MACHINE, Host, LocalMachine
from latlab.hosts.guest import GUEST_AGENT, BoardGuest
from latlab.model.errors import LabError
from latlab.scenario import load_scenario
from latlab.testbed.apply import TestBed
from latlab.testbed.bridges.joints import joints
from latlab.testbed.bridges.offloads import tags_in_frames
from latlab.testbed.host_setup import tai_steps
from latlab.testbed.machines.board import LOAD
from latlab.testbed.shapers import shaper_steps, transmit_queue_steps
from latlab.testbed.site import Site
from latlab.testbed.step import Step
from latlab.testbed.undo import clean_stale
from latlab.testbed.vlans import vlan_steps
from support.boards.beds import kept_board
from support.boards.place import BoardPlace

AS_FOUND = "modprobe igb && ethtool -L eth1 combined 2 && ip link set dev eth1 up"
OFTEN_SHAPED = """
name: shaped
hosts: {ecu: {kind: ssh}, far: {kind: ssh}}
links: [{ends: [ecu.eth1, far.eth0], subnet: 192.0.2.0/24}]
shapers:
  ecu.eth1:
    kind: taprio
    mode: software
    map: {7: 0, 5: 1}
    rest: 3
    gates: [{open: [0, 1], for: 101us}, {open: [1], for: 103us}, {open: [1, 2], for: 109us}, {open: [1, 3], for: 190us}]
streams: {control: {talker: ecu, listener: far, period: 1006us, size: 64B}}
duration: 1s
"""


def steps_of(text: str, folder: Path) -> list[Step]:
    """What shapes the interface of a scenario whose ecu is a separate machine."""
    path = folder / "shaped.yaml"
    path.write_text(text)
    (cell,) = load_scenario(path).combinations
    ecu = Site("f1a2", name="ecu", agent=GUEST_AGENT)
    site = Site("f1a2", others={"ecu": ecu})
    return [step for maker in (tai_steps, transmit_queue_steps, shaper_steps) for step in maker(cell.scenario, site)]


def vlan_steps_of(folder: Path) -> list[Step]:
    """The steps at ecu of a VLAN on the cable between two separate machines."""
    whole = yaml.safe_load(OFTEN_SHAPED)
    del whole["shapers"]
    whole["links"][0]["vlans"] = {5: {"egress": {7: 7}, "ingress": {7: 6}}}
    whole["streams"]["control"]["via"] = "ecu.eth1.5"
    path = folder / "tagged.yaml"
    path.write_text(yaml.safe_dump(whole))
    (cell,) = load_scenario(path).combinations
    places = {name: Site("f1a2", name=name, agent=GUEST_AGENT) for name in ("ecu", "far")}
    return [step for step in vlan_steps(cell.scenario, Site("f1a2", others=places)) if step.host == "ecu"]


def tag_steps_of(folder: Path) -> list[Step]:
    """The steps at ecu's card below a bridge whose frames must keep their tags."""
    whole = yaml.safe_load(OFTEN_SHAPED)
    del whole["shapers"]
    whole["guests"] = {"vm1": {"host": "ecu", "uplink": "eth1", "bridge": "xdp"}}
    whole["streams"]["control"] = {"talker": "far", "listener": "vm1", "period": "1ms", "size": "64B", "vlan": 5}
    path = folder / "bridged.yaml"
    path.write_text(yaml.safe_dump(whole))
    (cell,) = load_scenario(path).combinations
    (joint,) = joints(cell.scenario, "f1a2")
    return tags_in_frames(joint)


async def found(board: BoardGuest) -> tuple[object, str]:
    """The card's qdiscs and numbers of queues."""
    qdiscs = json.loads((await board.run(("tc", "-j", "qdisc", "show", "dev", "eth1"))).stdout)
    return qdiscs, (await board.run(("ethtool", "-l", "eth1"))).stdout


def test_a_cards_qdiscs_and_queues_come_back_and_somebody_elses_are_left_alone(
    place: BoardPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LATLAB_STATE", str(tmp_path / "journal"))
    booted = place.board_scenario(
        hosts={
            "board1": {"kind": "board", "nics": 2, "cpus": 2},
            "sensor": {"kind": "netns", "on": "board1", "cards": ["eth0"]},
        },
        links=[{"ends": ["sensor.eth0", "board1.eth1"]}],
        streams={"in": {"talker": "sensor", "listener": "board1", "period": "1ms", "size": "64B"}},
    )
    (cell,) = load_scenario(booted).combinations
    steps = steps_of(OFTEN_SHAPED, tmp_path)
    offloaded = yaml.safe_load(OFTEN_SHAPED)
    offloaded["shapers"]["ecu.eth1"] |= {"mode": "offload"}
    refused = steps_of(yaml.safe_dump(offloaded), tmp_path)

    async def session(board: BoardGuest) -> None:
        hosts: dict[str, Host] = {MACHINE: LocalMachine(MACHINE), "ecu": board}

        async def fails(asked: list[Step]) -> LabError:
            with pytest.raises(LabError) as caught:
                async with TestBed("f1a2", hosts) as bed:
                    await bed.apply(asked)
            assert await found(board) == before
            return caught.value

        await board.run(("sh", "-c", f"{LOAD}\n{AS_FOUND}"))
        before = await found(board)
        assert json.dumps(before[0]).count("8001:") == 0 and "Combined:\t2" in before[1]

        untold = await fails(steps)
        assert "0 s: the kernel's TAI offset is not set" in untold.what
        assert "latlab-agent tai --set 37`" in untold.remedy
        await board.run((GUEST_AGENT, "tai", "--set", "37"))

        async with TestBed("f1a2", hosts) as bed:
            results = await bed.apply(steps)
            assert all(result.ok for result in results)
            qdiscs, queues = await found(board)
            assert json.dumps(qdiscs).count('"taprio"') == 1 and "Combined:\t4" in queues
            assert [again.ok for again in await bed.check_again()] == [True]
        assert await found(board) == before

        # What a lab that was killed has left is found in its journal.
        killed = TestBed("f1a2", hosts)
        await killed.apply(steps)
        killed._journal.close()
        assert await found(board) != before
        assert any("taprio shapes ecu.eth1" in line for line in await clean_stale())
        assert await found(board) == before

        no = await fails(refused)
        assert "Device failed to setup taprio offload." in no.what
        assert "driver igb" in no.remedy and "mode: txtime-assist or mode: software" in no.remedy

        await board.run(("tc", "qdisc", "add", "dev", "eth1", "root", "handle", "1:", "pfifo"))
        before = await found(board)
        taken = await fails(steps)
        assert "actual 'pfifo 1:'" in taken.what and "`tc qdisc del dev eth1 root`" in taken.remedy

    vlans = vlan_steps_of(tmp_path)

    async def links(board: BoardGuest) -> list[tuple[str, list[str]]]:
        """The machine's interfaces, with their addresses."""
        listed = json.loads((await board.run(("ip", "-j", "addr"))).stdout)
        return [(link["ifname"], [one["local"] for one in link["addr_info"]]) for link in listed]

    async def vlan_session(board: BoardGuest) -> None:
        hosts: dict[str, Host] = {MACHINE: LocalMachine(MACHINE), "ecu": board}
        before = await links(board)

        async def fails() -> LabError:
            there = await links(board)
            with pytest.raises(LabError) as caught:
                async with TestBed("f1a2", hosts) as bed:
                    await bed.apply(vlans)
            assert await links(board) == there
            return caught.value

        async with TestBed("f1a2", hosts) as bed:
            assert all(result.ok for result in await bed.apply(vlans))
            assert ("eth1.5", ["10.80.0.1"]) in await links(board)
            assert [(one.actual, one.ok) for one in await bed.check_again()] == [
                ("VLAN 5 of eth1; egress 7:7; ingress 7:6", True)
            ]
        assert await links(board) == before

        # What a lab that was killed has left is found in its journal.
        killed = TestBed("f1a2", hosts)
        await killed.apply(vlans)
        killed._journal.close()
        assert await links(board) != before
        assert any("make the VLAN interface ecu.eth1.5" in line for line in await clean_stale())
        assert await links(board) == before

        # One that others have made since is not latlab's, whatever its name.
        killed = TestBed("f1a2", hosts)
        await killed.apply(vlans)
        killed._journal.close()
        theirs = ("ip", "link", "add", "link", "eth1", "name", "eth1.5", "type", "vlan", "id")
        await board.run(("ip", "link", "del", "dev", "eth1.5"))
        await board.run((*theirs, "6"))
        await clean_stale()
        assert ("eth1.5", []) in await links(board)
        taken = await fails()
        assert "ecu has no interface eth1.5 yet: it exists already, and this run did not make it" in taken.what
        await board.run(("ip", "link", "del", "dev", "eth1.5"))

        await board.run((*theirs[:6], "theirs", *theirs[7:], "5"))
        taken = await fails()
        assert taken.remedy == "eth1 has VLAN 5 already, as theirs: another VLAN id, or `ip link del dev theirs`"
        await board.run(("ip", "link", "del", "dev", "theirs"))

    tags = tag_steps_of(tmp_path)

    async def tag_session(board: BoardGuest) -> None:
        hosts: dict[str, Host] = {MACHINE: LocalMachine(MACHINE), "ecu": board}

        async def features() -> str:
            return (await board.run(("ethtool", "-k", "eth1"))).stdout

        before = await features()
        assert "rx-vlan-offload: on\ntx-vlan-offload: on\n" in before
        for end in ("undone", "killed"):
            bed = TestBed("f1a2", hosts)
            assert [result.actual for result in await bed.apply(tags)] == ["off"]
            # This card does both or neither (kernel: igb_fix_features).
            assert "rx-vlan-offload: off\ntx-vlan-offload: off [requested on]\n" in await features()
            if end == "undone":
                await bed.undo_all()
            bed._journal.close()
            await clean_stale()
            assert await features() == before, end

    with kept_board(cell.scenario, tmp_path) as (board, _):
        asyncio.run(session(board))
        asyncio.run(tag_session(board))
        asyncio.run(vlan_session(board))
