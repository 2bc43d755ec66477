"""What is said of a cell that nobody measured, so that nobody takes its figures for a machine's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from latlab.analysis.trust import reason_of
from latlab.recordings.cell import RecordedCell
from latlab.result.types import Reason

SYNTHETIC: Final = "synthetic"
"""The label of cells that were made."""


def made_not_measured(cell: RecordedCell) -> Iterator[Reason]:
    """The reason why figures of cell.json's cell are not to be trusted if they were made; nothing of any other."""
    if cell.label == SYNTHETIC:
        yield reason_of(
            "measured-by-latlab",
            "it was generated from a description, not measured",
            "untrusted",
            "",
            "packets that were sent and received",
            "packets that a program generated",
            "compare the findings with truth.json, which is with its packets; they say nothing about machines",
        )
