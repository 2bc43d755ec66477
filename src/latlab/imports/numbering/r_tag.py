"""Frame replication and elimination: the sequence number of the redundancy tag (IEEE 802.1CB-2017, 7.8)."""

from __future__ import annotations

from typing import Final

from latlab.imports.numbering.base import Frame, Number, Numbering

_RESERVED: Final = 2


def read(frame: Frame) -> Number | None:
    """The number of a frame that has the tag."""
    tag = frame.r_tag
    return Number(int.from_bytes(tag[_RESERVED:], "big")) if len(tag) == _RESERVED + 2 else None


R_TAG: Final = Numbering("r-tag", "802.1CB sequence numbers", 1 << 16, read)
