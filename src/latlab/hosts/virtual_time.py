"""A machine in virtual time, as a host: every command there is part of a turn."""

from __future__ import annotations

from collections.abc import Sequence

from latlab.hosts.base import Description, Host
from latlab.hosts.guest import GUEST_AGENT
from latlab.hosts.turns import Turns


class TurnsHost(Host):
    """A machine in virtual time. What runs there is no process of this machine's."""

    kind = "turns"
    agent = GUEST_AGENT
    files_are_here = False
    fleeting = True
    patience = 20.0

    def __init__(self, name: str, directory: str) -> None:
        super().__init__(name)
        self.directory = directory
        self._turns = Turns(name, directory)

    @property
    def turns(self) -> Turns:
        """How it is spoken to."""
        return self._turns

    def command(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The command itself, as it is run there."""
        return tuple(argv)

    def describe(self) -> Description:
        """`{"kind": "turns", "name": …, "directory": …}`."""
        return {"kind": self.kind, "name": self.name, "directory": self.directory}

    @property
    def shared_kernel(self) -> str:
        """Its own, not shared."""
        return f"guest {self.directory}"
