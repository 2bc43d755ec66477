"""Hardware timestamps are switched on at the card that packets leave by: of a VLAN interface, at the one below it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from latlab.run.agents import look_at_interfaces
from latlab.run.specs import BedFacts
from latlab.scenario import End, Scenario
from latlab.testbed.apply import TestBed
from latlab.testbed.places import Places
from latlab.testbed.step import Step

ABLE = (Path(__file__).parents[1] / "testbed" / "captured" / "ethtool-igc.txt").read_text()


class StandIn:
    """A host whose cards all stamp; asked: the interfaces about which it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def run(self, argv: Sequence[str], **_: Any) -> SimpleNamespace:
        """What the tool would have said."""
        if argv[0] == "ethtool":
            self.asked.append(argv[-1])
            return SimpleNamespace(returncode=0, stdout=ABLE)
        return SimpleNamespace(returncode=0, stdout=json.dumps([{"address": "02:00:00:00:00:01"}]))


def looked_at(small: Scenario, places: Places) -> tuple[BedFacts, list[str], list[str]]:
    """What the specs have, the interfaces asked about at the talker, and the titles of the steps."""
    hosts, steps = {name: StandIn() for name in small.hosts}, list[Step]()

    async def apply(more: Sequence[Step]) -> list[SimpleNamespace]:
        steps.extend(more)
        return [SimpleNamespace(ok=True) for _ in more]

    bed = cast(TestBed, SimpleNamespace(hosts=hosts, apply=apply))
    found = asyncio.run(look_at_interfaces(small, bed, places))
    return found, hosts["sensor"].asked, [f"{step.host}: {step.title}" for step in steps]


def test_the_card_below_a_vlan_interface_stamps_and_is_switched_once(scenario: Callable[..., Scenario]) -> None:
    stream = {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B"}
    small = scenario(
        links=[{"ends": ["sensor.eth0", "ecu.eth1"], "vlans": {"5": {}}}],
        streams={"tagged": stream | {"via": "sensor.eth0.5"}, "plain": stream | {"via": "sensor.eth0"}},
    )
    bed, asked, steps = looked_at(small, Places())
    assert asked == ["eth0"]
    assert steps == [
        "sensor: have eth0 stamp every packet in hardware",
        "ecu: have eth1 stamp every packet in hardware",
    ]
    assert bed.hardware == {"sensor.eth0", "sensor.eth0.5", "ecu.eth1", "ecu.eth1.5"}


def test_a_bridge_that_stands_for_an_interface_is_what_is_asked(scenario: Callable[..., Scenario]) -> None:
    stream = {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B"}
    small = scenario(
        links=[{"ends": ["sensor.eth0", "ecu.eth1"], "vlans": {"5": {}, "6": {}}}],
        streams={
            "plain": stream | {"via": "sensor.eth0"},
            "five": stream | {"via": "sensor.eth0.5"},
            "six": stream | {"via": "sensor.eth0.6"},
        },
    )
    bridges = {End("sensor", "eth0"): "br0", End("sensor", "eth0.6"): "br6"}
    _, asked, _ = looked_at(small, Places(devices=bridges))
    assert asked == ["br0", "eth0", "br6"]
