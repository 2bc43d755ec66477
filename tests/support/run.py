"""One cell, measured: what the tests of probes ask of every run, whatever it measures."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from latlab.evaluation.run import make_result
from latlab.recordings.run_folder import CellFolder, RunFolder
from latlab.run.events import Event, Listener, Phase, ignore
from latlab.run.matrix import run
from latlab.scenario import load_scenario
from support.machine import dump

BASE: dict[str, Any] = {
    "name": "measured",
    "hosts": {"sensor": {"kind": "netns"}, "ecu": {"kind": "netns"}},
    "links": [{"ends": ["sensor.eth0", "ecu.eth0"]}],
    "warmup": "100ms",
}
"""What a scenario is a part of; a duration and something to measure come on top."""
Measured = tuple[dict[str, Any], CellFolder, RunFolder]
"""The cell of the result, its folder, and the run's."""
Measure = Callable[..., Measured]


@dataclass(frozen=True)
class Bench:
    """A folder for runs, and where the lab keeps its journals."""

    folder: Path
    journals: Path

    def measured(self, tell: Listener = ignore, /, **parts: Any) -> Measured:
        """What came of a run of the base with these parts; the machine is as it was before. tell: hears of the run."""
        path = self.folder / "s.yaml"
        path.write_text(yaml.safe_dump(BASE | parts, sort_keys=False))
        before = dump()
        folder = asyncio.run(run(load_scenario(path), self.folder / "runs", tell))
        assert dump() == before
        assert list(self.journals.iterdir()) == []
        (cell,) = make_result(folder).document()["cells"]
        (cell_folder,) = folder.cells()
        return cell, cell_folder, folder


def namespace(event: Event, host: str) -> str | None:
    """The network namespace of a host, as soon as packets are about to be sent."""
    if event != Phase("measuring", event.order if isinstance(event, Phase) else 0):
        return None
    names = subprocess.run(("ip", "netns", "list"), check=True, capture_output=True, text=True).stdout.split()
    (found,) = (name for name in names if name.endswith(host))
    return found
