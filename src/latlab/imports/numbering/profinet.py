"""PROFINET IO: the cycle counter of cyclic real-time frames (IEC 61158-6-10, 4.7: RT-PDU and its APDU status)."""

from __future__ import annotations

import struct
from typing import Final

from latlab.imports.numbering.base import Frame, Number, Numbering

_ETHER_TYPE: Final = 0x8892
_FRAME_ID: Final = 2
_STATUS: Final = 4
"""Bytes of the APDU status, which a frame ends in: cycle counter, data status, transfer status."""
_CYCLIC: Final = (range(0x0100, 0x1000), range(0x8000, 0xFC00))
"""Frame ids of RT_CLASS_3, and of RT_CLASS_2, RT_CLASS_1 and RT_CLASS_UDP. Others are of alarms, DCP and PTCP, which
have no cycle."""
_UNIT_NS: Final = 31_250
_GOOD: Final = ((0x04, "data not valid"), (0x10, "provider stopped"), (0x20, "station problem"))
"""Bits of the data status that are set where all is well, and what it means where they are not."""
_IGNORE: Final = 0x80


def read(frame: Frame) -> Number | None:
    """The cycle counter of a frame that was kept whole. How far it counts on from one to the next (send clock factor ×
    reduction ratio) was agreed when the connection was made.
    """
    if frame.ether_type != _ETHER_TYPE or not frame.whole or len(frame.body) < _FRAME_ID + _STATUS:
        return None
    (frame_id,) = struct.unpack_from(">H", frame.body)
    if not any(frame_id in ids for ids in _CYCLIC):
        return None
    counter, data, transfer = struct.unpack_from(">HBB", frame.body, len(frame.body) - _STATUS)
    said = [what for bit, what in _GOOD if not data & bit]
    said += ["to be ignored"] if data & _IGNORE else []
    said += [f"transfer status {transfer}"] if transfer else []
    return Number(counter, source=frame.body[:_FRAME_ID], step=0, said=tuple(said))


PROFINET: Final = Numbering("profinet", "cycle counter of PROFINET", 1 << 16, read, unit_ns=_UNIT_NS)
