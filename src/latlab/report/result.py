"""From a run folder to its result: every cell joined, summarised and judged, as often as one likes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from latlab.analysis.accept import evaluate
from latlab.analysis.alike import largest_difference
from latlab.analysis.cell_anomalies import Beside, cell_anomalies
from latlab.analysis.chosen_windows import Chosen
from latlab.analysis.evidence import Evidence
from latlab.analysis.ptp import ptp_port
from latlab.analysis.summary import result_document, summarise_cell, with_reasons
from latlab.analysis.trust import judge, without_waived
from latlab.errors import EXIT_ACCEPT, EXIT_LAB, EXIT_OK, EXIT_UNTRUSTED, LabError, LatlabError, UsageError, reads_files
from latlab.model.part import Failure
from latlab.recordings.cell import RecordedCell
from latlab.recordings.packets import is_joined, read_findings, whole_packets
from latlab.recordings.ptp_series import read_ptp
from latlab.recordings.run_folder import CellFolder, RunFolder
from latlab.report.beside import beside
from latlab.report.classes import classes_table, write_classes
from latlab.report.comparison.cells import cell_comparisons
from latlab.report.gates import scenario_ports
from latlab.report.imported import imported_result
from latlab.report.launches import with_launches
from latlab.report.losses import with_losses
from latlab.report.probes import with_tools
from latlab.report.synthetic import made_not_measured
from latlab.report.testbed import with_test_bed
from latlab.report.thresholds import gathered_waived, thresholds_document, thresholds_of, turned_off
from latlab.report.traces import with_traces
from latlab.report.unmeasured import UNAVAILABLE
from latlab.report.windows import chosen_in, refuse_wrong
from latlab.result.store import document, result_streams, typed
from latlab.result.types import Result
from latlab.scenario import Loaded, Scenario, Trust, cells, load_scenario
from latlab.scenario.document import read_yaml
from latlab.scenario.load import read_text

_FAILED = frozenset({"failed", "interrupted", "not run"})
_WHAT_ENDED_IT = {
    "running": "the lab was killed before this cell was measured",
    "interrupted": "the run was interrupted before this cell was measured",
}


@reads_files
def make_result(folder: RunFolder, later: Sequence[Chosen] = ()) -> dict[str, Any]:
    """The result document, which has been written to result.json.

    Cells that were cut short are summarised as far as their recordings go; those without any, and those the run
    never came to, are listed with their reason. later: windows that are chosen beside the scenario's. UsageError: the
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
    documents = [cell_result(cell, scenarios.get(cell.slug), trust, later) for cell in folder.cells()]
    documents += _not_run(folder, labels)
    documents.sort(
        key=lambda document: (slugs.index(document["slug"]) if document["slug"] in slugs else -1, document["repeat"])
    )
    about: dict[str, Any] = {
        "headline": loaded.scenario.headline if loaded else None,
        "published": [one.model_dump() for one in loaded.scenario.published] if loaded else [],
    }
    if folder.run().get("check_repeat"):
        about["repeats"] = list(_differences(folder))
    result = judged_result(folder.run(), documents, limits, _absent(loaded, scenarios), about)
    result["scenario_changed"] = _is_changed(folder)
    result["thresholds"] = thresholds_document(trust)
    result["turned_off"] = turned_off(trust, result["waived"])
    folder.write_result(result)
    return result


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


def _is_changed(folder: RunFolder) -> bool | None:
    """Whether scenario.yaml is another than the one that was measured; None: run.json does not say which that was."""
    measured, now = folder.run().get("scenario_sha256"), folder.scenario_digest()
    return None if measured is None else now is not None and now != measured


def _refuse_anothers(folder: RunFolder, labels: Mapping[str, Any]) -> None:
    """Do nothing where the scenario has a cell of the run, or none was read. LabError: it is another run's."""
    measured = [one["slug"] for one in folder.run().get("order", ())]
    if labels and measured and not any(slug in labels for slug in measured):
        raise LabError(
            f"the scenario is another run's: it has {', '.join(list(labels)[:3])}, and not {measured[0]}",
            where=str(folder.scenario_path),
            remedy="restore the run's own scenario; or remove the file: then no limit is evaluated",
        )


def _differences(folder: RunFolder) -> Iterator[dict[str, Any]]:
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
            yield {"slug": slug, "repetitions": len(repetitions)} | found


def _absent(loaded: Loaded | None, scenarios: Mapping[str, Scenario]) -> dict[str, set[str]]:
    """{cell's slug: the probes of the scenario that it does not run}."""
    every = set(loaded.scenario.probes) if loaded else set()
    return {slug: every - set(scenario.probes) for slug, scenario in scenarios.items()}


