"""Which way packets that are watched pass an interface."""

from __future__ import annotations

from typing import Final

IN: Final = "in"
OUT: Final = "out"
READ: Final = "read"
"""Not what passes a tap or macvtap, but what vhost-net or a program, such as QEMU, takes from its queue."""
BOTH: Final = (IN, OUT)
DIRECTIONS: Final = (*BOTH, READ)
