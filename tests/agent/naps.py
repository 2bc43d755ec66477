"""A process whose one thread is woken again and again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

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
