"""From files of other programs to a run folder that is read like any other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import polars as pl

import latlab
from latlab.imports.base import Figures, Format, Given, PacketStream, ReadFiles
from latlab.imports.isochron import CSV
from latlab.imports.packets import packet_table
from latlab.imports.table import format_named, recognised
from latlab.imports.wrapping import Source, parts, plain_copy
from latlab.model.errors import UsageError
from latlab.model.labels import IMPORTED
from latlab.recordings.cell import ClockEdge, ImportedFound, RecordedCell, RecordedStream, ToolFigures
from latlab.recordings.run import RUN_FORMAT, ImportedFrom, OrderedCell, RecordedRun, RunVersions
from latlab.recordings.run_folder import CELL_FORMAT, CellFolder, RunFolder, publishing

_TOLD: Final = "given at the import"
_PLAIN: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class ImportedCell:
    """One measurement that was read: its files, and its name among the cells of the run."""

    paths: tuple[Path, ...]
    slug: str
    keys: Mapping[str, str]
    imported: ReadFiles


@dataclass(frozen=True)
class ImportOutcome:
    """The result of an import."""

    format: Format
    folder: RunFolder
    cells: tuple[ImportedCell, ...]


def import_files(
    paths: Sequence[Path],
    root: Path,
    *,
    name: str | None = None,
    as_format: str | None = None,
    given: Given = Given(),  # noqa: B008 (it is frozen)
) -> ImportOutcome:
    """The files in a new run folder in `root`: a cell a measurement. Nothing is written before all are read.

    name: of the run; else the first file's. as_format: the format's name; else the one that the files have, or the
    only one whose columns are stated.
    LatlabError: what is wrong with the files, and what to do.
    """
    if not paths:
        raise UsageError("no file is given", where="latlab import", remedy="latlab import FILE…; --list shows formats")
    with TemporaryDirectory(prefix="latlab-import-") as scratch:
        kind, read = _read(paths, Path(scratch), as_format or (CSV.name if given.columns else None), given)
    cells = _named(read)
    folder = RunFolder.create(root, name or paths[0].stem)
    for order, cell in enumerate(cells, start=1):
        write_imported_cell(
            folder.add_cell(cell.slug, 1),
            cell.imported,
            [str(path) for path in cell.paths],
            cell.keys,
            kind.name,
            given.clock_bound_ns,
            order=order,
        )
    _write_run(folder, name or paths[0].stem, kind, cells)
    return ImportOutcome(kind, folder, tuple(cells))


def _read(
    paths: Sequence[Path], scratch: Path, as_format: str | None, given: Given
) -> tuple[Format, list[tuple[tuple[Source, ...], ReadFiles]]]:
    """The files' format, and each measurement that is in them with its files. scratch: a folder for plain copies."""
    if as_format is not None:
        format_named(as_format)
    copies = [plain_copy(path, scratch / f"plain-{number}") for number, path in enumerate(paths)]
    kind, sources = recognised(copies, scratch / "stripped", as_format)
    sources = [
        part for number, source in enumerate(sources) for part in parts(source, kind, scratch / f"runs-{number}")
    ]
    groups = [tuple(sources)] if kind.files > 1 else [(source,) for source in sources]
    return kind, [(group, _plainly_named(_measurement(kind, group, given))) for group in groups]


def _measurement(kind: Format, group: Sequence[Source], given: Given) -> ReadFiles:
    """What the reader finds, with what is to be known of its files. UsageError: of the files that were named."""
    try:
        found = kind.read([source.path for source in group], given)
    except UsageError as error:
        for source in group:
            error = source.error(error)
        raise error from None
    several = len(group) > 1
    notes = [f"{source.name}: {note}" if several else note for source in group for note in source.notes]
    return replace(found, notes=(*notes, *found.notes))


