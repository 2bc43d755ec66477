"""The cells without figures, or with fewer than were meant: which, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from latlab.model.part import UNAVAILABLE, Failure, Status
from latlab.report.rows import ordered_cells
from latlab.result.places import CellPlaces
from latlab.result.types import Cell, Result


@dataclass(frozen=True)
class Unmeasured:
    """One reason, and the cells that have it."""

    cells: tuple[str, ...]
    status: str
    what: str
    where: str
    remedy: str

    @property
    def text(self) -> str:
        """Which cells, what, where, and what to do, with the lines of logs."""
        return self._text(self.cells, self.what)

    def short(self, most: int) -> str:
        """It without the lines of logs; of more than so many cells the first, and how many more there are."""
        cells = self.cells
        if len(cells) > most:
            cells = (*cells[: most - 1], f"{len(cells) - most + 1} more")
        return self._text(cells, self.what.partition("\n")[0])

    def _text(self, cells: tuple[str, ...], what: str) -> str:
        where = f"{self.where}: " if self.where else ""
        remedy = f" ({self.remedy})" if self.remedy else ""
        return f"{'; '.join(cells)}: {self.status}: {where}{what}{remedy}"


def unavailable(result: Result) -> list[Unmeasured]:
    """What this machine could not build, by reason."""
    return _by_reason(result, lambda status: status == UNAVAILABLE)


def unfinished(result: Result) -> list[Unmeasured]:
    """What failed, was interrupted or never run, by reason."""
    return _by_reason(result, lambda status: status not in ("ok", UNAVAILABLE))


def _by_reason(result: Result, wanted: Callable[[Status], bool]) -> list[Unmeasured]:
    cells: dict[tuple[str, str, str, str], list[Cell]] = {}
    for cell in ordered_cells(result):
        if wanted(cell.status):
            for reason in _reasons(cell.reason):
                cells.setdefault((cell.status, *reason), []).append(cell)
    places = CellPlaces(result)
    return [Unmeasured(places.told(found), *reason) for reason, found in cells.items()]


def _reasons(reason: Failure | None) -> Iterator[tuple[str, str, str]]:
    """(what, where, remedy) of each of the problems, where it is made of several."""
    if not reason:
        yield ("no reason given", "", "")
    elif problems := reason.problems:
        for problem in problems:
            yield from _reasons(problem)
    else:
        yield (reason.what, reason.where, reason.remedy)
