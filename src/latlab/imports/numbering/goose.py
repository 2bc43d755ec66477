"""GOOSE: stNum, sqNum and timeAllowedToLive of a control block (IEC 61850-8-1, 18.2.3)."""

from __future__ import annotations

from typing import Final

from latlab.imports.numbering.base import Frame, Number, Numbering, tags_of
from latlab.model.units import MILLISECOND_NS

_ETHER_TYPE: Final = 0x88B8
_HEADER: Final = 8
_APDU, _CONTROL_BLOCK, _LIVE, _STATE, _SEQUENCE = 0x61, 0x80, 0x81, 0x85, 0x86
_LONGEST: Final = 5
"""Bytes of a number of 32 bits with its sign."""


def read(frame: Frame) -> Number | None:
    """The repetition of a state: each new state begins at 0. The next one is due within its timeAllowedToLive, ms."""
    if frame.ether_type != _ETHER_TYPE:
        return None
    parts = dict(tags_of(dict(tags_of(frame.body[_HEADER:])).get(_APDU, b"")))
    state, sequence = parts.get(_STATE, b""), parts.get(_SEQUENCE, b"")
    if not 0 < len(state) <= _LONGEST or not 0 < len(sequence) <= _LONGEST:
        return None
    numbers = [int.from_bytes(one, "big") for one in (sequence, state)]
    live = parts.get(_LIVE, b"")
    valid_ns = int.from_bytes(live, "big") * MILLISECOND_NS if len(live) <= _LONGEST else 0
    return Number(numbers[0], source=parts.get(_CONTROL_BLOCK, b""), epoch=numbers[1], valid_ns=valid_ns or None)


GOOSE: Final = Numbering("goose", "stNum and sqNum of GOOSE", 1 << 32, read)
