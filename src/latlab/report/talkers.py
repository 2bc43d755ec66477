"""Talkers: what each packet costs them in CPU time and wake-ups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from latlab.analysis.words import duration
from latlab.report import rows
from latlab.report.places import cell_title
from latlab.result.types import Result

TITLE: Final = "Talkers: CPU time and wake-ups of the sending thread for each packet, warm-up included"
HEADINGS: Final = ("cell", "repeat", "talker", "packets", "CPU time per packet", "wake-ups per packet")
FIGURES: Final = range(3, len(HEADINGS))
"""Which of them are numbers."""


def talker_rows(result: Result) -> Iterator[Sequence[str]]:
    """A row for each talker that sent and reported its use of the CPU, where any stream of the run has launch times:
    those are what batches are for.
    """
    if not any(block.lead_ns is not None for cell in result.cells for block in cell.streams.values()):
        return
    for cell in rows.ordered_cells(result):
        for talker in cell.talkers:
            if packets := talker.packets:
                yield (
                    cell_title(cell),
                    str(cell.repeat),
                    talker.host,
                    str(packets),
                    duration(talker.cpu_ns / packets),
                    f"{talker.wakeups / packets:.3g}",
                )
