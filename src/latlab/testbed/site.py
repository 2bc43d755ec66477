"""Where a cell's test bed is made: what its makers know next to the scenario."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from latlab.hosts import MACHINE
from latlab.testbed.agent_binary import AGENT
from latlab.testbed.architecture import ARCHITECTURES
from latlab.testbed.images import Image
from latlab.testbed.machine import Machine, read_machine

STATE = "/run/latlab"


@dataclass(frozen=True)
class Site:
    """One cell's place on a machine: this one, or one that is reached from here (`on`).

    tag: marks what one run makes, 4 hexadecimal digits. name: the host that the machine itself is. agent: path of the
    machine's agent. agents: this machine's and those for machines of other architectures, by architecture. logs: the
    folder for what services write, here. recordings: the cell's folder, here. images: the built images by name, as they
    are there. snapshots: guest → the snapshot it starts from. inward: guest → protocol and port of all that is sent to
    it, which user NAT has to let through. others: the same for every other machine, by its host's name. lab: the tag of
    what is made on this machine, where it is another than the test bed's. clock_pages: host and guests there each
    have a CPU to look at a page of memory at the same time (`shares_pages`). emulator_cpu: the CPU of this machine that
    a board in virtual time has. emulator_seed: the seed of that board's QEMU.
    """

    tag: str
    machine: Machine = field(default_factory=read_machine)
    name: str = MACHINE
    agent: str = AGENT
    agents: Mapping[str, str] = field(default_factory=dict)
    logs: str = "LOGS"
    recordings: str = "RECORDINGS"
    images: Mapping[str, Image] = field(default_factory=dict)
    snapshots: Mapping[str, Path] = field(default_factory=dict)
    inward: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    others: Mapping[str, Site] = field(default_factory=dict)
    lab: str = ""
    clock_pages: bool = True
    emulator_cpu: int = field(default_factory=lambda: max(os.sched_getaffinity(0)))
    emulator_seed: int = 1

    def on(self, machine: str | None) -> Site:
        """The cell's place on the machine of that name, as Scenario.machine_of has it; None: on this one."""
        if machine is None:
            return self
        there = self.others[machine]
        return replace(there, logs=self.logs, snapshots=self.snapshots, inward=self.inward)

    @property
    def all_agents(self) -> Mapping[str, str]:
        """Architecture, as uname(2) names it → the path of the agent for it on this machine."""
        return self.agents or {self.machine.architecture: self.agent}

    @property
    def shares_pages(self) -> bool:
        """Whether guests that latlab starts there, and their host, can compare clocks over a page of memory.

        A guest's mapping of that page must be coherent with the host's cache, and it rings by an I/O port: both are so
        on x86 (agent/agent/src/shared_memory.rs).
        """
        known = ARCHITECTURES.get(self.machine.architecture)
        return self.clock_pages and known is not None and known.has_ports

    @property
    def is_here(self) -> bool:
        """Whether it is the machine the lab runs on."""
        return self.name == MACHINE

    @property
    def state(self) -> str:
        """The folder of the run's sockets, shared pages and device nodes, made and removed with each cell."""
        return f"{STATE}/{self.tag}"

    @property
    def ways(self) -> str:
        """The folder, on this machine, of what leads to the others."""
        return f"{STATE}/{self.lab or self.tag}-ways"

    def guest_state(self, guest: str) -> str:
        """A guest's own folder in it."""
        return f"{self.state}/{guest}"

    def log(self, name: str) -> str:
        """The path of a service's log, on the machine the lab runs on."""
        return f"{self.logs}/{name}.log"

    def logged(self, name: str) -> str:
        """What a service has written so far; empty where there is no log. Logs are on the lab's machine."""
        try:
            return Path(self.log(name)).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def device(self, suffix: str) -> str:
        """The name of an interface made for this run: at most 15 bytes (IFNAMSIZ − 1), our mark by its beginning."""
        return f"ll{self.tag}{suffix}"


# The hardware addresses of what a run makes: locally administered, and our mark of this run.


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
