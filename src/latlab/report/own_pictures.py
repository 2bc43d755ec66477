"""Which files of a run's pictures are the report's own."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from latlab.model.metrics import METRICS_BY_NAME
from latlab.report import rows
from latlab.result.types import Result

KINDS: Final = ("png", "svg", "pdf")
_OF_A_METRIC: Final = ("", "-ccdf", "-repeats", "-together", "-chain", "-tail", "-comparison")
_OF_THE_RUN: Final = r"(clocks|gates|timers)(-\d+)?"


def file_stem(text: str) -> str:
    """The text as a picture's name: what a file's name cannot have is "_"."""
    return re.sub(r"[^\w.-]", "_", text)


def remove_own_pictures(folder: Path, result: Result, headings: Iterable[str]) -> None:
    """Remove the pictures that an earlier report wrote into the folder, and no other file.

    headings: of the sweeps, as their pictures have them in their names.
    """
    suffixes = (*_OF_A_METRIC, *(f"-by-{heading}" for heading in headings))
    stems = {
        file_stem(f"{stream}-{metric}{suffix}")
        for stream in rows.stream_names(result)
        for metric in METRICS_BY_NAME
        for suffix in suffixes
    }
    for path in folder.glob("*"):
        own = path.stem in stems or re.fullmatch(_OF_THE_RUN, path.stem)
        if own and path.suffix.removeprefix(".") in KINDS and path.is_file():
            path.unlink()
