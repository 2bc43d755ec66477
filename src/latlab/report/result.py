"""From a run folder to its result: every cell joined, summarised and judged, as often as one likes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import ValidationError

from latlab.analysis.accept import evaluate
from latlab.analysis.anomalies import NAMES, Anomalies
from latlab.analysis.anomalies.context import ClockStep, host_records
from latlab.analysis.cell_anomalies import ClockSeries, StreamRecords, cell_anomalies
from latlab.analysis.cores import cores_used
from latlab.analysis.counts import stream_rows
from latlab.analysis.described import ONE_KERNEL, clock_source
from latlab.analysis.evidence import Evidence
from latlab.analysis.ptp import SLAVE, UNCALIBRATED, ptp_port
from latlab.analysis.repetitions import COPY_NS, copies, largest_difference
from latlab.analysis.summary import JudgedCell, result_of, summarise_cell
from latlab.analysis.trust import judge, without_waived
from latlab.analysis.way import ONE_CLOCK
from latlab.analysis.windows import Named
from latlab.model.errors import (
    EXIT_ACCEPT,
    EXIT_LAB,
    EXIT_OK,
    EXIT_UNTRUSTED,
    LabError,
    LatlabError,
    UsageError,
    reads_files,
)
from latlab.model.facts import Facts
from latlab.model.labels import SYNTHETIC
from latlab.model.part import UNAVAILABLE, Document, Failure, Keys, distrusted
from latlab.model.reasons import Reason, reason_of
from latlab.model.thresholds import Thresholds
from latlab.recordings.cell import RecordedCell, RecordedStream
from latlab.recordings.clock_offset import offset_between
from latlab.recordings.packets import is_joined, read_findings, whole_packets
from latlab.recordings.ptp_series import PtpSeries, read_ptp
from latlab.recordings.run_folder import CellFolder, RunFolder, writing_table
from latlab.report.comparison.document import cell_comparisons
from latlab.report.flows import flow_reasons
from latlab.report.gates import scenario_ports
from latlab.report.imported import imported_result
from latlab.report.launches import launches_of
from latlab.report.losses import losses_by_name
from latlab.report.traces import traces_of
from latlab.report.verdict import threshold_values, thresholds_of, turned_off
from latlab.report.windows import chosen_in, refuse_wrong
from latlab.result.types import Cell, Published, Repeats, Result
from latlab.scenario import Loaded, Scenario, Trust, cells, load_scenario
from latlab.scenario.load import read_text, read_yaml

_FAILED = frozenset({"failed", "interrupted", "not run"})
_WHAT_ENDED_IT = {
    "running": "latlab was killed before this cell was measured",
    "interrupted": "the run was interrupted before this cell was measured",
}


@reads_files
def make_result(folder: RunFolder, later: Sequence[Named] = ()) -> Result:
    """The result, which has been written to result.json.

    Cells that were cut short are summarised as far as their recordings go; those without any, and those the run
    never reached, are listed with their reason. later: windows that are chosen next to the scenario's. UsageError: the
    run is still being measured, or has nothing in such a window. LabError: the folder cannot be written.
    """
    if folder.is_live():
        raise UsageError(
            "the run is still being measured",
            where=folder.id,
            remedy="wait for its end, or stop it: it reports what it has measured",
        )
    folder.check_writable()
    _refuse_copies(folder)
    refuse_wrong(later, [cell.cell() for cell in folder.cells()])
    loaded = read_scenario(folder.scenario_path)
    limits = {limit.path: limit.limit for limit in loaded.scenario.limits()} if loaded else {}
    # Rows in the scenario's order, whatever the order they ran in.
    labels = {cell.slug: cell.label for cell in cells(loaded)} if loaded else {}
    _refuse_anothers(folder, labels)
    slugs = list(labels)
    scenarios = {cell.slug: cell.scenario for cell in cells(loaded)} if loaded else {}
    trust = loaded.scenario.trust if loaded else _noted_trust(folder.run())
    found = [cell_result(cell, scenarios.get(cell.slug), trust, later) for cell in folder.cells()]
    found += _not_run(folder, labels)
    found.sort(key=lambda one: (slugs.index(one.cell.slug) if one.cell.slug in slugs else -1, one.cell.repeat))
    if not folder.run().get("check_repeat"):
        found = _with_copies(found)
    about = About(
        headline=loaded.scenario.headline if loaded else None,
        published=list(_published(loaded)) if loaded else [],
        repeats=list(_differences(folder)) if folder.run().get("check_repeat") else None,
    )
    result = judged_result(folder.run(), found, limits, _absent(loaded, scenarios), about)
    more: dict[str, object] = {
        "scenario_changed": _is_changed(folder),
        "thresholds": threshold_values(trust),
        "turned_off": turned_off(trust, result.waived),
    }
    result = result.model_copy(update=more)
    folder.write_result(result.document())
    return result


def _published(loaded: Loaded) -> Iterator[Published]:
    """The published rows, each with the cells that it is compared with."""
    for number, row in enumerate(loaded.scenario.published):
        named = [cell.slug for cell in cells(loaded) if number in cell.published] if row.when else None
        yield Published(**row.model_dump(exclude={"when"}), cells=named)


def _refuse_copies(folder: RunFolder) -> None:
    """Do nothing. LabError: one measurement lies in two folders, and would count as two repetitions."""
    where: dict[tuple[str, int], CellFolder] = {}
    for one in folder.cells():
        cell = one.cell()
        first = where.setdefault((cell.slug, cell.repeat), one)
        if first is not one:
            raise LabError(
                f"a copy: {first.path.relative_to(folder.path)} is repetition {cell.repeat} of {cell.slug}, too",
                where=str(one.path),
                remedy="remove the one that does not belong to the run",
            )


def _with_copies(found: Sequence[JudgedCell]) -> list[JudgedCell]:
    """The cells; one that measured what an earlier repetition of it did has that among its reasons."""
    reasons: dict[str, list[Reason]] = {}
    for cell, stream, earlier in copies([one.cell for one in found]):
        reasons.setdefault(cell.key, []).append(
            reason_of(
                "repetitions-distinct",
                f"stream {stream}",
                f"figures that differ by more than {COPY_NS} ns, or a hundredth of their range",
                f"those of repetition {earlier}",
            )
        )
    return [JudgedCell.of(one.cell, [*one.reasons, *reasons.get(one.cell.key, ())], one.waived) for one in found]


def _is_changed(folder: RunFolder) -> bool | None:
    """Whether scenario.yaml is another than the one that was measured; None: run.json does not say which that was."""
    measured, now = folder.run().get("scenario_sha256"), folder.scenario_digest()
    return None if measured is None else now is not None and now != measured


def _refuse_anothers(folder: RunFolder, labels: Mapping[str, Keys]) -> None:
    """Do nothing where the scenario has a cell of the run, or none was read. LabError: it is another run's."""
    measured = [one["slug"] for one in folder.run().get("order", ())]
    if labels and measured and not any(slug in labels for slug in measured):
        raise LabError(
            f"the scenario is another run's: it has {', '.join(list(labels)[:3])}, and not {measured[0]}",
            where=str(folder.scenario_path),
            remedy="restore the run's own scenario; or remove the file: then no limit is evaluated",
        )


