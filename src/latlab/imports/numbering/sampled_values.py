"""Sampled values: smpCnt and refrTm of a stream (IEC 61850-9-2, 8.5; IEC 61869-9)."""

from __future__ import annotations

from typing import Final

from latlab.imports.numbering.base import Frame, Number, Numbering, UtcTime, tags_of
from latlab.model.units import SECOND_NS

_ETHER_TYPE: Final = 0x88BA
_HEADER: Final = 8
_APDU, _ASDUS, _ASDU, _NUMBER_OF, _ID, _COUNT = 0x60, 0xA2, 0x30, 0x80, 0x80, 0x82
_REFERENCE, _SYNCHRONISED = 0x84, 0x85
_CLOCK_FAILURE, _NOT_SYNCHRONISED, _ACCURACY = 0x40, 0x20, 0x1F
"""Of the quality of a UtcTime (IEC 61850-8-1; TimeQuality and TimeAccuracy: IEC 61850-7-2)."""
_BITS_MAX: Final = 24
"""Of the fraction of a second. A larger accuracy says nothing: 31 is "unspecified", others are invalid."""


_SYNCH: Final = {b"\0": ("smpSynch 0",), b"\1": ("smpSynch 1, a local clock",)}
"""Whether the publisher's clock is synchronised: not, by one of its own area, or (2) by one of the world's."""


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
    said = _SYNCH.get(asdu.get(_SYNCHRONISED, b""), ())
    sampled, doubts = _reference(asdu.get(_REFERENCE, b""))
    source = asdu.get(_ID, b"")
    return Number(int.from_bytes(count, "big"), source=source, step=step, said=said + doubts, sampled=sampled)


def _reference(value: bytes) -> tuple[UtcTime | None, tuple[str, ...]]:
    """refrTm, the reference time of a sample, which is optional, and why it is not used."""
    if len(value) != 8:
        return None, ()
    quality = value[7]
    doubts = (("failed", quality & _CLOCK_FAILURE), ("not synchronised", quality & _NOT_SYNCHRONISED))
    said = tuple(f"refrTm of a clock that is {what}" for what, is_so in doubts if is_so)
    if said:
        return None, said
    fraction, bits = int.from_bytes(value[4:7], "big"), quality & _ACCURACY
    ns = int.from_bytes(value[:4], "big") * SECOND_NS + (fraction * SECOND_NS >> _BITS_MAX)
    return UtcTime(ns, bits if bits <= _BITS_MAX else None), ()


SAMPLED_VALUES: Final = Numbering("sv", "smpCnt of sampled values", None, read, by_second=True)
