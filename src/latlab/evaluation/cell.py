"""One cell's part of a run's result: its packets joined, summarised and judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.anomalies import NAMES, Anomalies
from latlab.analysis.cell_anomalies import StreamRecords, cell_anomalies
from latlab.analysis.cores import cores_used
from latlab.analysis.counts import losses_of, stream_rows
from latlab.analysis.evidence import Evidence
from latlab.analysis.ptp import ptp_port
from latlab.analysis.summary import JudgedCell, summarise_cell
from latlab.analysis.trust import judge, without_waived
from latlab.analysis.windows import Named
from latlab.evaluation.gates import scenario_ports
from latlab.evaluation.imported import clock_reasons, imported_result
from latlab.evaluation.records import stream_records
from latlab.evaluation.thresholds import thresholds_of
from latlab.evaluation.traces import traces_of
from latlab.evaluation.windows import chosen_in
from latlab.model.errors import reads_files
from latlab.model.labels import SYNTHETIC
from latlab.model.reasons import Reason, reason_of
from latlab.recordings.arrow import no_recording, read_recording
from latlab.recordings.cell import RecordedCell, RecordedStream, WatchedKernel
from latlab.recordings.packets import read_findings, whole_packets
from latlab.recordings.ptp_series import read_ptp
from latlab.recordings.run_folder import CellFolder, writing_table
from latlab.result.types import Cell, Losses, Stream, StreamFound
from latlab.scenario import Scenario, Trust
from latlab.scenario.shapers import Etf

_CLASS: Final = pl.Enum(NAMES)


@reads_files
def cell_result(
    folder: CellFolder,
    scenario: Scenario | None = None,
    trust: Trust | None = None,
    later: Sequence[Named] = (),
) -> JudgedCell:
    """One cell's part of the result, its packet table built if it was not yet, and its classes.parquet.

    scenario: the cell's own; without it nothing is said of gates, and it names no windows. trust: where the lines are
    drawn, and what does not count; without it the defaults. later: windows that are chosen after the fact.
    """
    cell = folder.cell()
    if cell.imported:
        return imported_result(folder, cell, cell.imported)
    ptp, before, after = list(read_ptp(folder, cell)), folder.facts("before"), folder.facts("after")
    clocks = folder.clocks()
    known = stream_records(cell, ptp, before, after, clocks) if cell.start_tai_ns else {}
    ports = [ptp_port(one.port, one.rows, one.window_ns) for one in ptp]
    found = _summarised(folder, cell, scenario, known, later).model_copy(update={"ptp": ports})
    evidence = Evidence(
        cell=cell,
        streams=found.streams,
        ptp=ports,
        findings=read_findings(folder),
        clocks=clocks,
        facts_before=before,
        facts_after=after,
        thresholds=thresholds_of(trust),
    )
    counts, waived = without_waived([*judge(evidence), *flow_reasons(cell, found.streams)], trust.off if trust else {})
    found = found.model_copy(update={"cores": cores_used(evidence)})
    return JudgedCell.of(found, [*_made_not_measured(cell), *counts], waived)


def _summarised(
    folder: CellFolder,
    cell: RecordedCell,
    scenario: Scenario | None,
    known: Mapping[str, StreamRecords],
    later: Sequence[Named],
) -> Cell:
    """The cell without how far it is trusted; its files are written."""
    if not cell.start_tai_ns:
        return summarise_cell(cell, None)
    packets = whole_packets(folder)
    ports = scenario_ports(scenario) if scenario else ()
    found = cell_anomalies(cell, packets, ports, known)
    write_classes(folder, _classes_table(cell, packets, found))
    summary = summarise_cell(cell, packets, ports, found, [*chosen_in(scenario), *later])
    traces, losses = traces_of(folder, cell), _losses_by_name(folder, cell, packets)
    launches = launches_of(cell, scenario)
    streams = {}
    for name, stream in summary.streams.items():
        more: StreamFound = {**launches.get(name, {})}
        if name in traces:
            more["trace"] = traces[name]
        if name in losses:
            more["losses"] = losses[name]
        streams[name] = stream.with_found(more)
    return summary.model_copy(update={"streams": streams})


def flow_reasons(cell: RecordedCell, streams: Mapping[str, Stream]) -> Iterator[Reason]:
    """Reasons not to trust the figures of a cell's flows: what was found in their recordings, and of their clocks."""
    for flow in cell.flows:
        for problem in flow.problems:
            yield problem.within(f"flow {flow.name}")
    watched = {one.name: streams[one.name] for one in cell.streams if one.flow and one.name in streams}
    yield from clock_reasons(watched, "flow", "the clocks of their points are not compared continuously")


