"""What strips VLAN tags before XDP sees a frame is turned off for as long as a bridge needs the tags."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from latlab.model.errors import LabError
from latlab.scenario import Scenario
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.bridges.table import BRIDGES
from latlab.testbed.machine import assumed_machine
from latlab.testbed.site import Site
from latlab.testbed.step import Step
from support.machine import dump, run
from support.testbed.bridges import (
    PLAIN,
    TAG,
    TAGGED,
    assert_no_trace,
    build,
    joint_of,
    killed,
    lay_cable,
    on_a_cable,
    real_site,
    with_guest,
)

TITLE = "have near keep VLAN tags in received frames"
BEFORE_THE_STACK = ("xdp", "ovs-afxdp")
# Of ethtool 6.1, of a veth; tests put what it says of other devices in the place of `{}`.
FEATURES = """\
Features for near:
rx-checksumming: on
tx-vlan-offload: on
rx-vlan-offload: {}
rx-vlan-filter: off [fixed]
rx-vlan-stag-hw-parse: on
"""


def from_afar(kind: str, stream: Any = TAGGED) -> Scenario:
    """A stream to the guest from beyond an uplink that is there already."""
    return on_a_cable(kind, stream, talker="plc")


def tag_steps(made: Scenario) -> Iterator[Step]:
    joint = joint_of(made)
    for step in BRIDGES[joint.kind].before_guests(joint, Site(TAG, machine=assumed_machine())):
        if isinstance(step, Step) and "rxvlan" in step.do:
            yield step


def lacking(made: Scenario, said: str | None, *, ethtool: bool = True) -> LabError | None:
    """What is missing where all else is to be had; said: what `ethtool -k` says of the stripping, None if nothing."""
    machine = replace(
        assumed_machine(),
        has_tool=lambda tool: tool != "ethtool" or ethtool,
        read={"/proc/net/protocols": "XDP 1088 0\n"}.get,
        say=lambda argv: FEATURES.format(said) if argv == ("ethtool", "-k", "near") and said else None,
    )
    joint = joint_of(made)
    return BRIDGES[joint.kind].lacking(joint, Site(TAG, machine=machine))


@pytest.mark.parametrize("kind", BEFORE_THE_STACK)
def test_a_card_under_streams_with_tags_leaves_them_in_its_frames_and_is_set_back(kind: str) -> None:
    (step,) = tag_steps(from_afar(kind))
    assert (step.host, step.title, step.do) == ("ecu", TITLE, ("ethtool", "-K", "near", "rxvlan", "off"))
    assert step.before and step.before.argv == ("ethtool", "-k", "near")
    assert step.before.read(FEATURES.format("on")) == {"before": "on"}
    assert step.undo == ("ethtool", "-K", "near", "rxvlan", "{before}")
    assert step.check and step.lasting
    read = {said: step.check.read(FEATURES.format(said)) for said in ("on", "off", "off [fixed]", "on [fixed]")}
    assert read == {"on": "on", "off": step.check.expected, "off [fixed]": "off", "on [fixed]": "on"}
    assert step.check.read("Features for near:\n") == "off"


@pytest.mark.parametrize(
    "made",
    [
        *(from_afar(kind, PLAIN) for kind in BEFORE_THE_STACK),
        *(on_a_cable(kind, TAGGED) for kind in BEFORE_THE_STACK),
        *(with_guest(kind, TAGGED) for kind in BEFORE_THE_STACK),
        *(from_afar(kind) for kind in ("tap", "macvtap", "ovs")),
    ],
    ids=[
        *(f"no tags, {kind}" for kind in BEFORE_THE_STACK),
        *(f"from its own host, {kind}" for kind in BEFORE_THE_STACK),
        *(f"a cable made for the run, {kind}" for kind in BEFORE_THE_STACK),
        *("tap", "macvtap", "ovs"),
    ],
)
def test_what_needs_no_tags_from_a_card_leaves_it_as_it_is(made: Scenario) -> None:
    assert list(tag_steps(made)) == []


@pytest.mark.parametrize("kind", BEFORE_THE_STACK)
def test_of_a_card_that_always_strips_device_feature_and_remedy_are_named(kind: str) -> None:
    missing = lacking(from_afar(kind), "on [fixed]")
    assert missing
    assert missing.what.startswith("near strips VLAN tags") and "(rx-vlan-offload: on [fixed])" in missing.what
    assert "bridge: tap, macvtap or ovs" in missing.remedy
    assert lacking(from_afar(kind, PLAIN), "on [fixed]") is None
    (step,) = tag_steps(from_afar(kind))
    assert step.explain and step.explain.read(FEATURES.format("on")) == f"rx-vlan-offload is on there: {missing.remedy}"


@pytest.mark.parametrize("kind", BEFORE_THE_STACK)
@pytest.mark.parametrize("said", ["on", "off", "off [fixed]", None])
def test_any_other_card_can_be_used_where_there_is_ethtool(kind: str, said: str | None) -> None:
    assert lacking(from_afar(kind), said) is None
    missing = lacking(from_afar(kind), said, ethtool=False)
    assert missing and missing.what == "ethtool is missing"


@pytest.mark.real
@pytest.mark.parametrize("before", ["on", "off"])
@pytest.mark.parametrize("ends", ["undone", "killed"])
def test_the_interface_is_as_it_was_afterwards(
    tmp_path: Path, machine: None, journals: Path, before: str, ends: str
) -> None:
    lay_cable()
    run("ethtool", "-K", "near", "rxvlan", before)
    found, links = run("ethtool", "-k", "near"), dump()
    site = replace(real_site("xdp", tmp_path), agent=str(find_agent()))

    async def session() -> None:
        bed = await build(from_afar("xdp"), site)
        assert "\nrx-vlan-offload: off\n" in run("ethtool", "-k", "near")
        assert {again.title: again.actual for again in await bed.check_again()}[TITLE] == "off"
        if ends == "killed":
            await killed(bed, with_switch=False)
        else:
            async with bed:
                pass

    asyncio.run(session())
    assert run("ethtool", "-k", "near") == found
    assert_no_trace(links, journals)


SHOWN = "3: near: <BROADCAST,MULTICAST{},UP,LOWER_UP> mtu 1500 qdisc mq state UP mode DEFAULT\\    link/ether\n"


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (from_afar("macvtap"), True),
        (from_afar("macvtap", PLAIN), False),
        (with_guest("macvtap", TAGGED), False),
        (from_afar("tap"), False),
    ],
    ids=["macvtap", "no tags", "a cable made for the run", "a port of a bridge"],
)
def test_a_card_below_a_macvtap_takes_in_every_vlan_where_streams_have_tags(made: Scenario, wanted: bool) -> None:
    joint = joint_of(made)
    steps = [
        step
        for step in BRIDGES[joint.kind].before_guests(joint, Site(TAG, machine=assumed_machine()))
        if isinstance(step, Step) and "promisc" in step.do
    ]
    assert len(steps) == wanted
    for step in steps:
        assert step.do == ("ip", "link", "set", "dev", "near", "promisc", "on")
        assert step.before and step.before.read(SHOWN.format("")) == {"before": "off"}
        assert step.before.read(SHOWN.format(",PROMISC")) == {"before": "on"}
        assert step.check and step.check.read(SHOWN.format(",PROMISC")) == step.check.expected == "on"