def _differences(folder: RunFolder) -> Iterator[Repeats]:
    """What the repetitions of each cell differ by at most: `repeats` of docs/reference/result.md."""
    measured: dict[str, list[CellFolder]] = {}
    for cell in sorted(folder.cells(), key=lambda cell: cell.repeat):
        if is_joined(cell):
            measured.setdefault(cell.slug, []).append(cell)
    for slug, repetitions in measured.items():
        if len(repetitions) > 1:
            found = asdict(largest_difference([cell.packets() for cell in repetitions]))
            names = {stream.stream: stream.name for stream in repetitions[0].cell().streams}
            found["stream"] = names.get(found["stream"])
            yield Repeats(slug=slug, repetitions=len(repetitions), **found)


def _absent(loaded: Loaded | None, scenarios: Mapping[str, Scenario]) -> dict[str, set[str]]:
    """{cell's slug: the probes of the scenario that it does not run}."""
    every = set(loaded.scenario.probes) if loaded else set()
    return {slug: every - set(scenario.probes) for slug, scenario in scenarios.items()}


@dataclass(frozen=True)
class About:
    """What comparisons depend on beside the cells, as in result.json."""

    headline: str | None = None
    published: Sequence[Published] = field(default_factory=list)
    repeats: Sequence[Repeats] | None = None


