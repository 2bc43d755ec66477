"""A folder, a journal and scenarios whose test bed is made on one board."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import yaml
from numpy.typing import NDArray

from latlab.testbed.site import STATE
from support.command import Lab, Place, cells_of
from support.machine import alive, private_network, run
from support.programs import PROGRAMS

STRUCK_LAB = PROGRAMS / "struck_lab.py"
GONE_S = 10
HAND_OVER_NS = 4_000
"""From the decision of a qdisc on a board in virtual time to the driver's timestamp; some thousand instructions."""
INTERRUPTED_NS = 25_000
"""The same where an interrupt comes between, such as that of the gates' own timer: 20 µs through a gate that never
closes. The first packets meet a kernel that has never sent any: 18 µs."""
Window = tuple[int, int]
"""When a gate opens and closes within the cycle, ns."""
PANIC = "echo c >/proc/sysrq-trigger"
HANG = f"echo 0 >/proc/sys/kernel/panic; {PANIC}"
"""A kernel that panics and is not to start again is stopped for ever."""


def assert_left_within(windows: Sequence[Window], left_tai_ns: NDArray[np.int64], cycle_ns: int) -> None:
    """What left a board in virtual time by its gates did so while they were open, by the driver's timestamps: but for
    one packet in a hundred no later than a hand-over, and all no later than one that is interrupted.
    """
    phases = left_tai_ns % cycle_ns
    for after_ns, outside in ((INTERRUPTED_NS, 0), (HAND_OVER_NS, len(phases) // 100)):
        inside = np.zeros(len(phases), bool)
        for opens, closes in windows:
            inside |= (phases - opens) % cycle_ns < closes - opens + after_ns
        assert (~inside).sum() <= outside, (after_ns, np.sort(phases[~inside]))


class BoardPlace(Place):
    """A place whose scenarios are made on one board, two namespaces on it with a link between them."""

    patience_s = 500
    """Whole kernels boot in emulation, and guests in emulation within it, next to whatever else the machine does."""

    def board_scenario(self, **parts: Any) -> Path:
        """A file: one stream over the link; parts of it replaced."""
        whole: dict[str, Any] = {
            "name": "on-a-board",
            "hosts": {
                "board1": {"kind": "board"},
                "sensor": {"kind": "netns", "on": "board1"},
                "ecu": {"kind": "netns", "on": "board1"},
            },
            "links": [{"ends": ["sensor.eth0", "ecu.eth0"]}],
            "streams": {"control": {"talker": "sensor", "listener": "ecu", "period": "5ms", "size": "64B"}},
            "duration": "1s",
        }
        path = self.folder / "board.yaml"
        path.write_text(yaml.safe_dump(whole | parts))
        return path

    def struck(self, command: str, **parts: Any) -> str:
        """Why the first of two cells failed, as its board was hit by the command; the other is complete."""
        before = self.trace()
        by = (sys.executable, str(STRUCK_LAB), command)
        lab = self.start("run", self.board_scenario(repeat=2, **parts), before=by)
        lab.until("drawing the report")
        ended = lab.ended()
        assert ended.status == 3, ended.err + ended.out
        first, second = sorted(cells_of(self.only_run()).values(), key=lambda cell: cell["order"])
        assert (first["status"], second["status"]) == ("failed", "ok")
        assert self.trace() == before
        assert "after that" not in first["reason"]["what"] and first["reason"]["remedy"]
        return str(first["reason"]["what"])

    def board_pid(self, name: str = "board1") -> int:
        """The board's QEMU."""
        (pid,) = Path("/run/latlab").glob(f"*-ways/{name}/pid")
        return int(pid.read_text())

    def killed_lab_leaves_nothing(self, **parts: Any) -> None:
        """The lab is killed while it measures: its board ends on its own, and cleaning up undoes the rest."""
        before = self.trace()
        lab = self.start("run", self.board_scenario(**parts), "--verbose")
        lab.until("measuring")
        pid = self.board_pid()
        lab.signal(signal.SIGKILL)
        lab.ended()
        self.until_gone(pid)
        assert self.latlab("clean").status == 0
        assert self.trace() == before

    def until_gone(self, pid: int) -> None:
        """The process ends on its own."""
        deadline = time.monotonic() + GONE_S
        while alive(pid):
            assert time.monotonic() < deadline, f"{pid} runs on"
            time.sleep(0.05)

    def killed(self, lab: Lab, name: str = "board1") -> list[dict[str, Any]]:
        """The cells, in their order, of a lab that measures, as the board's QEMU is killed; nothing else is left."""
        lab.until("measuring")
        os.kill(self.board_pid(name), signal.SIGKILL)
        assert lab.ended().status == 3
        first, *others = sorted(cells_of(self.only_run()).values(), key=lambda cell: cell["order"])
        assert first["status"] == "failed"
        assert f"start {name}: `qemu-system-x86_64` was ended by signal 9" in first["reason"]["what"]
        assert [one for one in first["rechecks"] if not one["ok"]] == []
        return [first, *others]


@contextmanager
def board_place(folder: Path, cache: Path) -> Iterator[BoardPlace]:
    """A place on a machine of its own, with the images in `cache`; no lab of it outlives the context."""
    with private_network(), mock.patch.dict(os.environ, LATLAB_CACHE=str(cache)):
        os.makedirs(STATE, exist_ok=True)
        run("mount", "-t", "tmpfs", "tmpfs", STATE)
        with BoardPlace(folder) as made:
            yield made


def received(cell: dict[str, object]) -> list[int]:
    """The packets of each stream that arrived, as the listeners counted them."""
    return [
        stream["received"]
        for agent in cell["agents"]  # type: ignore[attr-defined]
        if agent["verb"] == "listen"
        for stream in agent["done"]["streams"]
    ]
