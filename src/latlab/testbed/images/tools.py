"""Calling Debian's own tools, which change nothing on this machine."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from latlab.model.errors import LabError

ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
Say = Callable[[str], None]
"""Called with a line for each step."""
NO_ROOM = ("No space left on device", "Disk quota exceeded", "You don't have enough free space", ": Wrote only ")
"""What tools say when a file system is full; the last is tar's, of a file that just did not fit."""


def printed(*argv: str, cwd: Path | None = None, remedy: str = "") -> str:
    """What the command printed. LabError: it is not here, or it failed, with what it complained of and the remedy.

    OSError: it had no room to write.
    """
    try:
        done = subprocess.run(
            argv,
            check=False,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            cwd=cwd,
            env=os.environ | ENVIRONMENT,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        raise LabError(
            f"{argv[0]} is not on the PATH",
            where="building an image",
            remedy="images are built from Debian's packages: build them on Debian, and copy the images folder",
        ) from None
    if done.returncode and any(words in done.stderr for words in NO_ROOM):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(cwd or ""))
    if done.returncode:
        raise LabError(f"{_name(argv)} failed: {_complaint(done.stderr)}", where="building an image", remedy=remedy)
    return done.stdout


def _name(argv: Sequence[str]) -> str:
    return " ".join(argv[:2])


def _complaint(stderr: str) -> str:
    """The errors among what a tool said, in one line; its first line when it marked none as such."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("E: ") for line in lines if line.startswith("E: ")]
    return "; ".join(dict.fromkeys(errors)) or (lines[0] if lines else "with no message")
