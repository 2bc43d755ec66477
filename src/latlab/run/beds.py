"""Test beds in virtual time that several cells share: set up once, kept, and resumed.

A machine in virtual time does the same whenever it gets the same requests (latlab.hosts.turns). Cells whose test beds
are made by the same steps differ in nothing before their agents start: repetitions, loads, probes, the time to measure.
Of those that differ in repetitions and loads alone agents are ready, too, before anything differs. The first of them
keeps the machine as it then is, and what was said in each of its turns. The others start from there: the lab takes the
same steps, and gets what the first one got. Should it report anything else in a turn, the cell is begun again, without
what was kept.

What is kept with agents goes on from what is kept without them, where other cells need that, too.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Final, Self

from latlab.hosts.turns import Turn, Turns
from latlab.model.errors import LabError
from latlab.run.room import available_memory
from latlab.scenario import MatrixRun
from latlab.testbed.guests.monitor import move_out
from latlab.testbed.guests.qemu import MONITOR
from latlab.testbed.guests.start import start_conditions
from latlab.testbed.machines import can_be_kept, machine_snapshots, planned_sites
from latlab.testbed.machines.board import folder
from latlab.testbed.makers import test_bed_steps
from latlab.testbed.site import Site
from latlab.testbed.step import Service, Step

ROOM: Final = 3
"""So many times a board's memory must be free for each cell that is measured at once: the board's own, that of the one
that is kept, and that of the one before it, which may not be gone yet. One more where it went on from one that is kept,
too."""


@dataclass
class SharedBed:
    """One test bed. left: how many of its cells are not measured yet.

    with_agents: it is kept with agents that are ready, as its cells differ in nothing before their loads start. base:
    the one without agents that it goes on from; None: it is set up from the beginning. turns: those that the machine
    had when it was kept. refused: it could not be kept, or did not serve. lock: held while it is set up to be kept.
    """

    left: int
    with_agents: bool = False
    base: SharedBed | None = None
    turns: Sequence[Turn] = ()
    refused: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _memory: int | None = None

    @property
    def machine(self) -> Path | None:
        """The file to resume from; None as long as there is none. It is in memory only, and ends with the lab."""
        return Path(f"/proc/{os.getpid()}/fd/{self._memory}") if self.turns and self._memory is not None else None

    async def keep(self, turns: Turns, site: Site) -> None:
        """Keep the machine's state, and end its QEMU."""
        self._memory = os.memfd_create("latlab-bed")
        try:
            await move_out(f"{folder(site, turns.name)}/{MONITOR}", Path(f"/proc/{os.getpid()}/fd/{self._memory}"))
            self.turns = tuple(turns.kept)
        except LabError:
            self.refuse()

    def refuse(self) -> None:
        """Refuse to share it: each of its cells sets up its own."""
        self.refused = True
        self.close()

    def ended(self) -> None:
        """Note that one of its cells has been measured: after the last it is not needed any more."""
        self.left -= 1
        if not self.left:
            self.close()
        if self.base:
            self.base.ended()

    def close(self) -> None:
        """Do not keep it any more."""
        self.turns = ()
        if self._memory is not None:
            os.close(self._memory)
            self._memory = None