def _named(read: Sequence[tuple[tuple[Source, ...], ReadFiles]]) -> list[ImportedCell]:
    """Each measurement with a different name: its file's, with a number where two files have the same."""
    if len(read) == 1:
        sources, found = read[0]
        return [ImportedCell(tuple(source.given for source in sources), "all", {}, found)]
    names: list[str] = []
    for sources, _ in read:
        base = name = _PLAIN.sub("-", sources[0].name).strip("-.") or "file"
        number = 2
        while name in names:
            name, number = f"{base}-{number}", number + 1
        names.append(name)
    return [
        ImportedCell(tuple(source.given for source in sources), f"file={name}", {"file": name}, found)
        for name, (sources, found) in zip(names, read, strict=True)
    ]


def _plainly_named(imported: ReadFiles) -> ReadFiles:
    """With streams renamed so that each name can be a file's, and is unique."""
    taken: dict[str, str] = {}
    for name in (*(one.name for one in imported.streams), *(one.stream for one in imported.figures)):
        plain, number = (base := _PLAIN.sub("-", name).strip("-.")[:64] or "stream"), 2
        while plain in taken.values() and taken.get(name) != plain:
            plain, number = f"{base}-{number}", number + 1
        taken.setdefault(name, plain)
    return replace(
        imported,
        streams=tuple(replace(one, name=taken[one.name]) for one in imported.streams),
        figures=tuple(replace(one, stream=taken[one.stream]) for one in imported.figures),
    )


def write_imported_cell(
    folder: CellFolder,
    imported: ReadFiles,
    files: Sequence[str],
    keys: Mapping[str, str],
    format_name: str,
    clock_bound_ns: int | None,
    *,
    order: int = 1,
    label: str = IMPORTED,
) -> None:
    """Write the files of a cell whose packets or figures are known. keys: of the cell. label: what its figures are."""
    if imported.streams:
        with publishing(folder.packets_path) as temporary:
            packet_table(imported.streams).write_parquet(temporary, compression="zstd", compression_level=1)
    if any(one.tally for one in imported.figures):
        with publishing(folder.histogram_path) as temporary:
            _histogram(imported.figures).write_parquet(temporary, compression="zstd")
    if any(one.intervals for one in imported.figures):
        with publishing(folder.intervals_path) as temporary:
            _intervals(imported.figures).write_parquet(temporary, compression="zstd")
    start_ns, end_ns = _span(imported.streams)
    folder.write_cell(
        RecordedCell(
            format=CELL_FORMAT,
            cell=dict(keys),
            slug=folder.slug,
            repeat=1,
            order=order,
            status="ok",
            reason=None,
            label=label,
            instructions_per_ns=None,
            qemu=None,
            run_id="",
            start_tai_ns=start_ns,
            warmup_ns=0,
            duration_ns=end_ns - start_ns,
            streams=[packets_entry(number, one) for number, one in enumerate(imported.streams, start=1)]
            + [summed_entry(one) for one in _first_of_each(imported.figures)],
            agents=[],
            loads=[],
            clocks=_clocks(imported, clock_bound_ns),
            imported=ImportedFound(
                format=format_name,
                tool=imported.tool,
                version=imported.version,
                files=list(files),
                latency=imported.latency,
                clock_bound_ns=clock_bound_ns,
                notes=list(imported.notes),
                left_out=list(imported.left_out),
                problems=list(imported.problems),
                facts=dict(imported.facts),
                by_latlab=imported.by_latlab,
                flights=list(imported.flights),
                figures=[figures_entry(one) for one in imported.figures],
            ),
        )
    )


def _write_run(folder: RunFolder, name: str, kind: Format, cells: Sequence[ImportedCell]) -> None:
    first = cells[0].imported
    files = list(dict.fromkeys(str(path) for cell in cells for path in cell.paths))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    begun = folder.run()
    folder.write_run(
        RecordedRun(
            format=RUN_FORMAT,
            run=begun.run,
            name=name,
            started=begun.started,
            description=f"Imported: figures of {first.tool} ({kind.what}). Its latency: {first.latency}.",
            order=[OrderedCell(slug=cell.slug, repeat=1) for cell in cells],
            imported=ImportedFrom(format=kind.name, files=files),
            versions=RunVersions(latlab=latlab.__version__),
            ended=now,
            status="ended",
        )
    )


