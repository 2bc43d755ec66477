"""A CPU of this machine for the QEMU of a board in virtual time, which needs one and cannot use two.

Labs find out who has which by locked files. Where there are more boards than CPUs, boards share the last one: they take
longer, and count the same instructions.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from latlab.testbed.site import STATE


@contextlib.contextmanager
def emulator_cpu() -> Iterator[int]:
    """Keep a CPU of those that this process may use: the last that no other board has."""
    cpus = sorted(os.sched_getaffinity(0), reverse=True)
    Path(STATE).mkdir(parents=True, exist_ok=True)
    for cpu in cpus:
        with (Path(STATE) / f"cpu{cpu}.lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield cpu
            return
    yield cpus[0]
