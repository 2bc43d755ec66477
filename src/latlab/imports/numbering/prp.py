"""Parallel redundancy: the sequence number of the redundancy control trailer (IEC 62439-3, 4.2.7)."""

from __future__ import annotations

import struct
from typing import Final

from latlab.imports.numbering.base import Frame, Number, Numbering

_TRAILER: Final = 6
_SUFFIX: Final = 0x88FB
_LANS: Final = (0xA, 0xB)


def read(frame: Frame) -> Number | None:
    """The number of a frame that was kept whole and ends in the trailer; LAN A and LAN B are apart."""
    if not frame.whole or len(frame.body) < _TRAILER:
        return None
    number, size, suffix = struct.unpack_from(">HHH", frame.body, len(frame.body) - _TRAILER)
    if suffix != _SUFFIX or size >> 12 not in _LANS or size & 0xFFF != len(frame.body):
        return None
    return Number(number, source=bytes([size >> 12]))


PRP: Final = Numbering("prp", "PRP sequence numbers", 1 << 16, read)
