"""An imported cell's part of the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import polars as pl

from latlab.analysis.bins import Tally
from latlab.analysis.counts import stream_rows, watched_losses
from latlab.analysis.evidence import Evidence
from latlab.analysis.hops import WatchedPackets
from latlab.analysis.imported import (
    before_they_left,
    launch_gap_ns,
    no_counts,
    on_two_scales,
    out_of_order,
    packet_anomalies,
    packet_figures,
    scales_apart,
    summed_up,
    unbounded,
)
from latlab.analysis.summary import JudgedCell, cell_of, stream_of
from latlab.analysis.trust import judge
from latlab.analysis.words import duration
from latlab.model.reasons import Reason, reason_of, worst_first
from latlab.recordings.cell import ImportedFound, RecordedCell, ToolFigures
from latlab.recordings.run_folder import CellFolder
from latlab.result.types import Imported, Metric, Stream

_BOUNDED: Final = "clock-bound"
_EARLY: Final = "arrived-early"


def imported_result(folder: CellFolder, cell: RecordedCell, imported: ImportedFound) -> JudgedCell:
    """The cell: what is common to all cells, and `imported` of cell.json, its figures left out.

    The verdict on another program's figures is `suspect` at best, since the machines were not inspected. It is
    `untrusted` where figures are between two clocks of which nothing is reported.
    """
    of_packets = _of_packets(folder, cell, imported)
    streams = {**of_packets, **_summed_up(folder, cell, imported)}
    told = Imported(
        format=imported.format,
        tool=imported.tool,
        version=imported.version,
        files=imported.files,
        latency=imported.latency,
        clock_bound_ns=imported.clock_bound_ns,
        notes=[*imported.notes, *_looked_for(folder, cell)],
        left_out=imported.left_out,
        facts=imported.facts,
        by_latlab=imported.by_latlab,
        flights=imported.flights,
    )
    result = cell_of(cell, streams, ptp=[], imported=told)
    # The checks are of packets.
    recorded = {name: streams[name] for name in of_packets}
    found = judge(Evidence(cell.only(recorded), recorded))
    reasons = [
        *(one for one in found if one.id not in (_BOUNDED, _EARLY)),
        *_reasons(imported, streams),
        *_contradicted(folder, cell, imported.clock_bound_ns),
    ]
    return JudgedCell.of(result, worst_first(reasons))


def _of_packets(folder: CellFolder, cell: RecordedCell, imported: ImportedFound) -> dict[str, Stream]:
    recorded = [stream for stream in cell.streams if stream.stream]
    packets = folder.packets() if recorded else pl.DataFrame()
    streams = {}
    for one in recorded:
        anomalies, limits = packet_anomalies(one, packets, imported.clock_bound_ns)
        counts, metrics = packet_figures(one, packets, imported.clock_bound_ns, WatchedPackets(recorded, packets))
        streams[one.name] = stream_of(
            cell,
            one.name,
            counts,
            metrics,
            losses=watched_losses(one),
            anomalies=anomalies,
            late_limits=limits,
            windows=None,
        )
    return streams


def _looked_for(folder: CellFolder, cell: RecordedCell) -> Iterator[str]:
    """Against what each stream's packets are held in the search for anomalies: none where they have no launch times."""
    for stream in cell.streams:
        if stream.stream and (gap := launch_gap_ns(stream_rows(folder.packets(), stream.stream))) is not None:
            yield (
                f"anomalies of {stream.name} are searched for against its launch times, {duration(gap)} apart (the "
                "median of their differences)"
            )


def _summed_up(folder: CellFolder, cell: RecordedCell, imported: ImportedFound) -> dict[str, Stream]:
    bins, intervals = folder.histogram(), folder.intervals()
    metrics: dict[str, dict[str, Metric]] = {}
    for place, figures in enumerate(imported.figures):
        own = None if intervals is None else intervals.filter(pl.col("figure") == place)
        metrics.setdefault(figures.stream, {})[figures.metric] = summed_up(
            figures,
            _tally(bins, place, figures),
            own if own is not None and own.height else None,
            imported.clock_bound_ns,
        )
    return {name: stream_of(cell, name, no_counts(), found) for name, found in metrics.items()}


def _tally(bins: pl.DataFrame | None, place: int, figures: ToolFigures) -> Tally | None:
    if figures.kept != "histogram":
        return None
    rows = pl.DataFrame(schema={"from_ns": pl.Int64, "to_ns": pl.Int64, "count": pl.Int64}) if bins is None else bins
    rows = rows.filter(pl.col("figure") == place) if "figure" in rows.columns else rows
    from_ns, to_ns, count = (rows[name].to_numpy() for name in ("from_ns", "to_ns", "count"))
    return Tally(from_ns, to_ns, count, below=figures.below or 0, above=figures.above or 0)


def _contradicted(folder: CellFolder, cell: RecordedCell, bound: int | None) -> Iterator[Reason]:
    """What no machine can do with clocks that differ by no more than was stated."""
    if bound is None:
        return
    for stream in cell.streams:
        for where, least in out_of_order(stream, folder.packets(), bound) if stream.stream else ():
            scales = scales_apart(least, least)
            yield reason_of(
                "timestamps-in-order",
                where,
                f"{duration(-bound)} or more, by --clock-bound",
                duration(least) + (f": {scales}" if scales else ""),
            )


def clock_reasons(streams: Mapping[str, Stream], case: str, actual: str) -> Iterator[Reason]:
    """Why packets seen at two points are not to be trusted because of the points' clocks.

    case: of the rules. actual: what there is instead of a bound.
    """
    if unknown := unbounded(streams):
        yield reason_of(
            "clock-bound", ", ".join(unknown), "a bound of the offset between the two clocks", actual, case=case
        )
    for where, least, bound in before_they_left(streams):
        yield reason_of("arrived-early", where, f"{duration(-bound)} or more", duration(least), case=case)


def _reasons(imported: ImportedFound, streams: Mapping[str, Stream]) -> Iterator[Reason]:
    """What the import found, and what holds of every import."""
    yield from imported.problems
    yield from clock_reasons(streams, "imported", "the files have none")
    for scales, found in on_two_scales(streams).items():
        yield reason_of(
            "one-time-scale",
            ", ".join(found),
            "timestamps of one scale, TAI or UTC",
            duration(next(iter(found.values()))),
            scales=scales,
        )
    if imported.by_latlab:
        return
    yield reason_of(
        "measured-by-latlab",
        "",
        "clocks, priorities, CPUs and interrupts checked before, during and after",
        "the files have no record of them",
    )
