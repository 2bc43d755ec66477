"""Sampled values: smpCnt of a stream (IEC 61850-9-2, 8.5; IEC 61869-9)."""

from __future__ import annotations

from typing import Final

from latlab.imports.numbering.base import Frame, Number, Numbering, tags_of

_ETHER_TYPE: Final = 0x88BA
_HEADER: Final = 8
_APDU, _ASDUS, _ASDU, _NUMBER_OF, _ID, _COUNT = 0x60, 0xA2, 0x30, 0x80, 0x80, 0x82
_SYNCHRONISED: Final = 0x85


def read(frame: Frame) -> Number | None:
    """The counter of a frame's first sample, which counts on by as many as there are samples in a frame."""
    if frame.ether_type != _ETHER_TYPE:
        return None
    apdu = dict(tags_of(frame.body[_HEADER:])).get(_APDU, b"")
    parts = dict(tags_of(apdu))
    first = next((value for tag, value in tags_of(parts.get(_ASDUS, b"")) if tag == _ASDU), b"")
    asdu = dict(tags_of(first))
    count = asdu.get(_COUNT, b"")
    if len(count) != 2:
        return None
    step = max(1, int.from_bytes(parts.get(_NUMBER_OF, b"\x01")[:2], "big"))
    said = ("smpSynch 0",) if asdu.get(_SYNCHRONISED) == b"\0" else ()
    return Number(int.from_bytes(count, "big"), source=asdu.get(_ID, b""), step=step, said=said)


SAMPLED_VALUES: Final = Numbering("sv", "smpCnt of sampled values", None, read)
