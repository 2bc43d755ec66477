"""classes.parquet of a cell: what is the matter with each of its packets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.anomalies import NAMES, Anomalies
from latlab.analysis.counts import stream_rows
from latlab.recordings.cell import RecordedCell
from latlab.recordings.run_folder import CellFolder, writing_table

CLASS: Final = pl.Enum(NAMES)
_NO_EPISODE: Final = np.empty(0, np.uint32)


def classes_table(cell: RecordedCell, packets: pl.DataFrame, found: Mapping[str, Anomalies]) -> pl.DataFrame:
    """A row for each of the packet table, in its order: `stream`, `sequence`, `class`, `episode`.

    cell: cell.json. found: {stream: its anomalies}. class (one of NAMES) and episode (u32, the number that the result
    gives it) are null of packets that nothing is the matter with, of those of the warm-up, and of streams that nothing
    was looked for in.
    """
    tables = [packets.select("stream", "sequence").clear().with_columns(_columns(np.empty(0, np.uint8), _NO_EPISODE))]
    for stream in cell.streams:
        rows = stream_rows(packets, stream.stream).select("stream", "sequence")
        one = found.get(stream.name)
        none = np.zeros(rows.height, np.uint8), np.zeros(rows.height, np.uint32)
        tables.append(rows.with_columns(_columns(*((one.class_of, one.episode_of) if one else none))))
    return pl.concat(tables)


def write_classes(folder: CellFolder, table: pl.DataFrame) -> None:
    """Write classes.parquet, whole or not at all. LabError: it cannot be written."""
    with writing_table(folder.classes_path, "the packets' classes") as temporary:
        table.write_parquet(temporary, compression="zstd", compression_level=1)


def _columns(class_of: NDArray[np.uint8], episode_of: NDArray[np.uint32]) -> list[pl.Series]:
    """The two columns, null where a code is 0."""
    codes, episodes = pl.Series("class", class_of), pl.Series("episode", episode_of)
    known = codes > 0
    # Codes count from 1, as classes.NAMES does from 0.
    names = codes.cast(pl.Int16) - 1
    physical = pl.select(pl.when(known).then(names)).to_series().cast(pl.UInt8)
    return [
        physical.cat.to(CLASS).alias("class"),
        pl.select(pl.when(known).then(episodes)).to_series().alias("episode"),
    ]
