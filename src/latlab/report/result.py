"""From a run folder to its result: every cell joined, summarised and judged, as often as one likes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from latlab.analysis.accept import evaluate
from latlab.analysis.alike import largest_difference
from latlab.analysis.evidence import Evidence
from latlab.analysis.ptp import ptp_document
from latlab.analysis.summary import result_document, summarise_cell, with_reasons
from latlab.analysis.trust import judge
from latlab.data.packets import build_packets, is_joined, read_findings
from latlab.data.ptp_series import read_ptp
from latlab.data.run_folder import CellFolder, RunFolder
from latlab.errors import EXIT_ACCEPT, EXIT_LAB, EXIT_OK, EXIT_UNTRUSTED, LatlabError, UsageError
from latlab.report.gates import scenario_ports
from latlab.report.testbed import with_test_bed
from latlab.report.unmeasured import UNAVAILABLE
from latlab.scenario import Loaded, Scenario, cells, load_scenario

_FAILED = frozenset({"failed", "interrupted", "not run"})
_WHAT_ENDED_IT = {
    "running": "the lab was killed before this cell was measured",
    "interrupted": "the run was interrupted before this cell was measured",
}


def make_result(folder: RunFolder) -> dict[str, Any]:
    """The result document, which has been written to result.json.

    Cells that were cut short are summarised as far as their recordings go; those without any, and those the run
    never came to, are listed with their reason. UsageError: the run is still being measured.
    """
    if folder.is_live():
        raise UsageError(
            "the run is still being measured",
            where=folder.id,
            remedy="wait for its end, or end it: it reports what it has measured",
        )
    loaded = _scenario(folder.scenario_path)
    limits = {limit.path: limit.limit for limit in loaded.scenario.limits()} if loaded else {}
    # Rows in the scenario's order, whatever the order they ran in.
    labels = {cell.slug: cell.label for cell in cells(loaded)} if loaded else {}
    slugs = list(labels)
    scenarios = {cell.slug: cell.scenario for cell in cells(loaded)} if loaded else {}
    documents = [cell_result(cell, scenarios.get(cell.slug)) for cell in folder.cells()] + _not_run(folder, labels)
    documents.sort(
        key=lambda document: (slugs.index(document["slug"]) if document["slug"] in slugs else -1, document["repeat"])
    )
    result = judged_result(folder.run(), documents, limits)
    result["published"] = [one.model_dump() for one in loaded.scenario.published] if loaded else []
    if folder.run().get("check_repeat"):
        result["repeats"] = list(_differences(folder))
    folder.write_result(result)
    return result


def _differences(folder: RunFolder) -> Iterator[dict[str, Any]]:
    """Of each cell that was measured more than once, what its repetitions differ by at most (docs/formats.md)."""
    measured: dict[str, list[CellFolder]] = {}
    for cell in sorted(folder.cells(), key=lambda cell: cell.repeat):
        if is_joined(cell):
            measured.setdefault(cell.slug, []).append(cell)
    for slug, repetitions in measured.items():
        if len(repetitions) > 1:
            found = asdict(largest_difference([cell.packets() for cell in repetitions]))
            names = {stream["stream"]: stream["name"] for stream in repetitions[0].cell()["streams"]}
            found["stream"] = names.get(found["stream"])
            yield {"slug": slug, "repetitions": len(repetitions)} | found


def judged_result(
    run: Mapping[str, Any], documents: Sequence[Mapping[str, Any]], limits: Mapping[str, int]
) -> dict[str, Any]:
    """The result document of these cells' documents. What this machine cannot build breaks no limit."""
    built = [document for document in documents if document["status"] != UNAVAILABLE]
    return result_document(run, documents) | {"accept": evaluate(limits, built)}


def cell_result(folder: CellFolder, scenario: Scenario | None = None) -> dict[str, Any]:
    """One cell's part of the result document, its packet table built if it was not yet.

    scenario: the cell's own; without it nothing is said of gates.
    """
    cell = folder.cell()
    measured = bool(cell["start_tai_ns"])
    if measured and not is_joined(folder):
        build_packets(folder)
    ports = scenario_ports(scenario) if scenario else ()
    document = with_test_bed(summarise_cell(cell, folder.packets() if measured else None, ports), cell)
    document["ptp"] = [ptp_document(series.port, series.rows) for series in read_ptp(folder, cell)]
    evidence = Evidence(
        cell=cell,
        document=document,
        findings=read_findings(folder),
        clocks=folder.clocks(),
        facts_before=folder.facts("before"),
        facts_after=folder.facts("after"),
    )
    return with_reasons(document, judge(evidence))


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
        cell = {
            "cell": labels.get(one["slug"], {}),
            "slug": one["slug"],
            "repeat": one["repeat"],
            "order": order,
            "status": "not run",
            "reason": {"what": what, "where": "", "remedy": "run it again"},
            "streams": [],
            "agents": [],
        }
        document = with_test_bed(summarise_cell(cell, None), cell)
        documents.append(with_reasons(document, judge(Evidence(cell=cell, document=document))))
    return documents


def exit_code(result: Mapping[str, Any], *, strict: bool = False) -> int:
    """The exit code that a result deserves: of a cell that failed or never ran (3), no trust (4), a limit exceeded (1).

    The first that applies, in this order. strict takes `suspect` for untrusted. Cells this machine cannot build are
    as if they were not there; where it can build none, nothing was measured, and the lab has failed.
    """
    distrusted = ("untrusted", "suspect") if strict else ("untrusted",)
    statuses = {cell["status"] for cell in result["cells"]}
    if statuses & _FAILED or statuses == {UNAVAILABLE}:
        return EXIT_LAB
    if result["verdict"] in distrusted:
        return EXIT_UNTRUSTED
    if any(not limit["ok"] for limit in result["accept"]):
        return EXIT_ACCEPT
    return EXIT_OK


def _scenario(path: Path) -> Loaded | None:
    """The scenario as it was run; None where a later version of latlab reads it differently.

    The measurement is shown all the same: its order is lost then, and its limits are not evaluated.
    """
    try:
        return load_scenario(path)
    except LatlabError:
        return None
