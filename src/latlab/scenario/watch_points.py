"""Where packets are watched: `[MACHINE/][ns:NAMESPACE/]INTERFACE[:in|:out]`, as `latlab watch --at` takes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from latlab.model.errors import UsageError

_NAMESPACE: Final = "ns:"
_GUEST: Final = "guest:"
_INTERFACE: Final = re.compile(r"[^\s/:]{1,15}")
"""What the kernel takes as a name (`dev_valid_name`), without colons."""
_PLACE: Final = re.compile(r"[^\s/-][^\s/]*")
"""An option of ssh begins with a dash."""


@dataclass(frozen=True)
class WatchPoint:
    """One interface. machine: where it is reached over ssh, or `guest:NAME`, a guest that runs here; None: this one.
    namespace: a named network namespace there (`ip netns`); None: its own. directions: `in`, `out` or both.
    """

    interface: str
    directions: tuple[str, ...] = ("in", "out")
    machine: str | None = None
    namespace: str | None = None

    @property
    def place(self) -> tuple[str | None, str | None]:
        """Machine and namespace."""
        return self.machine, self.namespace

    @property
    def guest(self) -> str | None:
        """The guest of this machine that its interface is in; None: in none."""
        is_guest = self.machine is not None and self.machine.startswith(_GUEST)
        return self.machine.removeprefix(_GUEST) if self.machine and is_guest else None

    @property
    def name(self) -> str:
        """As it is written, without the direction."""
        namespace = None if self.namespace is None else f"{_NAMESPACE}{self.namespace}"
        return "/".join(filter(None, (self.machine, namespace, self.interface)))


def parse_point(text: str) -> WatchPoint:
    """The point. UsageError: it is none."""
    *places, last = text.split("/")
    interface, colon, direction = last.partition(":")
    if colon and direction not in ("in", "out"):
        raise _wrong(text, f"{direction!r} is not a direction")
    if not _INTERFACE.fullmatch(interface):
        raise _wrong(text, f"{interface!r} cannot be an interface")
    machine, namespace = None, None
    if places and places[-1].startswith(_NAMESPACE):
        namespace = places.pop().removeprefix(_NAMESPACE)
    if places:
        machine = places.pop()
    named = (machine and machine.removeprefix(_GUEST), namespace)
    if places or any(part is not None and not _PLACE.fullmatch(part) for part in named):
        raise _wrong(text, "before the interface write a machine, a namespace, or both")
    return WatchPoint(interface, (direction,) if colon else ("in", "out"), machine, namespace)


def _wrong(text: str, what: str) -> UsageError:
    remedy = "eth0, br0:in, ns:NAMESPACE/eth0, guest:vm1/eth0, root@board1/eth0:out or board1/ns:NAMESPACE/eth0"
    return UsageError(f"{text!r} is not a place to watch: {what}", where="--at", remedy=remedy)
