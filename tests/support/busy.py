"""Processes that keep CPUs from others, or are woken again and again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

PRIORITY = 50
BUSY_S = 0.012
TIMES = 3
_PROGRAM = f"""
import os, sys, time
os.sched_setaffinity(0, {{0}})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param({PRIORITY}))
print("ready", flush=True)
sys.stdin.readline()
for _ in range({TIMES}):
    time.sleep(0.15)
    until = time.monotonic() + {BUSY_S}
    while time.monotonic() < until: pass
"""


class BusyCpu:
    """As a context: ready to keep CPU 0 busy at SCHED_FIFO, three times within half a second."""

    def __enter__(self) -> BusyCpu:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout
        assert self._process.stdout.readline() == "ready\n"
        return self

    def begin(self) -> None:
        """Nothing; the first time is shortly."""
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()


PATIENCE_S = 30
NAPS = "import time\nwhile True: time.sleep(0.0002)"


class Napping:
    """It naps as long as the context lasts."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", NAPS])
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def takes(self, naps: int, cpu: int | None = None) -> None:
        """Wait until it has taken so many more. cpu: on that CPU alone, from now on.

        A time that is waited instead may pass without any: others may have the CPU to themselves meanwhile.
        """
        if cpu is not None:
            os.sched_setaffinity(self.pid, {cpu})
        deadline = time.monotonic() + PATIENCE_S
        until = self._taken() + naps
        while self._taken() < until:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def _taken(self) -> int:
        found = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text(), re.M)
        assert found
        return int(found[1])


SPIN = ("timeout", "300", "sh", "-c", "while :; do :; done")


@contextmanager
def busy_machine() -> Iterator[None]:
    """While the context lasts, twice as many processes as this one has CPUs want to run there all the time."""
    with ExitStack() as stack:
        for _ in range(2 * len(os.sched_getaffinity(0))):
            hog = stack.enter_context(subprocess.Popen(SPIN))
            stack.callback(hog.terminate)
        yield
