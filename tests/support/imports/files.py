"""Files of other programs: those that were captured, and what comes of importing any."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from latlab.evaluation.run import make_result
from latlab.imports.base import Given
from latlab.imports.write import ImportOutcome, import_files

CAPTURED = Path(__file__).parents[2] / "imports/captured"
WRITTEN = Path(__file__).parents[2] / "imports/written"


class Import:
    """An import that was made, and its result."""

    def __init__(self, outcome: ImportOutcome) -> None:
        self.outcome = outcome
        self.result: dict[str, Any] = make_result(outcome.folder).document()

    @property
    def found(self) -> Any:
        """What the reader found in the only measurement."""
        (cell,) = self.outcome.cells
        return cell.imported

    @property
    def streams(self) -> dict[str, Any]:
        """The only cell's streams."""
        (cell,) = self.result["cells"]
        streams: dict[str, Any] = cell["streams"]
        return streams

    def figures(self, stream: str, metric: str) -> dict[str, Any]:
        """One metric's figures."""
        figures: dict[str, Any] = self.streams[stream]["metrics"][metric]
        return figures

    def of_runs(self, stream: str, metric: str, key: str) -> list[Any]:
        """One figure of each cell that has it, in their order."""
        blocks = [cell["streams"][stream]["metrics"] for cell in self.result["cells"] if stream in cell["streams"]]
        return [metrics[metric][key] for metrics in blocks if metric in metrics]

    @property
    def notes(self) -> list[str]:
        """What there is to know of the only cell's import."""
        (cell,) = self.result["cells"]
        notes: list[str] = cell["imported"]["notes"]
        return notes

    @property
    def packets(self) -> pl.DataFrame:
        """The only cell's packet table."""
        return self.outcome.folder.cells()[0].packets()

    @property
    def checks(self) -> set[tuple[str, str]]:
        """(severity, finding) of the verdict's reasons."""
        return {(one["severity"], one["finding"]) for one in self.result["reasons"]}

    def left_out(self) -> dict[str, int]:
        """{what: how many} of all that was left out."""
        return {one.what: one.count for one in self.found.left_out}


Importing = Callable[..., Import]


@pytest.fixture
def importing(tmp_path: Path) -> Importing:
    """Imports files, which are named as in `captured` or `written`, by their path, or given as bytes."""

    def run(*files: str | Path | bytes, as_format: str | None = None, **given: Any) -> Import:
        paths = []
        for number, file in enumerate(files, start=1):
            path = named(file) if isinstance(file, str) else file
            if isinstance(path, bytes):
                written = tmp_path / f"file-{number}"
                written.write_bytes(path)
                path = written
            paths.append(path)
        return Import(import_files(paths, tmp_path / "runs", as_format=as_format, given=Given(**given)))

    return run


def text(name: str) -> str:
    """The text of a file that is here."""
    return named(name).read_text(encoding="utf-8")


def named(name: str) -> Path:
    """The file that is here: captured, or else written."""
    return CAPTURED / name if (CAPTURED / name).exists() else WRITTEN / name
