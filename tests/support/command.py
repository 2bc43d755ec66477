"""The `latlab` command, started as a user starts it, and what it leaves on the machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml

from latlab.result.store import typed
from latlab.testbed.agent_binary import find_agent
from support.machine import dump

LATLAB = Path(sys.executable).with_name("latlab")
DRAWING = ("run", "report")
"""The verbs that draw pictures."""
PATIENCE_S = 120.0
PACKETS = 1500
WARMUP = 200
SMALL: dict[str, Any] = {
    "name": "small",
    "hosts": {"sensor": {"kind": "netns"}, "ecu": {"kind": "netns"}},
    "links": [{"ends": ["sensor.eth0", "ecu.eth0"]}],
    "streams": {"control": {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B", "priority": 7}},
    "loads": {"flood1": {"kind": "flood", "from": "sensor", "to": "ecu", "rate": "20Mbit/s", "size": "1000B"}},
    "duration": f"{PACKETS}ms",
    "warmup": f"{WARMUP}ms",
    "matrix": {"loads": ["none", "flood1"]},
}
"""Two namespaces, idle and next to a modest load."""


@dataclass(frozen=True)
class Ended:
    """A command that has ended. What it said is plain text, whatever happened: no colours, no traceback."""

    status: int
    out: str
    err: str

    def __post_init__(self) -> None:
        for said in (self.out, self.err):
            assert "\x1b" not in said, said
            assert "Traceback" not in said, said

    @property
    def document(self) -> Any:
        """Standard output, which is one JSON document and nothing else."""
        return json.loads(self.out)


class Lab:
    """A `latlab` that is running."""

    def __init__(self, process: subprocess.Popen[str], patience_s: float) -> None:
        self.process = process
        self.patience_s = patience_s
        self.lines: list[str] = []

    def until(self, text: str) -> str:
        """The next line that holds the text."""
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.append(line)
            if text in line:
                return line
        raise AssertionError(f"ended without {text!r}: {''.join(self.lines)}{self.ended()}")

    def signal(self, number: int) -> None:
        """Nothing; the lab, and no other process, has been sent the signal."""
        self.process.send_signal(number)

    def ended(self) -> Ended:
        """What came of it, once it is over."""
        out, err = self.process.communicate(timeout=self.patience_s)
        return Ended(self.process.returncode, "".join(self.lines) + out, err)


class Place:
    """A folder with a separate journal, runs and agent, by whose path its processes are known.

    As a context it leaves no lab behind, whatever happens in it: one that went on would slow all that follows.
    """

    patience_s = PATIENCE_S
    """How long a command may take before it is given up as one that hangs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = folder / "runs"
        self.journals = folder / "journals"
        self._agent = folder / "latlab-agent"
        self._agent.symlink_to(find_agent())
        self._labs: list[Lab] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end_all()

    def scenario(self, **parts: Any) -> Path:
        """A file with the small scenario, parts of it replaced; None takes a part away."""
        path = self.folder / "small.yaml"
        path.write_text(yaml.safe_dump({key: value for key, value in (SMALL | parts).items() if value is not None}))
        return path

    @property
    def environment(self) -> dict[str, str]:
        """What makes a lab one of this place."""
        return {"LATLAB_STATE": str(self.journals), "LATLAB_AGENT": str(self._agent)}

    def start(
        self, *arguments: object, before: tuple[str, ...] = (), pictures: bool = False, **environment: str
    ) -> Lab:
        """The command, running in the folder. before: a command that starts it; environment: changes.

        pictures: are drawn, which takes longer than most runs here.
        """
        undrawn = () if pictures or arguments[0] not in DRAWING else ("--picture", "none")
        process = subprocess.Popen(
            [*before, str(LATLAB), *map(str, arguments), *undrawn],
            cwd=self.folder,
            env=os.environ | self.environment | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._labs.append(Lab(process, self.patience_s))
        return self._labs[-1]

    def latlab(
        self, *arguments: object, before: tuple[str, ...] = (), pictures: bool = False, **environment: str
    ) -> Ended:
        """What came of the command."""
        return self.start(*arguments, before=before, pictures=pictures, **environment).ended()

    def agents(self) -> dict[int, str]:
        """The verb of every agent of this place that is alive, by its pid."""
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                command = (entry / "cmdline").read_bytes().decode().split("\0") if entry.name.isdigit() else []
            except OSError:
                continue  # it has ended meanwhile
            if command and command[0] == str(self._agent):
                found[int(entry.name)] = command[1]
        return found

    def wait_until_agents_are_gone(self) -> None:
        """Nothing; no agent is alive. The test fails if one outlives its lab."""
        deadline = time.monotonic() + PATIENCE_S
        while agents := self.agents():
            assert time.monotonic() < deadline, agents
            time.sleep(0.02)

    def trace(self) -> dict[str, Any]:
        """All that a run could leave behind: interfaces, addresses, namespaces, processes, journals."""
        journals = sorted(path.name for path in self.journals.iterdir()) if self.journals.exists() else []
        return {"network": dump(), "agents": self.agents(), "journals": journals}

    def only_run(self) -> Path:
        """The folder of the one run there is."""
        (folder,) = self.runs.iterdir()
        return folder

    def end_all(self) -> None:
        """Nothing; every lab of this place has ended, and so have its agents."""
        running = [lab for lab in self._labs if lab.process.poll() is None]
        for lab in running:
            lab.signal(signal.SIGKILL)
        for lab in self._labs:
            lab.process.communicate()
        if running:
            # Its guests and switches go on without it.
            self.latlab("clean")
        self.wait_until_agents_are_gone()


@dataclass(frozen=True)
class FinishedRun:
    """A run of the small scenario, printed with --json: what it printed, its folder, the machine before and after."""

    place: Place
    ended: Ended
    folder: Path
    before: Any
    after: Any


def read(path: Path) -> Any:
    """A JSON file; a result is one of the declared types."""
    found = json.loads(path.read_text())
    if path.name == "result.json":
        typed(found)
    return found


def cells_of(run: Path) -> dict[str, Any]:
    """Every cell.json of a run, by `slug/rN`."""
    return {f"{path.parent.parent.name}/{path.parent.name}": read(path) for path in run.glob("cells/*/*/cell.json")}


def until_measuring(place: Place, lab: Lab) -> None:
    """Nothing; the streams of the lab's one cell have been started."""
    until = time.monotonic() + PATIENCE_S
    while not cells_of(place.only_run()):
        assert time.monotonic() < until and lab.process.poll() is None
        time.sleep(0.1)
