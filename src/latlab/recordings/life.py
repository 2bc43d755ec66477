"""Whether the lab that makes a run is alive: it holds a lock on the run's scenario.yaml, which is written once.

The lock is flock(2)'s: the kernel drops it however the lab ends, SIGKILL included.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Make `is_held(path)` true in every process while the context lasts. OSError: there is no such file."""
    # Open for writing: network file systems give an exclusive lock only then.
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """Whether a living process holds the file; False if there is no such file, or locks are not allowed there."""
    try:
        # Opening a pipe for reading would wait until a writer opens it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False
