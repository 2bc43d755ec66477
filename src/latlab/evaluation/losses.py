"""Where a cell's lost packets were dropped: its streams' losses, by the drops that kernels recorded."""

from __future__ import annotations

import polars as pl

from latlab.analysis.counts import losses_of, stream_rows
from latlab.recordings.arrow import no_recording, read_recording
from latlab.recordings.cell import RecordedCell, WatchedKernel
from latlab.recordings.run_folder import CellFolder
from latlab.result.types import Losses


def losses_by_name(folder: CellFolder, cell: RecordedCell, packets: pl.DataFrame) -> dict[str, Losses]:
    """Where packets of each stream, each probe and each of its legs were dropped; nothing where no kernel was watched.

    LabError: a recording is not of this run.
    """
    drops = read_drops(folder, cell)
    if drops is None:
        return {}
    # Both copies of a PRP pair have the number of the first one's stream: whose a drop is, is not known.
    copies = [number for stream in cell.streams for number in stream.pair or ()]
    drops = drops.filter(~pl.col("stream").is_in(copies))
    legs: dict[str, list[pl.DataFrame]] = {}
    for stream in cell.streams:
        if stream.has_packets:
            rows = stream_rows(packets, stream.stream)
            legs.setdefault(stream.probe or stream.name, []).append(rows)
            legs[stream.name] = [rows]
    return {name: losses_of(parts, drops) for name, parts in legs.items()}


def read_drops(folder: CellFolder, cell: RecordedCell) -> pl.DataFrame | None:
    """The drops of all kernels that were watched, in their order: the columns of the recording, and `host`, in whose
    network namespace it was (null: unknown), and `watcher`. None: none was watched.

    LabError: a recording is not of this run.
    """
    found = []
    for kernel in cell.drops or []:
        if not (kernel.said.drops and kernel.said.drops.watched):
            continue
        path = folder.recording("drops", kernel.host, "drops")
        recording = read_recording(path, "drops", run_id=cell.run_id) if path.exists() else no_recording("drops")
        namespaces = _namespaces(cell, kernel)
        host = pl.col("netns").replace_strict(namespaces, default=None, return_dtype=pl.String)
        if len(kernel.hosts) == 1:
            host = pl.lit(kernel.host)
        found.append(recording.table.with_columns(host=host, watcher=pl.lit(kernel.host)))
    return pl.concat(found) if found else None


def _namespaces(cell: RecordedCell, kernel: WatchedKernel) -> dict[int, str]:
    """{inode of a network namespace: the host that it is}, of those hosts of a kernel on which an agent ran."""
    told = [(agent.host, agent.ready) for agent in cell.agents]
    told.append((kernel.host, kernel.ready))
    return {ready.netns: host for host, ready in told if host in kernel.hosts and ready and ready.netns}