def judged_result(
    run: Document,
    cells: Sequence[JudgedCell],
    limits: Mapping[str, int],
    absent: Mapping[str, Collection[str]] | None = None,
    about: About | None = None,
) -> Result:
    """The result of these cells. What this machine cannot build breaks no limit.

    absent: {cell's slug: probes that it does not run, of which limits say nothing there}.
    """
    result = result_of(run, cells).model_copy(update=dict(vars(about or About())))
    built = [cell for cell in result.cells if cell.status != UNAVAILABLE]
    more = {
        "accept": evaluate(limits, built, absent),
        "waived": [reason for one in cells for reason in one.placed(one.waived)],
        "comparisons": list(cell_comparisons(result)),
    }
    return result.model_copy(update=more)


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
        return imported_result(folder, cell)
    ptp, before, after = list(read_ptp(folder, cell)), folder.facts("before"), folder.facts("after")
    clocks = folder.clocks()
    known = beside(cell, ptp, before, after, clocks) if cell.start_tai_ns else {}
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
    return JudgedCell.of(found, [*made_not_measured(cell), *counts], waived)


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
    write_classes(folder, classes_table(cell, packets, found))
    summary = summarise_cell(cell, packets, ports, found, [*chosen_in(scenario), *later])
    more: dict[str, dict[str, object]] = {name: {} for name in summary.streams}
    every = (("trace", traces_of(folder, cell)), ("losses", losses_by_name(folder, cell, packets)))
    for key, by_name in every:
        for name in more.keys() & by_name.keys():
            more[name][key] = by_name[name]
    for name, launches in launches_of(cell, scenario).items():
        more[name] |= launches
    streams = {name: stream.model_copy(update=more[name]) for name, stream in summary.streams.items()}
    return summary.model_copy(update={"streams": streams})


def _not_run(folder: RunFolder, labels: Mapping[str, Keys]) -> list[JudgedCell]:
    """The cells that the run was to measure and of which it left no cell.json.

    labels: {slug: what the cell's matrix keys are}, of the cells that are known.
    """
    run = folder.run()
    written = {(cell.slug, cell.repeat) for cell in folder.cells()}
    what = _WHAT_ENDED_IT.get(run.get("status", ""), "the run has no cell.json of this cell")
    found = []
    for order, one in enumerate(run.get("order", []), start=1):
        if (one["slug"], one["repeat"]) in written:
            continue
        cell = RecordedCell(
            cell=dict(labels.get(one["slug"], {})),
            slug=one["slug"],
            repeat=one["repeat"],
            order=order,
            status="not run",
            reason=Failure(what=what, where="", remedy="run it again"),
            streams=[],
        )
        found.append(JudgedCell.of(summarise_cell(cell, None), judge(Evidence(cell))))
    return found


def exit_code(result: Result, *, strict: bool = False) -> int:
    """The exit code that a result deserves: of a cell that failed or never ran (3), no trust (4), a limit exceeded (1).

    The first that applies, in this order. strict takes `suspect` for untrusted. Cells this machine cannot build are
    as if they were not there; where it can build none, nothing was measured, and the lab has failed.
    """
    statuses = {cell.status for cell in result.cells}
    if statuses & _FAILED or statuses == {UNAVAILABLE}:
        return EXIT_LAB
    if result.verdict in distrusted(strict):
        return EXIT_UNTRUSTED
    if any(not limit.ok for limit in result.accept):
        return EXIT_ACCEPT
    return EXIT_OK


def _noted_trust(run: Document) -> Trust | None:
    """The scenario's `trust` as run.json has noted it; None where a later version of latlab reads that differently."""
    try:
        return Trust.model_validate(run.get("trust") or {})
    except ValidationError:
        return None


def read_scenario(path: Path) -> Loaded | None:
    """The scenario as it was run; None where a later version of latlab reads it differently.

    The measurement is still shown: its order is lost then, and its limits are not evaluated (`unread_limits`).
    LabError: it exists, but is not a scenario of any version: its limits would be reported as not exceeded.
    """
    try:
        return load_scenario(path)
    except LatlabError as error:
        if path.exists() and not isinstance(_plain(path), dict):
            raise LabError(
                f"the run's scenario is damaged, including its limits: {_first_line(error)}",
                where=str(path),
                remedy="restore a complete copy of it; or remove it: then no limit is evaluated",
            ) from error
        return None


def unread_limits(path: Path) -> str:
    """What there is to say of a scenario with `accept` that this version does not read; empty of any other."""
    try:
        load_scenario(path)
    except LatlabError as error:
        found = _plain(path)
        if isinstance(found, dict) and found.get("accept"):
            return f"no limit of `accept` was evaluated: this latlab does not read the scenario: {_first_line(error)}"
    return ""


