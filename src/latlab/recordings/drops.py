"""What is on record of packets that kernels dropped: each drop with the host it was at, by its kernel's watcher."""

from __future__ import annotations

import polars as pl

from latlab.recordings.arrow import no_recording, read_recording
from latlab.recordings.cell import RecordedCell, WatchedKernel
from latlab.recordings.run_folder import CellFolder


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
