"""AVTP: the sequence number of a stream (IEEE 1722-2016, 4.4.4.6 and 4.4.5.4)."""

from __future__ import annotations

from typing import Final

from latlab.imports.numbering.base import Frame, Number, Numbering

_ETHER_TYPE: Final = 0x22F0
_HEADER: Final = 12
_STREAM_ID_VALID: Final = 0x80
_PLACES: Final = {**dict.fromkeys((0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07), 2), 0x82: 3}
"""{subtype: where its sequence number is}: 61883/IIDC, MMA, AAF, CVF, CRF, TSCF, SVF, RVF; NTSCF."""


def read(frame: Frame) -> Number | None:
    """The number of a frame of a stream, by the stream's id."""
    body = frame.body
    if frame.ether_type != _ETHER_TYPE or len(body) < _HEADER or not body[1] & _STREAM_ID_VALID:
        return None
    place = _PLACES.get(body[0])
    return None if place is None else Number(body[place], source=body[4:_HEADER])


AVTP: Final = Numbering("avtp", "AVTP sequence numbers", 1 << 8, read)
