"""Snapshots of guests that have booted an image: where they are, and how many are kept. They go with their image."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from pathlib import Path

from latlab.testbed.images.image import Image

NAME = re.compile(r"[0-9a-f]{16}")
PART = re.compile(r"\.[0-9a-f]{16}\.([0-9]+)")
BEGINNING, END = b"QEVM", b"]}"
"""QEMU's migration stream (docs/devel/migration in QEMU) begins with a magic number and ends with a description of what
is in it, in JSON."""
KEEP = 8
"""The last used snapshots of an image that are kept; each is about as large as what its guest uses of its memory."""


def snapshot_path(image: Image, key: str) -> Path:
    """Where the snapshot of that image and key is, whether it is there or not.

    key: all that the guest was started with, such as QEMU's version and command line, and what was done in it since.
    """
    return image.folder / "snapshots" / hashlib.sha256(key.encode()).hexdigest()[:16]


def is_whole(path: Path) -> bool:
    """Whether a snapshot is there, with its beginning and its end: no file that was cut short or not wholly written.

    Whether this QEMU takes it shows when it is loaded.
    """
    try:
        with path.open("rb") as file:
            beginning = file.read(len(BEGINNING))
            file.seek(-len(END), os.SEEK_END)
            return (beginning, file.read()) == (BEGINNING, END)
    except OSError:
        return False


def part_path(path: Path) -> Path:
    """Where this process writes a snapshot that, once it is whole, is renamed to `path`."""
    return path.with_name(f".{path.name}.{os.getpid()}")


def mark_used(path: Path) -> None:
    """Count the snapshot as the newest from now on."""
    with contextlib.suppress(OSError):
        os.utime(path)


def keep_newest(folder: Path, keep: int = KEEP) -> None:
    """Leave in that folder of snapshots the `keep` last made or used, and no parts of one whose writer has died."""
    whole = []
    for path in folder.iterdir():
        # What else is in the folder is not ours.
        if NAME.fullmatch(path.name):
            whole.append(path)
        elif (part := PART.fullmatch(path.name)) and not Path(f"/proc/{part[1]}").exists():
            path.unlink(missing_ok=True)
    whole.sort(key=lambda path: path.stat().st_mtime_ns)
    for path in whole[:-keep]:
        path.unlink(missing_ok=True)
