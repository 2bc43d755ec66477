"""Offloads of the veth that feeds a bridge which forwards frames as they are."""

from __future__ import annotations

import re

from latlab.lab.bridges.base import Joint
from latlab.lab.step import Check, Step

OFF = {"tx": "tx-checksumming", "tso": "tcp-segmentation-offload", "gso": "generic-segmentation-offload"}


def whole_frames(joint: Joint) -> list[Step]:
    """The uplink's other end sends frames with whole checksums, one packet each; and it takes redirected ones.

    A real cable only ever carries such frames. A veth hands over what its sender left to the hardware, and takes frames
    from XDP only while its NAPI runs, which GRO turns on (kernel: drivers/net/veth.c, veth_set_features).
    """
    if not joint.made or joint.peer is None:
        return []
    host, device = joint.peer
    read = ("ethtool", "-k", device)
    off = [word for name in OFF for word in (name, "off")]
    return [
        Step(
            host=host,
            title=f"have {joint.peer} send whole frames, as a cable carries them",
            do=("ethtool", "-K", device, *off, "gro", "on"),
            check=Check(read, expected="off off off, gro on", read=_features),
            lasting=True,
        )
    ]


def _features(output: str) -> str:
    found = dict(re.findall(r"^\s*([a-z0-9-]+): (on|off)", output, re.MULTILINE))
    return " ".join(found[name] for name in OFF.values()) + f", gro {found['generic-receive-offload']}"
