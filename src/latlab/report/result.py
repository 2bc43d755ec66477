"""From a run folder to its result: every cell joined, summarised and judged, as often as one likes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from latlab.analysis.evidence import Evidence
from latlab.analysis.summary import result_document, summarise_cell, with_reasons
from latlab.analysis.trust import judge
from latlab.data.packets import build_packets, read_findings
from latlab.data.run_folder import CellFolder, RunFolder
from latlab.errors import EXIT_ACCEPT, EXIT_LAB, EXIT_OK, EXIT_UNTRUSTED, LatlabError
from latlab.scenario import Loaded, cells, load_scenario

_FAILED = ("failed", "interrupted")


def make_result(folder: RunFolder) -> dict[str, Any]:
    """The result document, which has been written to result.json.

    Cells that were cut short are summarised as far as their recordings go; those without any are listed with
    their reason.
    """
    loaded = _scenario(folder.scenario_path)
    limits = {limit.path: limit.limit for limit in loaded.scenario.limits()} if loaded else {}
    # Rows in the scenario's order, whatever the order they ran in.
    slugs = [cell.slug for cell in cells(loaded)] if loaded else []
    documents = [cell_result(cell) for cell in folder.cells()]
    documents.sort(
        key=lambda document: (slugs.index(document["slug"]) if document["slug"] in slugs else -1, document["repeat"])
    )
    result = result_document(folder.run(), documents, limits)
    folder.write_result(result)
    return result


def cell_result(folder: CellFolder) -> dict[str, Any]:
    """One cell's part of the result document, its packet table built if it was not yet."""
    cell = folder.cell()
    measured = bool(cell["start_tai_ns"])
    if measured and not folder.packets_path.exists():
        build_packets(folder)
    document = summarise_cell(cell, folder.packets() if measured else None)
    evidence = Evidence(
        cell=cell,
        document=document,
        findings=read_findings(folder),
        clocks=folder.clocks(),
        facts_before=folder.facts("before"),
        facts_after=folder.facts("after"),
    )
    return with_reasons(document, judge(evidence))


def exit_code(result: Mapping[str, Any], *, strict: bool = False) -> int:
    """The exit code that a result deserves: the worst of a failed cell (3), no trust (4), a limit exceeded (1).

    strict takes `suspect` for untrusted. Cells this machine cannot build are no failure.
    """
    distrusted = ("untrusted", "suspect") if strict else ("untrusted",)
    if any(cell["status"] in _FAILED for cell in result["cells"]):
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