def _span(streams: Sequence[PacketStream]) -> tuple[int, int]:
    """The first and the last instant of any packet, on the tool's own clock; 0 and 0 without packets."""
    found = [(int(one.ns[one.there].min()), int(one.ns[one.there].max())) for one in _present(streams)]
    return (min(first for first, _ in found), max(last for _, last in found)) if found else (0, 0)


def _present(streams: Sequence[PacketStream]) -> list[Any]:
    return [stamp for stream in streams for stamp in stream.stamps.values() if stamp.there.any()]


def packets_entry(number: int, stream: PacketStream) -> RecordedStream:
    """A stream of cell.json, with what its figures are to be made of."""
    told = _any_stream(stream.name, stream)
    if stream.points:
        told["points"] = list(stream.points)
    return RecordedStream(
        **told,
        stream=number,
        period_ns=stream.period_ns,
        size=stream.size,
        count=len(stream.sent),
        metrics=list(stream.metrics),
        counts=dict(stream.counts),
        two_clocks=stream.two_clocks,
        losses=stream.losses,
    )


def summed_entry(figures: Figures) -> RecordedStream:
    """A stream of cell.json of which no packet is known, only figures."""
    return RecordedStream(**_any_stream(figures.stream, figures), stream=0, period_ns=None, size=None, count=None)


def _any_stream(name: str, of: PacketStream | Figures) -> dict[str, Any]:
    told = {"name": name, "talker": of.talker, "listener": of.listener, "described": of.described}
    nothing = dict.fromkeys(("priority", "transport", "vlan", "launch_time"))
    return {**told, "interface": None, "port": None, "offset_ns": 0, **nothing}


def _first_of_each(figures: Sequence[Figures]) -> list[Figures]:
    """One of each stream's figures."""
    return list({one.stream: one for one in reversed(figures)}.values())[::-1]


def figures_entry(one: Figures) -> ToolFigures:
    """One metric's figures, as a tool kept them, in cell.json."""
    tally = one.tally
    return ToolFigures(
        stream=one.stream,
        metric=one.metric,
        kept=one.kept,
        between=one.between,
        resolution_ns=one.resolution_ns,
        n=one.n,
        min=one.min,
        mean=one.mean,
        max=one.max,
        stddev=one.stddev,
        percentiles=dict(one.percentiles),
        binned=one.binned,
        min_sequence=one.min_sequence,
        max_sequence=one.max_sequence,
        lost=one.lost,
        two_clocks=one.two_clocks,
        below=tally.below if tally else None,
        above=tally.above if tally else None,
    )


def _clocks(imported: ReadFiles, bound: int | None) -> list[ClockEdge]:
    """What is known of the clocks, for each pair of ends whose clocks are two. bound: how far they may differ, ns."""
    if bound is None:
        return []
    every: list[PacketStream | Figures] = [*imported.streams, *imported.figures]
    ends = dict.fromkeys((one.talker, one.listener) for one in every if one.two_clocks)
    return [
        ClockEdge(from_=talker, to=listener, source=_TOLD, lower_ns=-bound, upper_ns=bound, windows=[])
        for talker, listener in ends
    ]


def _histogram(figures: Sequence[Figures]) -> pl.DataFrame:
    """All bins that hold a value: `figure` (its place in cell.json), `from_ns`, `to_ns` (not included), `count`."""
    tables = []
    for place, one in enumerate(figures):
        if one.tally is not None:
            held = one.tally.count != 0
            columns = {"from_ns": one.tally.from_ns, "to_ns": one.tally.to_ns, "count": one.tally.count}
            rows = pl.DataFrame({name: values[held] for name, values in columns.items()})
            tables.append(rows.select(pl.lit(place, pl.UInt32).alias("figure"), pl.all()))
    return pl.concat(tables)


def _intervals(figures: Sequence[Figures]) -> pl.DataFrame:
    """A row an interval of time: `figure`, `start_ns`, `n`, `min`, `mean`, `max`, `p50`, `p90`, `p99`."""
    rows = [{"figure": place, **vars(one)} for place, all_of in enumerate(figures) for one in all_of.intervals]
    return pl.DataFrame(rows, schema_overrides={"figure": pl.UInt32, "mean": pl.Float64})
