"""What guests cannot be, and what a mistake in one leaves unsaid of the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from latlab.scenario import BRIDGES

Said = Callable[[dict[str, Any]], list[str]]

ECU = {"host": "ecu", "uplink": "eth0"}
STREAM = {"talker": "sensor", "listener": "vm1", "period": "1ms", "size": "64B"}
KERNEL = {"kernel": "/boot/vmlinuz", "ssh": {"user": "root"}}
DOMAIN = {"domain": "vm", "ssh": {"destination": "root@vm"}}
LOCAL = {"hosts.sensor.kind": "local", "hosts.ecu.kind": "local", "links.0.ends": ["sensor.p1", "ecu.p2"]}
SECOND_LINK = {"links.1": {"ends": ["sensor.eth1", "ecu.eth1"]}, "streams.control.via": "sensor.eth0", "loads": {}}


def guests(**given: Any) -> dict[str, Any]:
    """Values that put guests into the base scenario."""
    return {f"guests.{name}": guest for name, guest in given.items()}


WRONG: list[tuple[dict[str, Any], str]] = [
    # what is put into the base scenario, what is said, all of it
    (guests(ecu=ECU), "guests.ecu: ecu is a host already; expected a different name"),
    (guests(vm1={"host": "ecuu"}), "guests.vm1.host: unknown host 'ecuu'; expected ecu? (known: sensor, ecu)"),
    (
        guests(vm1=ECU, vm2={"host": "vm1"}),
        "guests.vm2.host: unknown host 'vm1'; expected one of sensor, ecu",
    ),
    (
        guests(vm1=ECU | {"image": "debian-rt", "disk": "a.img", "ssh": {}}),
        "guests.vm1.disk: disk together with image; expected one of image, kernel, disk and domain",
    ),
    (
        guests(vm1=ECU | {"initrd": "/i"}),
        "guests.vm1.initrd: an initrd needs a kernel; expected a kernel in addition",
    ),
    (
        guests(vm1=ECU | {"disk": "a.img", "append": "quiet", "ssh": {}}),
        "guests.vm1.append: a command line needs a kernel; expected a kernel or an image with it",
    ),
    (
        guests(vm1=ECU | {"ssh": {}}),
        "guests.vm1.ssh: a guest of a latlab image needs no ssh; expected no ssh, or a kernel, disk or domain",
    ),
    (
        guests(vm1=ECU | {"kernel": "/k"}),
        "guests.vm1.ssh: missing; expected how to reach the guest: ssh: {user: root}",
    ),
    (
        guests(vm1=ECU | {"domain": "vm", "ssh": {"user": "root"}}),
        "guests.vm1.ssh.destination: missing; expected host or user@host of the running domain",
    ),
    (
        guests(vm1=ECU | {"kernel": "/k", "ssh": {"destination": "root@vm"}}),
        "guests.vm1.ssh.destination: the guest has its address from the scenario; "
        "expected no destination: user, port and config are enough",
    ),
    (
        guests(vm1=ECU | {"domain": "vm", "ssh": {"destination": "root@vm", "user": "root"}}),
        "guests.vm1.ssh.user: a user in addition to the one in destination; expected one of them",
    ),
    (
        guests(vm1=ECU | DOMAIN | {"memory": "1GiB"}),
        "guests.vm1.memory: a domain has its own; expected no memory, or a kernel or disk instead of domain",
    ),
    (
        guests(vm1=ECU | DOMAIN, vm2=ECU | DOMAIN),
        "guests.vm2.domain: vm is the domain of vm1 already; expected another domain",
    ),
    (
        guests(vm1=ECU | {"device": "0000:3b:00.0"}, vm2=ECU | {"device": "0000:3b:00.0"}),
        "guests.vm2.device: 0000:3b:00.0 is passed through to vm1 already; expected another device",
    ),
    (
        guests(vm1={"host": "ecu", "bridge": "vfio"}),
        "guests.vm1.uplink: missing: bridge vfio joins the guest to an interface of ecu; expected eth0",
    ),
    (
        guests(vm1={"host": "ecu", "uplink": "eth1"}),
        "guests.vm1.uplink: unknown end of a link 'eth1'; expected eth0? (known: eth0)",
    ),
    (
        guests(vm1={"host": "gw", "uplink": "eth1"}) | {"hosts.gw": {"kind": "netns"}},
        "guests.vm1.uplink: no link ends at gw.eth1; "
        "expected a link such as {ends: [sensor.eth0, gw.eth1]} in links",
    ),
    (
        guests(vm1=ECU, vm2=ECU | {"bridge": "xdp"}),
        "guests.vm2.bridge: vm1 is joined to ecu.eth0 by tap already; expected tap",
    ),
    (
        guests(vm1={"host": "ecu"}, vm2={"host": "ecu", "bridge": "ovs"}),
        "guests.vm2.bridge: vm1 is joined to ecu by tap already; expected tap",
    ),
    (
        guests(vm1=ECU | {"bridge": "vfio"}, vm2=ECU | {"bridge": "vfio"}),
        "guests.vm2.bridge: vm1 is joined to ecu.eth0 by vfio already; expected a different uplink",
    ),
    (
        guests(**{f"vm{n}": ECU for n in range(5)}) | {"links.0.subnet": "10.5.0.0/28"},
        "links[0].subnet: 10.5.0.0/28 has no room for 5 guests, which begin at .11; "
        "expected a network such as 10.78.0.0/24",
    ),
    (
        guests(vm1={"host": "ecu"}) | {"links.0.subnet": "10.79.0.0/16"},
        "links[0].subnet: 10.79.0.0/16 overlaps 10.79.0.0/24 of guests without an uplink; expected another network",
    ),
    (
        guests(vm1=ECU | {"bridge": "user"}) | {"links.0.subnet": "10.0.0.0/16"},
        "links[0].subnet: 10.0.0.0/16 overlaps 10.0.2.0/24, which vm1 has behind user NAT; expected another network",
    ),
    (
        guests(vm1={"host": "ecu"}) | {"links.0.ends": ["sensor.eth0", "ecu.inner"]},
        "links[0].ends[1]: ecu.inner is the name of the bridge of ecu's guests without an uplink; expected another "
        "name, or an uplink for each of them",
    ),
    (
        guests(vm1={"host": "ecu"}) | {"streams.in": STREAM},
        "streams.in: no link joins sensor and vm1; expected an uplink of vm1 that a link joins to sensor",
    ),
    (
        guests(vm1={"host": "ecu"}, vm2={"host": "sensor"}) | {"streams.in": STREAM | {"talker": "vm2"}},
        "streams.in: no link joins vm2 and vm1; expected uplinks of both that one link joins",
    ),
    (
        guests(vm1={"host": "ecu"}) | {"loads.in": {"kind": "flood", "from": "vm1", "to": "sensor"}},
        "loads.in: no link joins vm1 and sensor; expected an uplink of vm1 that a link joins to sensor",
    ),
    (
        guests(vm1=ECU) | {"streams.in": STREAM | {"talker": "vm1"}},
        "streams.in.listener: vm1 would send to itself; expected another host",
    ),
    (
        guests(vm1=ECU) | {"streams.in": STREAM | {"via": "ecu.eth0"}},
        "streams.in.via: unknown path 'ecu.eth0'; expected sensor.eth0? (known: sensor.eth0)",
    ),
    (
        guests(vm1=ECU) | {"streams.out": STREAM | {"talker": "vm1", "listener": "sensor", "via": "vm1.eth1"}},
        "streams.out.via: unknown path 'vm1.eth1'; expected vm1.eth0? (known: vm1.eth0)",
    ),
    (
        guests(vm1=ECU) | {"streams.in": STREAM | {"size": "1473B"}},
        "streams.in.size: 1473B would be fragmented; expected 1472B or less (mtu 1500)",
    ),
    (
        guests(vm1=ECU | {"bridge": "user"}, vm2=ECU | {"bridge": "user"})
        | {"streams.a": STREAM | {"port": 7000}, "streams.b": STREAM | {"listener": "vm2", "port": 7000}},
        "streams.b.port: port 7000 of ecu.eth0 is taken by a; expected another port",
    ),
    (
        guests(vm1=ECU | {"bridge": "user"}) | {"streams.b": STREAM | {"port": 5557}},
        "streams.b.port: port 5557 of ecu.eth0 is taken by control; expected another port",
    ),
    (
        guests(vm1=ECU | DOMAIN) | {"streams.in": STREAM, "streams.control.port": 5556},
        "streams.control.port: port 5556 is used by the clock exchange; expected another port",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("values", "line"), WRONG, ids=[line.split("; ")[0][:70] for _, line in WRONG])
def test_a_mistake_in_a_guest_is_one_sentence_where_it_stands(said: Said, values: dict[str, Any], line: str) -> None:
    assert said(values) == [line]


FORMS: list[tuple[str, object, str]] = [
    # a key of a guest, its value, what is said
    ("image", "Debian", "'Debian' is not a name of an image; expected at most 63 of a–z, 0–9 and -"),
    ("device", "3b:00.0", "'3b:00.0' is not a PCI address; expected one such as 0000:3b:00.0"),
    ("kernel", "", "'' is not a path; expected the path of a file"),
    ("domain", "", "an empty text; expected text"),
    ("bridge", "bridge", f"'bridge' is not supported; expected {', '.join(BRIDGES[:-1])} or {BRIDGES[-1]}"),
    ("uplink", "a/b", "the kernel refuses the interface name 'a/b'"),
    ("interface", "lo", "lo is every host's loopback"),
    ("memory", "127MiB", "127MiB is too small; expected 128MiB or more"),
    ("memory", "256MB", "256MB is not a whole number of MiB; expected such as 244MiB"),
    ("memory", 256, "256 has no unit; expected a size"),
    ("vcpus", 0, "0 is too small; expected 1 or more"),
    ("queues", 17, "17 is too large; expected 16 or less"),
    ("snapshot", "no", "'no' is neither true nor false"),
]


@pytest.mark.parametrize(
    ("bridge", "meant"),
    [
        *(("ovs-afdxp", "ovs-afxdp"), ("ovs_afxdp", "ovs-afxdp"), ("ovsafxdp", "ovs-afxdp"), ("ovs-af", "ovs-afxdp")),
        *(("macvtp", "macvtap"), ("xpd", "xdp")),
    ],
)
def test_of_a_misspelt_bridge_the_one_that_is_meant_is_reported(said: Said, bridge: str, meant: str) -> None:
    (line,) = said(guests(vm1=ECU | {"bridge": bridge}))
    assert line == f"guests.vm1.bridge: '{bridge}' is not supported; expected {meant}? (known: {', '.join(BRIDGES)})"


@pytest.mark.parametrize(("key", "value", "what"), FORMS, ids=[f"{key}-{value}" for key, value, _ in FORMS])
def test_a_value_of_the_wrong_form_is_reported_with_the_right_one(
    said: Said, key: str, value: object, what: str
) -> None:
    (line,) = said(guests(vm1=ECU | {key: value}))
    assert line.startswith(f"guests.vm1.{key}: {what}")


@pytest.mark.parametrize(
    ("ssh", "what"),
    [
        ({"destination": "-oProxyCommand=x"}, "is not a destination; expected host or user@host"),
        ({"destination": "a b"}, "is not a destination"),
        ({"user": "a@b"}, "'a@b' is not a user; expected a name without white space and @"),
        ({"port": 65536}, "65536 is too large; expected 65535 or less"),
        ({"config": ""}, "'' is not a path"),
    ],
    ids=str,
)
def test_ssh_takes_nothing_that_could_be_an_option(said: Said, ssh: dict[str, Any], what: str) -> None:
    (line,) = said(guests(vm1=ECU | {"disk": "a.img", "ssh": ssh}))
    assert line.startswith(f"guests.vm1.ssh.{next(iter(ssh))}: ")
    assert what in line


FINE: list[dict[str, Any]] = [
    guests(vm1=ECU, vm2=ECU) | {"streams.in": STREAM, "streams.out": STREAM | {"talker": "vm1", "listener": "vm2"}},
    guests(vm1=ECU | {"bridge": "user"}, vm2=ECU),
    guests(vm1=ECU | {"bridge": "vfio", "device": "0000:3b:00.1"}, vm2=ECU),
    guests(vm1=ECU | KERNEL | {"initrd": "/i", "append": "quiet"}, vm2=ECU | {"append": "quiet"}),
    guests(vm1=ECU | DOMAIN | {"bridge": "tap"}) | {"streams.in": STREAM},
    guests(vm1=ECU) | {"streams.in": STREAM | {"via": "sensor.eth0"}, "streams.control.via": "sensor.eth0"},
    guests(**{f"vm{n}": ECU for n in range(4)}) | {"links.0.subnet": "10.5.0.0/28"},
    guests(vm1=ECU) | {"links.0.subnet": "10.79.0.0/16"},
    guests(vm1=ECU) | {"links.0.subnet": "10.0.2.0/24"},
    guests(vm1=ECU) | {"streams.in": STREAM, "streams.control.port": 5556},
    guests(vm1=ECU) | {"streams.in": STREAM | {"port": 5557}},
    SECOND_LINK
    | guests(vm1=ECU | {"bridge": "user"}, vm2={"host": "ecu", "uplink": "eth1", "bridge": "user"})
    | {"streams.a": STREAM | {"port": 7000}, "streams.b": STREAM | {"listener": "vm2", "port": 7000}},
    guests(vm1=ECU | {"bridge": "user"}, vm2=ECU | {"bridge": "user"})
    | {"streams.in": STREAM | {"talker": "vm2", "transport": "ethernet"}},
    guests(vm1={"host": "ecu", "uplink": "p2"}) | LOCAL | {"loads": {}, "streams": {"in": STREAM}},
]  # fmt: skip


@pytest.mark.parametrize("values", FINE)
def test_guests_may_be_so(said: Said, values: dict[str, Any]) -> None:
    assert said(values) == []


def test_a_guest_on_a_cable_between_two_interfaces_of_one_host_cannot_tell_them_apart(said: Said) -> None:
    cable = {"links.1": {"ends": ["ecu.eth1", "ecu.eth2"]}} | guests(vm1={"host": "ecu", "uplink": "eth2"})
    assert said(cable | {"streams.in": STREAM | {"talker": "ecu", "via": "ecu.eth1"}}) == []
    assert said(cable | {"streams.in": STREAM | {"talker": "ecu"}}) == [
        "streams.in: 2 links join ecu and vm1; expected via: ecu.eth1 or ecu.eth2"
    ]
    assert said(cable | {"streams.out": STREAM | {"talker": "vm1", "listener": "ecu"}}) == [
        "streams.out.listener: vm1 could send to ecu.eth1 or ecu.eth2; expected a different host for each end of "
        "links[1]"
    ]


ONE_MISTAKE: list[dict[str, Any]] = [
    # a mistake in a guest or next to it, of which nothing else follows
    guests(vm1={"host": "ecuu", "uplink": "eth0"}),
    guests(vm1={"host": "ecu", "uplink": "eth9"}),
    guests(vm1={"host": "ecu", "bridge": "macvtap"}),
    guests(vm1=ECU | {"bridge": "tapp"}),
    guests(vm1=ECU | {"interface": "a b"}),
    guests(vm1=ECU | {"interface": 7}),
    guests(vm1={"uplink": "eth0"}),
    guests(vm1=7),
    guests(vm1=ECU) | {"links.0.ends": ["sensor.eth0", "ecu:eth0"], "streams.control": STREAM, "loads": {}},
    guests(vm1=ECU) | {"links.0.ends": ["sensor.eth0", "gw.eth0"], "streams.control": STREAM, "loads": {}},
    guests(vm1=ECU) | {"links.0.subnet": "10.0.0.0/33"},
    {"guests": 7},
]


@pytest.mark.parametrize("values", ONE_MISTAKE)
def test_one_mistake_is_reported_once_though_a_stream_goes_to_the_guest(said: Said, values: dict[str, Any]) -> None:
    assert len(said(values | {"streams.in": STREAM})) == 1


def test_every_mistake_of_several_guests_is_reported_at_once(said: Said) -> None:
    values = guests(
        vm1=ECU | {"memory": "1B", "device": "x", "kernel": "/k"},
        vm2={"host": "ecu", "uplink": "eth7", "vcpuss": 2},
        vm3={"host": "nobody", "bridge": "xdp", "queues": 0},
        ecu=ECU,
    )
    values |= {"links.0.subnet": "10.0.0.0/31", "streams.in": STREAM | {"size": "9kB"}, "loads": {}}
    assert sorted(line.split(": ")[0] for line in said(values)) == [
        "guests.ecu",
        "guests.vm1.device",
        "guests.vm1.memory",
        "guests.vm1.ssh",
        "guests.vm2.uplink",
        "guests.vm2.vcpuss",
        "guests.vm3.host",
        "guests.vm3.queues",
        "links[0].subnet",
        "streams.in.size",
    ]
