"""A machine with more to do than it has CPUs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

SPIN = ("timeout", "300", "sh", "-c", "while :; do :; done")


@contextmanager
def busy_machine() -> Iterator[None]:
    """While the context lasts, twice as many processes as this one has CPUs want to run there all the time."""
    with ExitStack() as stack:
        for _ in range(2 * len(os.sched_getaffinity(0))):
            hog = stack.enter_context(subprocess.Popen(SPIN))
            stack.callback(hog.terminate)
        yield
