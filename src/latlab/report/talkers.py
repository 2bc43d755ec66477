"""Talkers: what each packet costs them in CPU time and wake-ups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from latlab.analysis.words import duration
from latlab.report import rows
from latlab.report.places import cell_title
from latlab.result.types import Cell, Result

TITLE: Final = "Talkers: CPU time and wake-ups of the sending thread for each packet, warm-up included"
HEADINGS: Final = ("cell", "repeat", "talker", "packets", "CPU time per packet", "wake-ups per packet")
FIGURES: Final = range(3, len(HEADINGS))
"""Which of them are numbers."""


@dataclass(frozen=True)
class Cost:
    """What each packet cost one talker of a cell: ns of CPU time, and wake-ups. several: the cell has more of them."""

    cell: Cell
    host: str
    several: bool
    packets: int
    cpu_ns: float
    wakeups: float


def costs(result: Result) -> Iterator[Cost]:
    """Each talker that sent and reported its use of the CPU, where any stream of the run has launch times: those are
    what batches are for.
    """
    if not any(block.lead_ns is not None for cell in result.cells for block in cell.streams.values()):
        return
    for cell in rows.ordered_cells(result):
        for one in cell.talkers:
            if packets := one.packets:
                several = len(cell.talkers) > 1
                yield Cost(cell, one.host, several, packets, one.cpu_ns / packets, one.wakeups / packets)


def talker_rows(result: Result) -> Iterator[Sequence[str]]:
    """A row for each of `costs`."""
    for one in costs(result):
        yield (
            cell_title(one.cell),
            str(one.cell.repeat),
            one.host,
            str(one.packets),
            duration(one.cpu_ns),
            f"{one.wakeups:.3g}",
        )
