"""Offloads of what feeds a bridge that forwards frames as they are: of a veth's other end, and of a card."""

from __future__ import annotations

import re
from collections.abc import Mapping

from latlab.model.errors import LabError
from latlab.testbed.bridges.base import Joint, lacking_tools
from latlab.testbed.site import Site
from latlab.testbed.step import Before, Check, Explain, Step

OFF = {"tx": "tx-checksumming", "tso": "tcp-segmentation-offload", "gso": "generic-segmentation-offload"}

STRIPS = "rx-vlan-offload"
TAGS_REMEDY = (
    "take bridge: tap, macvtap or ovs, which get the tag in the packet's metadata, an uplink where `ethtool -K IF "
    "rxvlan off` works, or a stream without vlan"
)


def whole_frames(joint: Joint) -> list[Step]:
    """What sends to the uplink sends frames with whole checksums, one packet each; and it takes redirected ones.

    A real cable only ever carries such frames. A veth hands over what its sender left to the hardware, and takes frames
    from XDP only while its NAPI runs, which GRO turns on (kernel: drivers/net/veth.c, veth_set_features).
    """
    off = [word for name in OFF for word in (name, "off")]
    return [
        Step(
            host=peer.host,
            title=f"have {peer} send complete frames, as on a cable",
            do=("ethtool", "-K", peer.interface, *off, "gro", "on"),
            check=Check(("ethtool", "-k", peer.interface), expected="off off off, gro on", read=_features),
            lasting=True,
        )
        for peer in (joint.peers if joint.made else ())
    ]


def _features(output: str) -> str:
    found = dict(re.findall(r"^\s*([a-z0-9-]+): (on|off)", output, re.MULTILINE))
    return " ".join(found[name] for name in OFF.values()) + f", gro {found['generic-receive-offload']}"


def tags_in_frames(joint: Joint) -> list[Step]:
    """The uplink's card leaves VLAN tags in the frames that it receives, if streams through the bridge have tags.

    Else it hands the tag over next to the frame, where XDP and AF_XDP do not see it: the frame continues without. Only
    a card strips tags; a veth made for the run does not.
    """
    if not _may_strip(joint):
        return []
    assert joint.uplink
    read = ("ethtool", "-k", joint.uplink)
    return [
        Step(
            host=joint.host,
            title=f"have {joint.uplink} keep VLAN tags in received frames",
            do=("ethtool", "-K", joint.uplink, "rxvlan", "off"),
            undo=("ethtool", "-K", joint.uplink, "rxvlan", "{before}"),
            before=Before(read, _strips_before),
            check=Check(read, expected="off", read=lambda output: _strips(output).split()[0], remedy=TAGS_REMEDY),
            lasting=True,
            explain=Explain(read, lambda output: f"{STRIPS} is {_strips(output)} there: {TAGS_REMEDY}"),
        )
    ]


def every_vlan(joint: Joint) -> list[Step]:
    """The uplink's card takes in frames of every VLAN, if streams through the bridge have tags.

    A card with a VLAN filter drops those of VLANs that no interface of the kernel's is for, unless it is promiscuous.
    Ports of bridges and of Open vSwitch are; the interface below a macvtap is not.
    """
    if not _may_strip(joint):
        return []
    assert joint.uplink
    read = ("ip", "-o", "link", "show", "dev", joint.uplink)
    return [
        Step(
            host=joint.host,
            title=f"have {joint.uplink} accept frames of every VLAN",
            do=("ip", "link", "set", "dev", joint.uplink, "promisc", "on"),
            undo=("ip", "link", "set", "dev", joint.uplink, "promisc", "{before}"),
            before=Before(read, lambda output: {"before": _promiscuous(output)}),
            check=Check(read, expected="on", read=_promiscuous),
            lasting=True,
        )
    ]


def _promiscuous(output: str) -> str:
    """`on` where the flags of `ip link` have PROMISC, else `off`."""
    flags = re.search(r"<([A-Z0-9_,-]*)>", output)
    return "on" if flags and "PROMISC" in flags[1].split(",") else "off"


def lacking_tags(joint: Joint, site: Site) -> LabError | None:
    """What keeps VLAN tags out of the frames that the bridge gets: ethtool, or a card that always strips them."""
    if not _may_strip(joint):
        return None
    assert joint.uplink
    if missing := lacking_tools(site, "ethtool"):
        return missing
    said = site.machine.say(("ethtool", "-k", joint.uplink))
    if said is None or _strips(said) != "on [fixed]":
        return None
    what = f"{joint.uplink} strips VLAN tags before XDP sees the frame ({STRIPS}: on [fixed]), and a stream has one"
    return LabError(what, remedy=TAGS_REMEDY)


def _may_strip(joint: Joint) -> bool:
    return joint.tags and not joint.made


def _strips(output: str) -> str:
    """What `ethtool -k` says of the feature: `on`, `off [fixed]`; `off` of a device that knows no such feature."""
    found = re.search(rf"^{STRIPS}: (.+)$", output, re.MULTILINE)
    return found[1].strip() if found else "off"


def _strips_before(output: str) -> Mapping[str, str]:
    return {"before": _strips(output).split()[0]}
