"""What is said of a cell that nobody measured, so that nobody takes its figures for a machine's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from latlab.analysis.trust import Reason
from latlab.recordings.cell import RecordedCell

SYNTHETIC: Final = "synthetic"
"""The label of cells that were made."""


def made_not_measured(cell: RecordedCell) -> Iterator[Reason]:
    """The reason why figures of cell.json's cell are not to be trusted if they were made; nothing of any other."""
    if cell.label == SYNTHETIC:
        yield Reason(
            "measured-by-latlab",
            "it was made from a description: nobody measured it",
            "untrusted",
            "",
            "packets that were sent and received",
            "packets that a program has made up",
            "hold what was found against truth.json beside its packets; of machines it says nothing",
        )
