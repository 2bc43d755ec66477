"""A lab with a guest behind a bridge, run here or as the `latlab` command, and something done to it meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from latlab.recordings.arrow import Recording, read_recording
from latlab.recordings.cell import RecordedCell
from latlab.run.events import CellEnded, Event, Phase
from latlab.run.matrix import run as run_scenario
from latlab.scenario import load_scenario
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.site import STATE
from latlab.testbed.undo import MARK
from support.command import Place
from support.machine import run

PERIOD_MS = 5
DURATION_S = 5
"""Long enough that on a busy machine a fault comes before the end."""
PACKETS = DURATION_S * 1000 // PERIOD_MS
FAULT_AFTER_S = 2.2
KEPT = 1
"""What is recorded until a fault is kept but for its last second, and what a busy machine did not come to copy."""
GUEST = "vm1"


def guest_scenario(bridge: str = "tap", **parts: Any) -> dict[str, Any]:
    """Two namespaces, and a guest beyond the second; what begins with `guest_` is the guest's."""
    guest = {name.removeprefix("guest_"): parts.pop(name) for name in list(parts) if name.startswith("guest_")}
    stream = {"talker": "sensor", "listener": GUEST, "period": f"{PERIOD_MS}ms", "size": "64B"}
    return {
        "name": "faults",
        "hosts": {"sensor": {"kind": "netns"}, "ecu": {"kind": "netns"}},
        "links": [{"ends": ["sensor.eth0", "ecu.nic"]}],
        "guests": {GUEST: {"host": "ecu", "uplink": "nic", "bridge": bridge, **guest}},
        "streams": {"control": stream},
        "duration": f"{DURATION_S}s",
        "warmup": "100ms",
        **parts,
    }


@dataclass
class Told:
    """What a run said of itself, and when (time.monotonic(), s)."""

    events: list[tuple[float, Event]] = field(default_factory=list)

    def cells(self) -> list[dict[str, Any]]:
        """Each cell's cell.json, in the order they were run."""
        return [event.cell.document() for _, event in self.events if isinstance(event, CellEnded)]

    def cell(self) -> RecordedCell:
        """The only one's."""
        (cell,) = (event.cell for _, event in self.events if isinstance(event, CellEnded))
        return cell

    def seconds(self, first: str, then: str) -> float:
        """From the beginning of one phase to the beginning of another, in the first cell."""
        at: dict[str, float] = {}
        for when, event in self.events:
            if isinstance(event, Phase):
                at.setdefault(event.name, when)
        return at[then] - at[first]


class GuestPlace(Place):
    """A place whose labs have guests."""

    @property
    def environment(self) -> dict[str, str]:
        """What makes a lab this place's."""
        return {"LATLAB_STATE": str(self.journals), "LATLAB_AGENT": str(self._agent)}

    def file(self, bridge: str = "tap", **parts: Any) -> Path:
        """The scenario's file."""
        path = self.folder / f"{bridge}.yaml"
        path.write_text(yaml.safe_dump(guest_scenario(bridge, **parts)))
        return path

    def measure(
        self,
        bridge: str = "tap",
        fault: Callable[[], object] | None = None,
        *,
        at: str = "measuring",
        after_s: float = FAULT_AFTER_S,
        **parts: Any,
    ) -> Told:
        """What the run told, which has ended; the fault happened so long after that phase of the first cell began."""
        told = Told()
        struck: list[asyncio.Task[object]] = []

        async def strike(fault: Callable[[], object]) -> None:
            await asyncio.sleep(after_s)
            await asyncio.to_thread(fault)

        def listener(event: Event) -> None:
            told.events.append((time.monotonic(), event))
            if fault and not struck and isinstance(event, Phase) and event.name == at:
                struck.append(asyncio.ensure_future(strike(fault)))

        async def session() -> None:
            await run_scenario(load_scenario(self.file(bridge, **parts)), self.runs, listener)
            await asyncio.gather(*struck)

        asyncio.run(session())
        return told

    def guest_folder(self) -> Path:
        """Of the only guest that runs."""
        (folder,) = Path(STATE).glob(f"*/{GUEST}")
        return folder

    def in_guest(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The command, which has ended in the guest."""
        argv = [str(find_agent()), "in", str(self.guest_folder()), *words]
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)

    def in_host(self, host: str, *words: str) -> str:
        """What the command printed on a host of the scenario's."""
        (namespace,) = Path("/run/netns").glob(f"latlab-*-{host}")
        return run("ip", "netns", "exec", namespace.name, *words)

    def device(self, suffix: str) -> str:
        """The name of an interface that was made for the run."""
        return f"ll{self.guest_folder().parent.name}{suffix}"

    def signal_qemu(self, number: int) -> None:
        """Nothing; the guest's QEMU has been sent the signal."""
        os.kill(int((self.guest_folder() / "pid").read_text()), number)

    def marked(self) -> dict[int, str]:
        """The command of every living process of this place that carries our mark, by its pid."""
        ours = f"LATLAB_STATE={self.journals}"
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                environment = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
                command = (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
            if ours in environment and any(one.startswith(f"{MARK}=") for one in environment):
                found[int(entry.name)] = command
        return found

    def trace(self) -> dict[str, Any]:
        """All that a run could leave behind."""
        namespaces = [entry["name"] for entry in json.loads(run("ip", "-j", "netns") or "[]")]
        inside = {name: ("ip", "netns", "exec", name) for name in namespaces}
        places: dict[str, tuple[str, ...]] = {"": (), **inside}
        return super().trace() | {
            "links": {name: _without_numbers(run(*place, "ip", "-j", "-d", "link")) for name, place in places.items()},
            "qdiscs": {name: run(*place, "tc", "qdisc") for name, place in places.items()},
            "programs": {name: json.loads(run(*place, "bpftool", "-j", "net")) for name, place in places.items()},
            "pinned": sorted(os.listdir("/sys/fs/bpf")),
            "processes": self.marked(),
            "files": sorted(map(str, Path(STATE).rglob("*"))),
            # Those of namespaces are in the network's part.
            "mounts": [line for line in _mounts() if not line.startswith("nsfs ")],
        }

    def recordings(self) -> dict[str, Recording]:
        """Every recording of the only run by cell and name, read; the test fails if one cannot be."""
        run_folder = self.only_run()
        return {
            str(path.relative_to(run_folder / "cells").with_suffix("")): read_recording(
                path, path.stem.partition(".")[2]
            )
            for path in sorted(run_folder.rglob("*.arrow"))
        }


def _mounts() -> list[str]:
    return Path("/proc/thread-self/mounts").read_text().splitlines()


def _without_numbers(listed: str) -> list[dict[str, Any]]:
    entries = json.loads(listed or "[]")
    return [{key: value for key, value in entry.items() if key not in ("ifindex", "link_index")} for entry in entries]
