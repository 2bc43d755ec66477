"""High-availability seamless redundancy: the sequence number of HSR's tag (IEC 62439-3, 5.7)."""

from __future__ import annotations

from typing import Final

from latlab.imports.numbering.base import Frame, Number, Numbering

ETHER_TYPE: Final = b"\x89\x2f"
_TAG: Final = 4


def read(frame: Frame) -> Number | None:
    """The number of a frame that has the tag; both ways round the ring are apart, by the tag's path identifier."""
    tag = frame.hsr
    return Number(int.from_bytes(tag[2:], "big"), source=bytes([tag[0] >> 4])) if len(tag) == _TAG else None


HSR: Final = Numbering("hsr", "HSR sequence numbers", 1 << 16, read, of_node=True)
