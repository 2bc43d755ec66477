"""Which bridges a running domain of libvirt can be joined to: those whose device for a guest it can be given."""

from __future__ import annotations

import pytest

from latlab.model.bridges import KINDS
from latlab.testbed.bridges.table import BRIDGES
from latlab.testbed.guests.libvirt import domain_lacking
from latlab.testbed.machine import assumed_machine
from latlab.testbed.site import Site
from support.machine import scenario
from support.testbed.bridges import PLAIN, TAG, joint_of, with_guest

TAKING = [name for name, kind in KINDS.items() if kind.takes_domains]


def refused(kind: str) -> list[str]:
    """What keeps a domain from being at such a bridge."""
    domain = {"domain": "plc", "ssh": {"destination": "root@plc.lan"}}
    made = scenario(
        {"sensor": "netns", "ecu": "local"},
        [{"ends": ["sensor.eth0", "ecu.nic"]}],
        guests={"vm1": {"host": "ecu", "uplink": "nic", "bridge": kind, **domain}},
        streams={"control": {"talker": "sensor", "listener": "vm1", **PLAIN}},
    )
    found = domain_lacking(made, Site(TAG, machine=assumed_machine()))
    return [one.remedy for one in found if one.where == "guests.vm1.bridge"]


@pytest.mark.parametrize("kind", TAKING)
def test_a_bridge_that_takes_domains_has_a_device_for_each(kind: str) -> None:
    joint = joint_of(with_guest(kind))
    device = BRIDGES[kind].port_device(joint.ports[0], Site(TAG))
    assert device and TAG in device
    assert refused(kind) == []


@pytest.mark.parametrize("kind", ["user", "ovs-afxdp"])
def test_another_one_is_refused_with_those_that_do(kind: str) -> None:
    assert refused(kind) == [f"one of {', '.join(TAKING)}; or a kernel or disk"]
