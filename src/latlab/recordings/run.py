"""The types of run.json (docs/reference/run-folder.md). Instants are UTC, ISO 8601; None: not known.

What earlier versions did not write has a default; what later ones add is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from latlab.model.part import Document, Recorded
from latlab.recordings.cell import Watched

RUN_FORMAT: Final = "latlab.run/1"


class OrderedCell(Recorded):
    """A repetition of a cell, in the order in which they are measured."""

    slug: str
    repeat: int


class RunVersions(Recorded):
    """What a run was made with. commit: of the repository that latlab ran from; images: name → digest."""

    latlab: str | None = None
    commit: str | None = None
    python: str | None = None
    images: dict[str, str] = {}


class ImportedFrom(Recorded):
    """The files that were imported, and their format's name."""

    format: str
    files: list[str]


class RecordedRun(Recorded):
    """A run. scenario_sha256: of scenario.yaml as it was measured. trust: what the scenario sets of trust rules.

    check_repeat: whether all repetitions are to be equal. live: whether agents said more, to be shown meanwhile.
    status: `running`, `ended` or `interrupted`. imported, watch: of files, or packets, that other programs made.
    """

    format: str = RUN_FORMAT
    run: str
    name: str
    description: str | None = None
    scenario_sha256: str | None = None
    seed: int | None = None
    trust: Document | None = None
    check_repeat: bool = False
    live: bool = False
    order: list[OrderedCell] = []
    imported: ImportedFrom | None = None
    versions: RunVersions = RunVersions()
    started: str | None = None
    ended: str | None = None
    status: str | None = None
    exit_status: int | None = None
    watch: Watched | None = None

    def measuring(self, order: Sequence[OrderedCell]) -> RecordedRun:
        """The run with these cells."""
        return self.model_copy(update={"order": list(order)})

    def watching(self, watch: Watched) -> RecordedRun:
        """The run with what is known of the packets that were watched."""
        return self.model_copy(update={"watch": watch})

    def over(self, ended: str, status: str) -> RecordedRun:
        """The run at its end."""
        return self.model_copy(update={"ended": ended, "status": status})

    def reported(self, exit_status: int) -> RecordedRun:
        """The run with the exit status of the command that reported it last."""
        return self.model_copy(update={"exit_status": exit_status})
