"""RTP: the sequence number of a synchronisation source (RFC 3550, 5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from latlab.imports.numbering.base import Frame, Number, Numbering

_HEADER: Final = 12
_CONTROL_HEADER: Final = 8
_VERSION: Final = 2
_CONTROL: Final = range(192, 224)
"""Packet types of RTCP, which has the same first two bits (RFC 5761, 4)."""


def read(frame: Frame) -> Number | Sequence[Number] | None:
    """The number of an RTP packet; of other datagrams that begin like one, too: a flow shows which it is of.

    RTCP, which may be on the same port, has none.
    """
    data = frame.udp
    if len(data) < _CONTROL_HEADER or data[0] >> 6 != _VERSION:
        return None
    if data[1] in _CONTROL:
        return ()
    if len(data) < _HEADER:
        return None
    return Number(int.from_bytes(data[2:4], "big"), source=data[8:12])


RTP: Final = Numbering("rtp", "RTP sequence numbers", 1 << 16, read)
