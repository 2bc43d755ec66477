"""Whether there is room to build an image, and what is said when there is not."""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

from latlab.model.errors import LabError

FULL = (errno.ENOSPC, errno.EDQUOT)


@contextlib.contextmanager
def room(folder: Path, needed: int) -> Iterator[None]:
    """While the context lasts something is made in the folder. LabError: there is no room, at first or after a while.

    needed: bytes it takes at most, about.
    """
    if shutil.disk_usage(folder).free < needed:
        raise _no_room(folder, needed)
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise _no_room(folder, needed) from None
        raise


def _no_room(folder: Path, needed: int) -> LabError:
    free = shutil.disk_usage(folder).free
    return LabError(
        f"not enough space: building it takes about {_megabytes(needed)}, and {_megabytes(free)} are free",
        where=str(folder),
        remedy="free space there, or set LATLAB_CACHE to another folder",
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.0f} MB"
