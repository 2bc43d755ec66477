"""What was recorded of PTP in a cell: what each port's ptp4l said over time, with our own readings next to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from latlab.recordings.arrow import SCHEMAS, read_recording
from latlab.recordings.cell import RecordedCell, RecordedPort
from latlab.recordings.clock_offset import offset_between
from latlab.recordings.run_folder import CellFolder


@dataclass(frozen=True)
class PtpSeries:
    """A port's entry in cell.json's `ptp`, and all that was recorded of it.

    rows: the table `ptp` (docs/reference/run-folder.md) from before the streams on, a row a question, in the order they
    were asked; for a slave whose master is started in the same run also `our_offset_ns` and `our_half_ns` (Int64): by
    our own readings the slave's clock − its master's then, give or take the half; null where nothing bounds it.
    window_ns: the first and last instant of the streams, by the TAI of the port's host; None where no stream has begun.
    complete: the recording has its end.
    """

    port: RecordedPort
    rows: pl.DataFrame
    window_ns: tuple[int, int] | None
    complete: bool


def read_ptp(folder: CellFolder, cell: RecordedCell) -> Iterator[PtpSeries]:
    """Each port's series, in the order of cell.json; without rows where nothing was started. LabError: a recording is
    none.
    """
    for port in cell.ptp or []:
        if port.absent:
            yield PtpSeries(port, pl.DataFrame(pl.from_arrow(SCHEMAS["ptp"].empty_table())), None, True)
            continue
        path = folder.recording("ptp", port.port, "ptp")
        if not path.exists():
            continue
        found = read_recording(path, "ptp")
        yield PtpSeries(port, _with_ours(found.table, port, cell), _window(port, cell), found.complete)


def _window(port: RecordedPort, cell: RecordedCell) -> tuple[int, int] | None:
    """Hosts' clocks may be apart, by 37 s where one kernel knows TAI and the other does not: each has its own start."""
    first = cell.start_of(port)
    return (first, first + cell.duration_ns) if first else None


def _with_ours(rows: pl.DataFrame, port: RecordedPort, cell: RecordedCell) -> pl.DataFrame:
    """The rows with our own readings beside, where there are any.

    A card's clock stands in `clocks` by its port; where the system's is what PTP turns, it is that of the host.
    """
    master = port.master
    if port.role != "slave" or master is None:
        return rows
    here, there = port.port, master
    if port.clock is None:
        here, there = here.partition(".")[0], there.partition(".")[0]
    instants = rows["tai_ns"].to_numpy().astype(np.int64)
    ours = offset_between(cell.clocks, here, there, instants)
    if ours is None:
        return rows
    known = pl.Series(ours.known)
    return rows.with_columns(
        pl.when(known).then(pl.Series(ours.estimate_ns)).alias("our_offset_ns"),
        pl.when(known).then(pl.Series(ours.half_ns)).alias("our_half_ns"),
    )
