"""Recordings of `latlab watch` that are made up, at one point of each kernel, and the result of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from latlab.evaluation.run import make_result
from latlab.imports.base import ReadFiles
from latlab.imports.watched import read_watched
from latlab.imports.write import write_imported_cell
from latlab.recordings.cell import Totals, Watched, WatchedBy, WatchedPoint
from latlab.recordings.run_folder import RunFolder
from latlab.result.types import Result
from support.recordings import RUN_ID, recording_bytes, rewrite_run

S = 1_000_000_000
START = 1_763_830_000 * S
TAI_OFFSET_S = 37
Seen = tuple[int, bytes]
"""(when, ns since START; the frame)."""


@dataclass(frozen=True)
class Watching:
    """What `latlab watch` recorded at one point of each kernel, a kernel for each list of frames."""

    folder: Path

    def __call__(
        self,
        *each: Sequence[Seen],
        until_ns: int = 10 * S,
        bound_ns: int | None = None,
        lost: int = 0,
        offset_s: int | None = TAI_OFFSET_S,
    ) -> tuple[Watched, ReadFiles]:
        for number, seen in enumerate(each):
            rows = [(START + at, 0, False, True, len(frame), frame, 1) for at, frame in seen]
            (self.folder / f"watch-{number}.watched.arrow").write_bytes(recording_bytes("watched", [rows]))
        ends = {"from_tai_ns": START, "until_tai_ns": START + until_ns}
        ready = {"tai_ns": START, "tai_offset_s": offset_s}
        watch = Watched(
            flow="goose or sv",
            filter={},
            snap=256,
            clock_bound_ns=bound_ns,
            run_id=RUN_ID,
            points=[
                WatchedPoint(name=f"eth{number}", kernel=number, number=0, directions=["in"])
                for number in range(len(each))
            ],
            kernels=[
                WatchedBy.model_validate(
                    {"host": f"host{number}", "recording": f"watch-{number}", "ready": ready, **ends}
                    | {"done": Totals(lost=lost)}
                )
                for number in range(len(each))
            ],
        )
        return watch, read_watched(watch, self.folder)


def made_result(watch: Watched, found: ReadFiles, folder: Path) -> Result:
    """The result of a run that watched this, written to the folder."""
    run = RunFolder.create(folder, "watch")
    run.write_watch({"flow": watch.flow, "at": [], "for_ns": None})
    write_imported_cell(run.add_cell("all", 1), found, [], {}, "watch", watch.clock_bound_ns, label="measured")
    rewrite_run(run, order=[{"slug": "all", "repeat": 1}], status="ended", watch=watch)
    return make_result(run)
