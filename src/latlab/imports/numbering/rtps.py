"""DDS: sequence numbers of RTPS writers (OMG DDSI-RTPS 2.5, 8.3.7 and 9.4.5)."""

from __future__ import annotations

import struct
from typing import Final

from latlab.imports.numbering.base import Frame, Number, Numbering

_MAGIC: Final = b"RTPS"
_HEADER: Final = 20
_PREFIX: Final = slice(8, 20)
_LITTLE: Final = 0x01
_HEARTBEAT: Final = 32
"""Bytes of one with its header; no sample with its timestamp is as short."""
_DATA, _DATA_FRAG, _INFO_SRC = 0x15, 0x16, 0x0C
_MAY_BE_EMPTY: Final = (0x01, 0x09)
"""PAD; INFO_TS, which has no time with its InvalidateFlag."""
_WRITER, _NUMBER, _FRAGMENT = 8, 12, 20
"""Where they are in DATA and DATA_FRAG, counted from behind the submessage's header."""


def read(frame: Frame) -> list[Number] | None:
    """Of each sample in a datagram, by its writer; of one that comes in fragments of the first. Heartbeats and
    acknowledgements have none. A sample that is sent again has the same number.
    """
    data = frame.udp
    if data[:4] != _MAGIC or len(data) < _HEADER:
        return None
    found, place, prefix = list[Number](), _HEADER, data[_PREFIX]
    while place + 4 <= len(data):
        kind, order = data[place], "<" if data[place + 1] & _LITTLE else ">"
        (length,) = struct.unpack_from(f"{order}H", data, place + 2)
        body = data[place + 4 :]
        if kind == _INFO_SRC and len(body) >= _HEADER:
            prefix = body[_PREFIX]
        if kind in (_DATA, _DATA_FRAG):
            if len(body) < _FRAGMENT + 4:
                return None
            high, low, fragment = struct.unpack_from(f"{order}III", body, _NUMBER)
            if kind == _DATA or fragment == 1:
                found.append(Number(high << 32 | low, source=prefix + body[_WRITER:_NUMBER]))
        # Without a length it goes as far as the datagram does, unless it may be empty (DDSI-RTPS 2.5, 9.4.5.1.3).
        place = place + 4 + length if length or kind in _MAY_BE_EMPTY else frame.udp_length
    # What was cut off may be the heartbeat that follows a sample; of more it is unknown.
    return found if frame.udp_length - place <= _HEARTBEAT else None


RTPS: Final = Numbering("rtps", "sequence numbers of RTPS writers", 1 << 64, read)
