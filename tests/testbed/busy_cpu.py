"""A program that keeps a CPU from threads of a lower priority, when a test says so."""

from __future__ import annotations

import subprocess
import sys
from types import TracebackType

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
