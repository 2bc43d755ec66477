"""Where a cell's test bed is made: what its makers know beside the scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from latlab.lab.agent_binary import AGENT
from latlab.lab.images import Image
from latlab.lab.machine import Machine, read_machine

STATE = "/run/latlab"


@dataclass(frozen=True)
class Site:
    """One cell's place on this machine.

    tag: marks what one run makes, 4 hexadecimal digits. agent: path of this machine's agent. logs: the folder for what
    services write. images: the built images by name. snapshots: guest → the snapshot it starts from. inward: guest →
    protocol and port of all that is sent to it, which user NAT has to let through.
    """

    tag: str
    machine: Machine = field(default_factory=read_machine)
    agent: str = AGENT
    logs: str = "LOGS"
    images: Mapping[str, Image] = field(default_factory=dict)
    snapshots: Mapping[str, Path] = field(default_factory=dict)
    inward: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """The folder of the run's sockets, shared pages and device nodes, made and removed with each cell."""
        return f"{STATE}/{self.tag}"

    def guest_state(self, guest: str) -> str:
        """A guest's own folder in it."""
        return f"{self.state}/{guest}"

    def log(self, name: str) -> str:
        """The path of a service's log."""
        return f"{self.logs}/{name}.log"

    def device(self, suffix: str) -> str:
        """The name of an interface made for this run: at most 15 bytes (IFNAMSIZ − 1), our mark by its beginning."""
        return f"ll{self.tag}{suffix}"
