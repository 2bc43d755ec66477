"""What was recorded of PTP in a cell: what each port's ptp4l said over time, with our own readings beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from latlab.data.clock_offset import offset_between
from latlab.data.recordings import read_recording
from latlab.data.run_folder import CellFolder

OURS: Final = "our_offset_ns"
OURS_HALF: Final = "our_half_ns"


def read_ptp_series(path: Path, *, run_id: str | None = None) -> pl.DataFrame:
    """The `ptp` table of a `*.ptp.arrow` recording, a row a question, in the order they were asked.

    tai_ns, monotonic_ns: i64 ns, when the answer was in. answered: bool. state: u8, IEEE 1588's portState, 0 without an
    answer. offset_ns, ingress_ns, path_delay_ns: i64 ns; grandmaster: u64; steps_removed: u16; frequency_ppt: i64,
    parts per 10^12: null where unknown. A recording cut off gives the rows up to its last whole batch.

    run_id: the run it must be of (None: any). LabError: there is no such file, or it is no such recording.
    """
    return read_recording(path, "ptp", run_id=run_id).table


@dataclass(frozen=True)
class PtpSeries:
    """A port's entry in cell.json's `ptp`, and its rows within the time of the streams.

    rows: the table `ptp` (docs/formats.md) with `silent_ns` (Int64), the time since the last Sync that was seen to come
    in, null before the first; for a slave whose master is started in the same run also `our_offset_ns`
    and `our_half_ns` (Int64): by our own readings the slave's clock − its master's then, give or take the half; null
    where nothing bounds it. complete: the recording has its end.
    """

    port: Mapping[str, Any]
    rows: pl.DataFrame
    complete: bool


def read_ptp(folder: CellFolder, cell: Mapping[str, Any]) -> Iterator[PtpSeries]:
    """Each port's series, in the order of cell.json. LabError: a recording is none."""
    for port in cell.get("ptp") or []:
        path = folder.recording("ptp", port["port"], "ptp")
        if not path.exists():
            continue
        found = read_recording(path, "ptp")
        rows = with_silence(found.table)
        first = int(cell["start_tai_ns"])
        if first:
            rows = rows.filter(pl.col("tai_ns").is_between(first, first + int(cell["duration_ns"])))
        yield PtpSeries(port, _with_ours(rows, port, cell), found.complete)


def with_silence(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the time since the last Sync: of all that was recorded, before the streams, too."""
    known = rows.with_columns(pl.col("ingress_ns").forward_fill().alias("_last"))
    came = pl.when(pl.col("_last") != pl.col("_last").shift(1)).then(pl.col("tai_ns")).forward_fill()
    since = pl.coalesce(came, pl.col("tai_ns").filter(pl.col("_last").is_not_null()).first())
    silent = pl.when(pl.col("_last").is_not_null()).then(pl.col("tai_ns") - since).alias("silent_ns")
    return known.with_columns(silent).drop("_last")


def _with_ours(rows: pl.DataFrame, port: Mapping[str, Any], cell: Mapping[str, Any]) -> pl.DataFrame:
    master = port.get("master")
    if port["role"] != "slave" or master is None:
        return rows
    here, there = port["port"], master
    if port["clock"] is None:
        here, there = here.partition(".")[0], there.partition(".")[0]
    instants = rows["tai_ns"].to_numpy().astype(np.int64)
    ours = offset_between(cell.get("clocks", []), here, there, instants)
    if ours is None:
        return rows
    known = pl.Series(ours.known)
    return rows.with_columns(
        pl.when(known).then(pl.Series(ours.estimate_ns)).alias(OURS),
        pl.when(known).then(pl.Series(ours.half_ns)).alias(OURS_HALF),
    )
