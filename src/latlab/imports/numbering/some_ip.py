"""SOME/IP: session ids of a client, or of an event (AUTOSAR PRS_SOMEIPProtocol, 4.1.2: the message header)."""

from __future__ import annotations

import struct
from typing import Final

from latlab.imports.numbering.base import Frame, Number, Numbering

_HEADER: Final = struct.Struct(">IIHHBBBB")
_BEHIND_LENGTH: Final = 8
"""What of the header its own field of length counts."""
_VERSION: Final = 1
_TYPES: Final = (0x00, 0x01, 0x02, 0x40, 0x41, 0x42, 0x80, 0x81, 0xC0, 0xC1)
"""Those of SOME/IP-TP have another bit: all segments of one message have its session id."""


def _messages(frame: Frame, *, by_method: bool) -> list[Number] | None:
    """Of each message that a datagram has. Session ids are 1 to 65535, and 0 of who does not count."""
    found, place = list[Number](), 0
    while place + _HEADER.size <= len(frame.udp):
        message, length, client, session, version, _, kind, _ = _HEADER.unpack_from(frame.udp, place)
        if version != _VERSION or kind not in _TYPES or length < _BEHIND_LENGTH or not session:
            return None
        source = struct.pack(">IHB", message if by_method else 0, client, kind)
        found.append(Number(session - 1, source=source))
        place += 8 + length
    # What else is in a datagram that was cut is unknown.
    return found if found and place >= frame.udp_length else None


def of_method(frame: Frame) -> list[Number] | None:
    """Of senders that count each method and event by itself."""
    return _messages(frame, by_method=True)


def of_client(frame: Frame) -> list[Number] | None:
    """Of senders that count all that they send."""
    return _messages(frame, by_method=False)


TITLE: Final = "SOME/IP session ids"
SOME_IP: Final = Numbering("some-ip", TITLE, (1 << 16) - 1, of_method)
SOME_IP_CLIENT: Final = Numbering("some-ip", TITLE, (1 << 16) - 1, of_client)
