"""The hardware addresses of what a run makes: locally administered, and our mark of this run."""

from __future__ import annotations

import zlib

_LINK, _GUEST, _INNER, _BOARD = 0x02, 0x06, 0x0A, 0x0E
"""First octets: unicast, locally administered (IEEE 802, 8.2.2), one for each sort of thing."""


def hardware_address(tag: str, link: int, end: int) -> str:
    """The address of an end (0 or 1) of a link we make."""
    return _address(_LINK, tag, link, end)


def guest_address(tag: str, guest: int) -> str:
    """The address of a guest's network card; guest is its place in the scenario."""
    return _address(_GUEST, tag, guest >> 8, guest)


def board_address(board: int, card: int) -> str:
    """The address of a board's network card, the same in every run, so that a snapshot serves them all.

    board: its place among the scenario's hosts.
    """
    return _address(_BOARD, "board", board, card)


def inner_address(tag: str, segment: int) -> str:
    """The address of the bridge of a host's guests that have no uplink."""
    return _address(_INNER, tag, 0, segment)


def _address(first: int, tag: str, fifth: int, sixth: int) -> str:
    run = zlib.crc32(tag.encode())
    octets = (first, run >> 16 & 0xFF, run >> 8 & 0xFF, run & 0xFF, fifth & 0xFF, sixth & 0xFF)
    return ":".join(f"{octet:02x}" for octet in octets)
