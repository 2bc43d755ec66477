"""What `latlab compare` compares: runs, or cells of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from latlab.analysis.comparison.configuration import Configuration, configurations
from latlab.model.errors import LabError, UsageError
from latlab.recordings.run_folder import RunFolder
from latlab.result import Result, load_result

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class Side:
    """One run, or one cell of it (slug).

    name: what it is called next to the others: A, B, …, or baseline and new. found: the configurations that count.
    """

    name: str
    folder: RunFolder
    result: Result
    slug: str | None
    found: tuple[Configuration, ...]


def open_sides(texts: Sequence[str], root: Path, names: Sequence[str] = LETTERS) -> list[Side]:
    """A side for each text, `RUN` or `RUN:CELL`. UsageError: it is none, has nothing to compare, or is there twice.

    root: where runs are looked for by name. names: what the sides are to be called.
    """
    if len(texts) > len(names):
        raise UsageError(
            f"{len(texts)} runs or cells", where="RUN...", remedy=f"compare {len(names)} at most at a time"
        )
    sides = [_open(text, root, name) for text, name in zip(texts, names, strict=False)]
    if len({side.slug is None for side in sides}) > 1:
        raise UsageError(
            "a whole run cannot be compared with one cell of another",
            where=" ".join(texts),
            remedy="name a cell of each as RUN:CELL, or of none",
        )
    seen: dict[tuple[str, str | None], str] = {}
    for side, text in zip(sides, texts, strict=True):
        if first := seen.get((side.result.run, side.slug)):
            raise UsageError("both are the same", where=f"{first} and {text}", remedy="name two different ones")
        seen[side.result.run, side.slug] = text
    return sides


def _open(text: str, root: Path, name: str) -> Side:
    folder, slug = _find(text, root)
    if folder.is_live():
        raise UsageError("the run is still being measured", where=folder.id, remedy="wait for its end, or end it")
    try:
        result = load_result(folder)
    except LabError as error:
        if folder.result_path.exists():
            raise
        raise UsageError("the run has no result yet", where=folder.id, remedy=f"latlab report {folder.path}") from error
    found = configurations(result)
    if slug is None:
        if not found:
            raise UsageError(
                "no cell of this run was measured to its end",
                where=folder.id,
                remedy=f"latlab report {folder.path} says why",
            )
        return Side(name, folder, result, None, found)
    chosen = tuple(one for one in found if one.slug == slug)
    if not chosen:
        known = any(cell.slug == slug for cell in result.cells)
        raise UsageError(
            "this cell was not measured to its end" if known else f"the run has no cell {slug!r}",
            where=folder.id,
            remedy=f"one of {', '.join(one.slug for one in found) or 'none: no cell was measured'}",
        )
    return Side(name, folder, result, slug, chosen)


def _find(text: str, root: Path) -> tuple[RunFolder, str | None]:
    """The run's folder, and the cell if one is named. A folder may have a colon in its name; a cell has none."""
    try:
        return RunFolder.open(text, root=root), None
    except UsageError:
        run, colon, slug = text.rpartition(":")
        if not colon:
            raise
    return RunFolder.open(run, root=root), slug