def launches_of(cell: RecordedCell, scenario: Scenario | None) -> dict[str, StreamFound]:
    """`lead_ns` of each stream with launch times, and `early_ns`: how long before these a software etf sends its
    packets, None where none does or the scenario is not known.
    """
    return {
        stream.name: {"lead_ns": stream.launch_time.lead_ns, "early_ns": _early_ns(stream, scenario)}
        for stream in cell.streams
        if stream.launch_time
    }


def _early_ns(stream: RecordedStream, scenario: Scenario | None) -> int | None:
    """The etf's delta: without a card that launches packets, they leave when it hands them over (tc-etf(8))."""
    port = f"{stream.talker}.{stream.port or stream.interface}"
    shaper = scenario.shapers.get(port) if scenario else None
    etf = shaper.leaf(stream.priority or 0) if shaper else None
    return etf.delta if isinstance(etf, Etf) and not etf.offload and not etf.deadline else None


def _made_not_measured(cell: RecordedCell) -> Iterator[Reason]:
    """The reason why figures of cell.json's cell are not to be trusted if they were made; nothing of any other."""
    if cell.label == SYNTHETIC:
        yield reason_of(
            "measured-by-latlab",
            "",
            "packets that were sent and received",
            "packets that a program generated",
            case="made",
        )


# classes.parquet: what is the matter with each packet.


def _classes_table(cell: RecordedCell, packets: pl.DataFrame, found: Mapping[str, Anomalies]) -> pl.DataFrame:
    """A row for each of the packet table, in its order: `stream`, `sequence`, `class`, `episode`.

    cell: cell.json. found: {stream: its anomalies}. class (one of NAMES) and episode (u32, the number that the result
    gives it) are null of packets that nothing is the matter with, of those of the warm-up, and of streams that nothing
    was looked for in.
    """
    nothing = _class_columns(np.empty(0, np.uint8), np.empty(0, np.uint32))
    tables = [packets.select("stream", "sequence").clear().with_columns(nothing)]
    for stream in cell.streams:
        rows = stream_rows(packets, stream.stream).select("stream", "sequence")
        one = found.get(stream.name)
        none = np.zeros(rows.height, np.uint8), np.zeros(rows.height, np.uint32)
        tables.append(rows.with_columns(_class_columns(*((one.class_of, one.episode_of) if one else none))))
    return pl.concat(tables)


def write_classes(folder: CellFolder, table: pl.DataFrame) -> None:
    """Write classes.parquet, whole or not at all. LabError: it cannot be written."""
    with writing_table(folder.classes_path, "the packets' classes") as temporary:
        table.write_parquet(temporary, compression="zstd", compression_level=1)


def _class_columns(class_of: NDArray[np.uint8], episode_of: NDArray[np.uint32]) -> list[pl.Series]:
    """The two columns, null where a code is 0."""
    codes, episodes = pl.Series("class", class_of), pl.Series("episode", episode_of)
    known = codes > 0
    # Codes count from 1, as classes.NAMES does from 0.
    names = codes.cast(pl.Int16) - 1
    physical = pl.select(pl.when(known).then(names)).to_series().cast(pl.UInt8)
    return [
        physical.cat.to(_CLASS).alias("class"),
        pl.select(pl.when(known).then(episodes)).to_series().alias("episode"),
    ]


# Where lost packets were dropped: the streams' losses, by the drops that kernels recorded.


def _losses_by_name(folder: CellFolder, cell: RecordedCell, packets: pl.DataFrame) -> dict[str, Losses]:
    """Where packets of each stream, each probe and each of its legs were dropped; nothing where no kernel was watched.

    LabError: a recording is not of this run.
    """
    drops = _read_drops(folder, cell)
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


def _read_drops(folder: CellFolder, cell: RecordedCell) -> pl.DataFrame | None:
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
