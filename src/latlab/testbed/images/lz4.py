"""Unpacking what was packed with `lz4 -l`, as kernels are: the legacy frame of LZ4.

Formats: doc/lz4_Frame_format.md (legacy frame) and doc/lz4_Block_format.md of LZ4.
"""

from __future__ import annotations

import struct

MAGIC = b"\x02\x21\x4c\x18"
SHORTEST_MATCH = 4
GOES_ON = 15
GOES_ON_BYTE = 255


def unpack(frame: bytes) -> bytes:
    """The bytes that were packed. IndexError or struct.error: the frame is cut short."""
    unpacked = bytearray()
    at = len(MAGIC)
    while at < len(frame):
        (size,) = struct.unpack_from("<I", frame, at)
        at += 4
        unpacked += _block(frame[at : at + size])
        at += size
    return bytes(unpacked)


def _block(block: bytes) -> bytearray:
    """A block: literals and matches, that is copies of what came before, in turns; it ends with literals."""
    out = bytearray()
    at = 0
    while True:
        token = block[at]
        literals, at = _length(block, at + 1, token >> 4)
        out += block[at : at + literals]
        at += literals
        if at >= len(block):
            return out
        distance = block[at] | block[at + 1] << 8
        length, at = _length(block, at + 2, token & 15)
        length += SHORTEST_MATCH
        start = len(out) - distance
        if length <= distance:
            out += out[start : start + length]
        else:
            # It reaches into itself: what is there repeats.
            out += (bytes(out[start:]) * (length // distance + 1))[:length]


def _length(block: bytes, at: int, length: int) -> tuple[int, int]:
    """A length whose beginning is known, and where what follows it is."""
    if length == GOES_ON:
        while True:
            more = block[at]
            at += 1
            length += more
            if more != GOES_ON_BYTE:
                break
    return length, at
