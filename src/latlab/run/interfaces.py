"""What the agents' specs need to know of a cell's interfaces: their MACs, and which of them stamp in hardware."""

from __future__ import annotations

import json

from latlab.hosts import Host
from latlab.run.specs import Bed
from latlab.scenario import BoardHost, End, Scenario
from latlab.testbed.apply import TestBed
from latlab.testbed.places import Places
from latlab.testbed.timestamping import hardware_stamps_step, parse_timestamping


async def look_at_interfaces(scenario: Scenario, bed: TestBed, places: Places) -> Bed:
    """The interfaces that recorded packets begin and end at; hardware stamping is turned on where a NIC has it."""
    macs: dict[str, str] = {}
    able: dict[End, bool] = {}
    hardware: set[str] = set()
    for name in scenario.recorded:
        route = scenario.route(name)
        for end in (route.talker_end, route.listener_end):
            if str(end) not in macs:
                device = places.device(end)
                macs[str(end)] = await _mac(bed.hosts[end.host], device)
                # What stamps is below a VLAN interface; a bridge that stands for an end has nothing below.
                card = End(end.host, scenario.parent_of(end).interface if device == end.interface else device)
                if card not in able:
                    able[card] = await _turn_hardware_stamps_on(card, scenario, bed)
                if able[card]:
                    hardware.add(str(end))
    return Bed(macs, frozenset(hardware), places)


async def _turn_hardware_stamps_on(card: End, scenario: Scenario, bed: TestBed) -> bool:
    host = scenario.hosts.get(card.host)
    if isinstance(host, BoardHost):
        # QEMU's cards say that they stamp packets: e1000e never does, and igb only what is a message of PTP.
        return False
    said = await bed.hosts[card.host].run(("ethtool", "-T", card.interface), check=False)
    if said.returncode != 0:
        return False
    step = hardware_stamps_step(card.host, card.interface, parse_timestamping(said.stdout))
    if step is None:
        return False
    await bed.apply([step])
    return True


async def _mac(host: Host, device: str) -> str:
    found = json.loads((await host.run(("ip", "-j", "link", "show", "dev", device))).stdout)
    return str(found[0]["address"])
