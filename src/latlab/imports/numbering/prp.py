"""Parallel redundancy: the sequence number of the redundancy control trailer (IEC 62439-3, 4.2.7)."""

from __future__ import annotations

import struct
from typing import Final

from latlab.imports.numbering.base import Frame, Number, Numbering

TRAILER: Final = 6
SUFFIX: Final = b"\x88\xfb"
LANS: Final = (0xA, 0xB)


def read(frame: Frame) -> Number | None:
    """The number of a frame that was kept whole and ends in the trailer; LAN A and LAN B are apart."""
    if not frame.whole or len(frame.body) < TRAILER:
        return None
    number, size = struct.unpack_from(">HH", frame.body, len(frame.body) - TRAILER)
    if frame.body[-2:] != SUFFIX or size >> 12 not in LANS or size & 0xFFF != len(frame.body):
        return None
    return Number(number, source=bytes([size >> 12]))


PRP: Final = Numbering("prp", "PRP sequence numbers", 1 << 16, read, of_node=True)