def _plain(path: Path) -> Any:
    """The plain data of a YAML file; None where it has none, or cannot be read."""
    try:
        return read_yaml(read_text(path)).data
    except LatlabError:
        return None


def _first_line(error: LatlabError) -> str:
    """The first of the mistakes: below the line that counts them."""
    lines = str(error).splitlines()
    return lines[min(1, len(lines) - 1)]


# The truth of a synthetic run


def made_not_measured(cell: RecordedCell) -> Iterator[Reason]:
    """The reason why figures of cell.json's cell are not to be trusted if they were made; nothing of any other."""
    if cell.label == SYNTHETIC:
        yield reason_of(
            "measured-by-latlab",
            "",
            "packets that were sent and received",
            "packets that a program generated",
            case="made",
        )


# classes.parquet


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


# What a cell's folder has on record next to a stream's packets: PTP's offset, the clocks' comparison, the facts.


_EVERY_NS: Final = 250_000_000
"""How often the comparison of two clocks is looked up: the comparisons themselves are hardly closer together."""
_LOOKS_MOST: Final = 20_000


def beside(
    cell: RecordedCell,
    ports: Sequence[PtpSeries],
    facts_before: Facts,
    facts_after: Facts,
    clocks: Mapping[str, pl.DataFrame],
) -> dict[str, StreamRecords]:
    """{stream: what is on record next to its packets}.

    cell: cell.json; ports: PTP's; facts: {host: facts}; clocks: {`talker-HOST`: its clocks table}.
    """
    return {
        stream.name: StreamRecords(
            ptp=ptp_offset(cell, stream, ports),
            systems=_systems(cell, stream),
            cards=_cards(cell, stream),
            steps=tuple(_steps(stream, clocks)),
            hosts=host_records(cell, stream, facts_before, facts_after),
        )
        for stream in cell.streams
    }


def _steps(stream: RecordedStream, clocks: Mapping[str, pl.DataFrame]) -> Iterator[ClockStep]:
    """The steps of the two hosts' TAI clocks, as their readings show: against MONOTONIC, which is steered likewise."""
    for agent, host in (("talker", stream.talker), ("listener", stream.listener)):
        rows = clocks.get(f"{agent}-{host}")
        if rows is None or rows.height < 2:
            continue
        at, bracket = rows["tai_ns"].to_numpy(), rows["bracket_ns"].to_numpy()
        jump = np.diff(at - rows["monotonic_ns"].to_numpy())
        sharp = Thresholds().clock_step_ns + bracket[1:] + bracket[:-1]
        for number in np.flatnonzero(np.abs(jump) > sharp).tolist():
            first, last = sorted((int(at[number]), int(at[number + 1])))
            yield ClockStep(host, first, last, int(jump[number]))


def ptp_offset(cell: RecordedCell, stream: RecordedStream, ports: Sequence[PtpSeries]) -> ClockSeries | None:
    """What PTP says that the listener's clock is ahead of the talker's, by the talker's TAI; None: it says nothing.

    A slave's offset is from its master. Where the other end is that master, or has no port that is a slave, it is
    all there is; where both follow the same grandmaster, it is the difference.
    """
    listener, talker = (_slave(cell, host, ports) for host in (stream.listener, stream.talker))
    if listener and talker:
        if _master(listener) in _alike(cell, stream.talker):
            talker = None
        elif _master(talker) in _alike(cell, stream.listener):
            listener = None
        elif listener is talker or _grandmasters(listener) != _grandmasters(talker):
            return None
    if listener and talker:
        return ClockSeries(_less(_rows(cell, stream, listener), _rows(cell, stream, talker)), _names(listener, talker))
    if listener:
        return ClockSeries(_rows(cell, stream, listener), _names(listener))
    if talker:
        turned = _rows(cell, stream, talker).with_columns(-pl.col("offset_ns"))
        return ClockSeries(turned, f"{_names(talker)}, with its sign turned")
    return None


def _slave(cell: RecordedCell, host: str, ports: Sequence[PtpSeries]) -> PtpSeries | None:
    """The port that turns the host's clock by another's: its own, else one of a host on the same kernel."""
    for names in ({host}, _alike(cell, host)):
        found = [one for one in ports if _host(one.port.port) in names and _follows(one)]
        if found:
            return min(found, key=lambda one: bool(one.port.free_running))
    return None


