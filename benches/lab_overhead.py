"""What the lab adds to a cell: from its beginning to the first packet, less the guest's own start, and its tear-down.

    benches/lab_overhead.py [--repeat 2] [--bridge tap --bridge xdp …]

Each cell is measured for half a second. The guest's own start is the step that starts it and waits until it answers.
The first cell of a bridge may boot its guest again, to keep it for the others to start from: that is left out, too.
All figures are seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bed import need_root

from latlab.recordings.cell import RecordedCell
from latlab.run.events import CellEnded, CellStarted, Event, Phase
from latlab.run.matrix import run
from latlab.scenario import load_scenario

BRIDGES = ("user", "tap", "macvtap", "xdp", "ovs", "ovs-afxdp")
GUEST = "vm1"
OWN_START = (f"start {GUEST}", f"boot {GUEST}", f"keep {GUEST}")
"""How the titles of the steps begin that are the guest's own start."""
MOST_STEPS = 8
"""Steps that are listed one by one."""


@dataclass
class Cell:
    """One cell as it went: when (s) it and each of its phases began, and its cell.json."""

    began: float
    phases: dict[str, float] = field(default_factory=dict)
    document: RecordedCell | None = None

    @property
    def steps(self) -> dict[str, float]:
        """How long each step took, s; those of one title together."""
        seconds: dict[str, float] = defaultdict(float)
        for step in self._ended.steps:
            seconds[step.title] += step.seconds or 0
        return seconds

    @property
    def _ended(self) -> RecordedCell:
        assert self.document
        return self.document

    @property
    def own_start(self) -> float:
        """The guest's own start."""
        return sum(seconds for title, seconds in self.steps.items() if title.startswith(OWN_START))

    @property
    def parts(self) -> dict[str, float]:
        """What comes before the first packet, less the guest's own start, and what it adds up to."""
        steps = sum(self.steps.values())
        start_tai_ns = self._ended.start_tai_ns
        assert start_tai_ns is not None
        first = start_tai_ns / 1e9 - _tai_of_monotonic()
        listening, comparing = self._ready("sensor", "listen"), self._ready("ecu", "clock")
        before = {
            "checks before the steps": self.phases["setting up"] - self.began,
            "steps on hosts and guests": steps - self.own_start,
            "facts, interfaces, listeners": listening - self.phases["setting up"] - steps,
            "talkers, the host's side of the clocks": comparing - listening,
            "the guest's side of the clocks": self.phases["measuring"] - comparing,
            "until the common start": first - self.phases["measuring"],
        }
        return before | {"to the first packet": sum(before.values())}

    def _ready(self, host: str, verb: str) -> float:
        """When the host's agent was ready, by time.monotonic()."""
        ready = next(agent.ready for agent in self._ended.agents if (agent.host, agent.verb) == (host, verb))
        assert ready
        return ready.tai_ns / 1e9 - _tai_of_monotonic()

    @property
    def ends(self) -> dict[str, float]:
        """What comes after the last packet."""
        return {
            "stopping agents, facts": self.phases["tearing down"] - self.phases["stopping"],
            "tear-down": self.phases["joining"] - self.phases["tearing down"],
        }


def scenario(bridges: Iterable[str], repeat: int) -> str:
    """Its text: a guest behind each bridge, both ways."""
    return f"""
name: overhead
hosts: {{sensor: {{kind: netns}}, ecu: {{kind: netns}}}}
links: [{{ends: [sensor.eth0, ecu.eth0]}}]
guests: {{{GUEST}: {{host: ecu, uplink: eth0}}}}
streams:
  down: {{talker: sensor, listener: {GUEST}, period: 5ms, size: 64B}}
  up: {{talker: {GUEST}, listener: sensor, period: 5ms, size: 64B}}
duration: 500ms
repeat: {repeat}
matrix: {{guests.{GUEST}.bridge: [{", ".join(bridges)}]}}
"""


async def measured(bridges: Iterable[str], repeat: int) -> list[Cell]:
    """Every cell that was measured, in the order in which they were run."""
    cells: list[Cell] = []

    def listener(event: Event) -> None:
        now = time.monotonic()
        if isinstance(event, CellStarted):
            cells.append(Cell(now))
        elif isinstance(event, Phase):
            cells[-1].phases[event.name] = now
        elif isinstance(event, CellEnded):
            cells[-1].document = event.cell
            print(f"{event.cell.slug}: {event.cell.status} {event.cell.reason.what if event.cell.reason else ''}")

    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "overhead.yaml")
        path.write_text(scenario(bridges, repeat))
        await run(load_scenario(path), Path(place), listener)
    return [cell for cell in cells if cell.document and cell.document.status == "ok"]


def show(title: str, rows: Mapping[str, list[float]]) -> None:
    """Prints min, median and max of each row."""
    print(f"\n{title:58}  {'min':>6} {'median':>6} {'max':>6}")
    for name, values in rows.items():
        ordered = sorted(values)
        print(f"  {name[:56]:56}  {ordered[0]:6.2f} {ordered[len(ordered) // 2]:6.2f} {ordered[-1]:6.2f}")


def gathered(one_each: Iterable[Mapping[str, float]]) -> dict[str, list[float]]:
    """name → the value of each cell that has one."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in one_each:
        for name, value in row.items():
            found[name].append(value)
    return found


def _tai_of_monotonic() -> float:
    return time.clock_gettime(time.CLOCK_TAI) - time.monotonic()


async def main() -> None:
    """Runs the cells and prints what they took."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--repeat", type=int, default=2)
    arguments.add_argument("--bridge", action="append", choices=BRIDGES)
    given = arguments.parse_args()
    need_root()
    cells = await measured(given.bridge or BRIDGES, given.repeat)
    show(f"{len(cells)} cells, before the first packet", gathered(cell.parts for cell in cells))
    show("the guest's own start", {"boot, or start from a snapshot": [cell.own_start for cell in cells]})
    show("after the last packet", gathered(cell.ends for cell in cells))
    steps = gathered(cell.steps for cell in cells)
    longest = sorted(steps, key=lambda title: -sum(steps[title]))
    ours = [title for title in longest if not title.startswith(OWN_START)]
    show(f"the {MOST_STEPS} longest steps", {title: steps[title] for title in ours[:MOST_STEPS]})


if __name__ == "__main__":
    asyncio.run(main())