class Beds:
    """Those of a run that several of its cells share."""

    def __init__(self, order: Sequence[MatrixRun], site: Site, jobs: int) -> None:
        """site: this machine's, with the images."""
        self._keys = {
            id(one): _key(one, site)
            for one in order
            if one.cell.scenario.in_virtual_time and can_be_kept(one.cell.scenario)
        }
        """Of each cell in virtual time whose machines can be kept, what its test bed is made by."""
        self._agents = {
            id(one): (self._keys[id(one)], one.cell.scenario.model_dump_json(exclude={"loads"}))
            for one in order
            if id(one) in self._keys
        }
        """The same, and the specs of its agents."""
        cells, alike = Counter(self._keys.values()), Counter(self._agents.values())
        several = {key for (key, _), left in alike.items() if left < cells[key]}
        available = available_memory()
        needed = jobs * (ROOM + bool(several)) * max((one.cell.scenario.board_memory for one in order), default=0)
        room = available is None or available >= needed
        bases = {key: SharedBed(left) for key, left in cells.items() if key in several and room}
        self._beds = {
            told: SharedBed(left, with_agents=True, base=bases.get(told[0]))
            for told, left in alike.items()
            if left > 1 and room
        }
        self._bases = bases

    def of(self, one: MatrixRun) -> SharedBed | None:
        """The test bed that the cell shares with others, if it does."""
        told = self._agents.get(id(one))
        return (self._beds.get(told) or self._bases.get(told[0])) if told else None

    def in_groups(self, order: Sequence[MatrixRun], at_once: int) -> list[MatrixRun]:
        """The cells in the order to measure them: those that share a test bed one after the other.

        `at_once` groups side by side, as so many are measured at once and one of a group has to set it up; or some
        more, so that no group is left to be set up alone. In virtual time nothing drifts over a run, so that the order
        says nothing. In a group, cells whose agents have the same specs are together.
        """
        groups: dict[object, dict[object, list[MatrixRun]]] = {}
        for number, one in enumerate(order):
            of_bed = groups.setdefault(self._keys.get(id(one), number), {})
            of_bed.setdefault(self._agents.get(id(one)), []).append(one)
        lanes = [[one for several in group.values() for one in several] for group in groups.values()]
        count = max(1, len(lanes) // at_once)
        blocks = [lanes[len(lanes) * n // count : len(lanes) * (n + 1) // count] for n in range(count)]
        return [one for block in blocks for row in zip_longest(*block) for one in row if one is not None]

    def close(self) -> None:
        """Keep none any more."""
        for bed in (*self._beds.values(), *self._bases.values()):
            bed.close()


def _key(one: MatrixRun, site: Site) -> str:
    """What cells have in common that share a test bed, in hexadecimal.

    It is the machine, and every step as it is planned before there is a machine.
    """
    scenario = one.cell.scenario
    site = replace(site, others=planned_sites(scenario, site))
    steps = test_bed_steps(scenario, replace(site, **start_conditions(scenario, site)))
    parts = (machine_snapshots(scenario, site), *_words(steps))
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]


def _words(steps: Sequence[Step | Service]) -> Iterator[object]:
    for step in steps:
        done = step.argv if isinstance(step, Service) else (step.do, step.check and step.check.argv)
        yield from (step.host, step.title, done, isinstance(step, Service) and step.spec)


# What differs between the repetitions of a cell in virtual time: drawn from the repetition's seed.
#
# Where a clock counts instructions, a repetition would be a copy of the first, and what it shows one course of phases:
# of the stream against the load, and of both against the timer ticks of the VM host and of the guest. Each repetition
# takes other phases, far from those of the others, and gives the same figures each time it is made with its seed. All
# of them go on from one test bed.


RANGE_NS: Final = 20_000_000
"""Each is from 0 up to here: several timer ticks (4 ms at 250 Hz) and periods of streams and loads."""
STEP_NS: Final = 1000
APART_NS: Final = 6_472_000
"""By so much more than the one before it a repetition starts later. Drawn independently two of few repetitions may be
almost one: in a schedule of gates they then begin in the same cycle, and are copies. This is a tick and 0.618 of one:
multiples of the golden ratio stay apart. No two of 20 are closer than 0.58 ms, nor two of eight within a tick than
0.36 ms.
"""


@dataclass(frozen=True)
class Perturbation:
    """One repetition's. start_ns: how much later the streams start."""

    seed: int
    start_ns: int

    @classmethod
    def of(cls, seed: int) -> Self:
        """Return that of a seed: the same for every cell, so that a repetition is a block of cells alike."""
        first_ns = Random(1).randrange(0, RANGE_NS, STEP_NS)
        return cls(seed, (first_ns + (seed - 1) * APART_NS) % RANGE_NS)

    def load_ns(self, load: str, instance: int) -> int:
        """Return how much later an instance of a load starts than the one before it."""
        return Random(f"{self.seed} {load} {instance}").randrange(0, RANGE_NS, STEP_NS)