def _follows(one: PtpSeries) -> bool:
    followed = one.rows["state"].is_in([SLAVE, UNCALIBRATED])
    return one.port.role != "master" and bool((followed & one.rows["offset_ns"].is_not_null()).any())


def _master(one: PtpSeries) -> str | None:
    """The host of the port that it follows, where that is known."""
    master = one.port.master
    return _host(master) if master else None


def _grandmasters(one: PtpSeries) -> frozenset[int]:
    return frozenset(one.rows["grandmaster"].drop_nulls().unique().to_list())


def _alike(cell: RecordedCell, host: str) -> frozenset[str]:
    """The hosts on the same kernel, itself included."""
    found = {host}
    edges = [{one.from_, one.to} for one in cell.clocks if one.source == ONE_KERNEL]
    while more := [edge for edge in edges if edge & found and not edge <= found]:
        found |= set().union(*more)
    return frozenset(found)


def _host(port: str) -> str:
    return port.partition(".")[0]


def _names(*ports: PtpSeries) -> str:
    return " less that at ".join(str(one.port.port) for one in ports)


def _rows(cell: RecordedCell, stream: RecordedStream, one: PtpSeries) -> pl.DataFrame:
    """tai_ns, offset_ns, state of a port; the streams' start by its host's TAI is where it is by the talker's."""
    theirs = cell.start_of(one.port)
    return one.rows.select(pl.col("tai_ns") + (_start_ns(cell, stream) - theirs), "offset_ns", "state").sort("tai_ns")


def _less(rows: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """One offset less another, which is taken from between its readings; null where that has none around."""
    known = other.filter(pl.col("offset_ns").is_not_null())
    at, first, last = rows["tai_ns"].to_numpy(), known["tai_ns"][0], known["tai_ns"][-1]
    between = np.rint(np.interp(at, known["tai_ns"].to_numpy(), known["offset_ns"].to_numpy())).astype(np.int64)
    inside = pl.col("tai_ns").is_between(first, last)
    return rows.with_columns(pl.when(inside).then(pl.col("offset_ns") - pl.Series(between)).alias("offset_ns"))


def _systems(cell: RecordedCell, stream: RecordedStream) -> ClockSeries | None:
    """The comparison of the two hosts' own clocks; None where they are one."""
    talker, listener = stream.talker, stream.listener
    source = clock_source(cell.clocks, talker, listener)
    if source is None or source in (ONE_CLOCK, ONE_KERNEL):
        return None
    return _compared(cell, stream, talker, listener, source)


def _cards(cell: RecordedCell, stream: RecordedStream) -> ClockSeries | None:
    """The comparison of the two network cards' clocks, where `clocks` has one of each end."""
    edges = cell.clocks
    named = {name for edge in edges for name in (edge.from_, edge.to) if "." in name}
    talker = [f"{stream.talker}.{stream.port}"] if stream.port else []
    listener = [name for name in sorted(named) if _host(name) == stream.listener]
    if len(listener) != 1 or not set(talker) & named:
        return None
    source = clock_source(edges, talker[0], listener[0])
    return None if source is None else _compared(cell, stream, talker[0], listener[0], source)


def _compared(
    cell: RecordedCell, stream: RecordedStream, talker: str, listener: str, source: str
) -> ClockSeries | None:
    """at_tai_ns, lower_ns, upper_ns: of the listener's clock − the talker's, by the talker's, where it is known."""
    at = _looks(cell, stream)
    offset = offset_between(cell.clocks, talker, listener, at)
    if offset is None or not offset.known.any():
        return None
    known = offset.known
    ahead, half = -offset.estimate_ns[known], offset.half_ns[known]
    rows = pl.DataFrame({"at_tai_ns": at[known], "lower_ns": ahead - half, "upper_ns": ahead + half})
    return ClockSeries(rows, source)


def _looks(cell: RecordedCell, stream: RecordedStream) -> NDArray[np.int64]:
    first, length = _start_ns(cell, stream), cell.duration_ns
    return np.arange(first, first + length + 1, max(_EVERY_NS, length // _LOOKS_MOST), dtype=np.int64)


def _start_ns(cell: RecordedCell, stream: RecordedStream) -> int:
    """When the streams started, by the talker's TAI."""
    return cell.start_of(stream)