def judged_result(
    run: Mapping[str, Any],
    documents: Sequence[Mapping[str, Any]],
    limits: Mapping[str, int],
    absent: Mapping[str, Collection[str]] | None = None,
    about: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The result document of these cells' documents. What this machine cannot build breaks no limit.

    absent: {cell's slug: probes that it does not run, of which limits say nothing there}. about: what comparisons
    depend on beside the cells: `headline`, `published`, `repeats`.
    """
    kept = [{key: value for key, value in document.items() if key != "waived"} for document in documents]
    result = result_document(run, kept) | dict(about or {})
    whole = typed(result)
    built = [cell for cell in whole.cells if cell.status != UNAVAILABLE]
    return result | {
        "accept": [document(one) for one in evaluate(limits, built, absent)],
        "waived": gathered_waived(documents),
        "comparisons": [document(one) for one in cell_comparisons(whole)],
    }


@reads_files
def cell_result(
    folder: CellFolder,
    scenario: Scenario | None = None,
    trust: Trust | None = None,
    later: Sequence[Chosen] = (),
) -> dict[str, Any]:
    """One cell's part of the result document, its packet table built if it was not yet, and its classes.parquet.

    scenario: the cell's own; without it nothing is said of gates, and it names no windows. trust: where the lines are
    drawn, and what does not count; without it the defaults. later: windows that are chosen after the fact. `waived` is
    what rules that are turned off found.
    """
    cell = folder.cell()
    if cell.imported:
        return imported_result(folder, cell)
    ptp, before, after = list(read_ptp(folder, cell)), folder.facts("before"), folder.facts("after")
    clocks = folder.clocks()
    known = beside(cell, ptp, before, after, clocks) if cell.start_tai_ns else {}
    document = with_test_bed(_summarised(folder, cell, scenario, known, later), cell)
    ports = [ptp_port(one.port, one.rows, one.window_ns) for one in ptp]
    document["ptp"] = [port.document() for port in ports]
    evidence = Evidence(
        cell=cell,
        streams=result_streams(document),
        ptp=ports,
        findings=read_findings(folder),
        clocks=clocks,
        facts_before=before,
        facts_after=after,
        thresholds=thresholds_of(trust),
    )
    counts, waived = without_waived(judge(evidence), trust.off if trust else {})
    counts = [*made_not_measured(cell), *counts]
    return with_reasons(document, counts) | {"waived": [one.as_dict() for one in waived]}


def _summarised(
    folder: CellFolder,
    cell: RecordedCell,
    scenario: Scenario | None,
    known: Mapping[str, Beside],
    later: Sequence[Chosen],
) -> dict[str, Any]:
    """The cell's document without what it was measured on and how far it is trusted; its files are written."""
    if not cell.start_tai_ns:
        return with_tools(summarise_cell(cell, None), cell, None)
    packets = whole_packets(folder)
    ports = scenario_ports(scenario) if scenario else ()
    found = cell_anomalies(cell, packets, ports, known)
    write_classes(folder, classes_table(cell, packets, found))
    document = summarise_cell(cell, packets, ports, found, [*chosen_in(scenario), *later])
    told = with_losses(with_traces(with_tools(document, cell, packets), folder, cell), folder, cell, packets)
    return with_launches(told, cell, scenario)


def _not_run(folder: RunFolder, labels: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The documents of the cells that the run was to measure and of which it left no cell.json.

    labels: {slug: what the cell's matrix keys are}, of the cells that are known.
    """
    run = folder.run()
    written = {(cell.slug, cell.repeat) for cell in folder.cells()}
    what = _WHAT_ENDED_IT.get(run.get("status", ""), "the run has no cell.json of this cell")
    documents = []
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
        document = with_test_bed(summarise_cell(cell, None), cell)
        documents.append(with_reasons(document, judge(Evidence(cell))))
    return documents


def exit_code(result: Result, *, strict: bool = False) -> int:
    """The exit code that a result deserves: of a cell that failed or never ran (3), no trust (4), a limit exceeded (1).

    The first that applies, in this order. strict takes `suspect` for untrusted. Cells this machine cannot build are
    as if they were not there; where it can build none, nothing was measured, and the lab has failed.
    """
    distrusted = ("untrusted", "suspect") if strict else ("untrusted",)
    statuses = {cell.status for cell in result.cells}
    if statuses & _FAILED or statuses == {UNAVAILABLE}:
        return EXIT_LAB
    if result.verdict in distrusted:
        return EXIT_UNTRUSTED
    if any(not limit.ok for limit in result.accept):
        return EXIT_ACCEPT
    return EXIT_OK


def _noted_trust(run: Mapping[str, Any]) -> Trust | None:
    """The scenario's `trust` as run.json has noted it; None where a later version of latlab reads that differently."""
    try:
        return Trust.model_validate(run.get("trust") or {})
    except ValidationError:
        return None


def read_scenario(path: Path) -> Loaded | None:
    """The scenario as it was run; None where a later version of latlab reads it differently.

    The measurement is shown all the same: its order is lost then, and its limits are not evaluated (`unread_limits`).
    LabError: it is there, and no scenario of any version: whoever had limits would be told that none was exceeded.
    """
    try:
        return load_scenario(path)
    except LatlabError as error:
        if path.exists() and not isinstance(_plain(path), dict):
            raise LabError(
                f"the run's scenario is damaged, and with it the limits that were set: {_first_line(error)}",
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
