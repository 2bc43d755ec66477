"""The result of a run, made as often as one likes: every cell evaluated, the verdict, limits and comparisons."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from pydantic import ValidationError

from latlab.analysis.accept import evaluate
from latlab.analysis.evidence import Evidence
from latlab.analysis.repetitions import COPY_NS, copies, largest_difference
from latlab.analysis.summary import JudgedCell, result_of, summarise_cell
from latlab.analysis.trust import judge
from latlab.analysis.windows import Named
from latlab.evaluation.cell import cell_result
from latlab.evaluation.comparison.cells import cell_comparisons
from latlab.evaluation.scenario import read_scenario
from latlab.evaluation.thresholds import threshold_values, turned_off
from latlab.evaluation.windows import refuse_wrong
from latlab.model.errors import (
    EXIT_ACCEPT,
    EXIT_LAB,
    EXIT_OK,
    EXIT_UNTRUSTED,
    LabError,
    UsageError,
    reads_files,
)
from latlab.model.part import UNAVAILABLE, Failure, Keys, distrusted
from latlab.model.reasons import Reason, reason_of
from latlab.recordings.cell import RecordedCell
from latlab.recordings.packets import is_joined
from latlab.recordings.run import RecordedRun
from latlab.recordings.run_folder import CellFolder, RunFolder
from latlab.result.types import Published, Repeats, Result
from latlab.scenario import Loaded, Scenario, Trust, cells

_FAILED: Final = frozenset({"failed", "interrupted", "not run"})
_WHAT_ENDED_IT: Final = {
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
    loaded, run = read_scenario(folder.scenario_path), folder.run()
    every = cells(loaded) if loaded else []
    scenarios = {cell.slug: cell.scenario for cell in every}
    labels = {cell.slug: cell.label for cell in every}
    _refuse_anothers(folder, labels)
    trust = loaded.scenario.trust if loaded else _noted_trust(run)
    found = [cell_result(cell, scenarios.get(cell.slug), trust, later) for cell in folder.cells()]
    found += _not_run(folder, labels)
    # Rows in the scenario's order, whatever the order they ran in.
    rank = {slug: place for place, slug in enumerate(labels)}
    found.sort(key=lambda one: (rank.get(one.cell.slug, -1), one.cell.repeat))
    is_check = run.check_repeat
    about = About(
        headline=loaded.scenario.headline if loaded else None,
        published=list(_published(loaded)) if loaded else [],
        repeats=list(_differences(folder)) if is_check else None,
    )
    limits = {limit.path: limit.limit for limit in loaded.scenario.limits()} if loaded else {}
    absent = _absent(loaded.scenario, scenarios) if loaded else {}
    result = judged_result(run, found if is_check else _with_copies(found), limits, absent, about)
    more: dict[str, object] = {
        "scenario_changed": _is_changed(folder),
        "thresholds": threshold_values(trust),
        "turned_off": turned_off(trust, result.waived),
    }
    result = result.model_copy(update=more)
    folder.write_result(result.document())
    return result


@dataclass(frozen=True)
class About:
    """What comparisons depend on beside the cells, as in result.json."""

    headline: str | None = None
    published: Sequence[Published] = field(default_factory=list)
    repeats: Sequence[Repeats] | None = None


def judged_result(
    run: RecordedRun,
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


# The cells: those that ran, and those that did not


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


def _refuse_anothers(folder: RunFolder, labels: Mapping[str, Keys]) -> None:
    """Do nothing where the scenario has a cell of the run, or none was read. LabError: it is another run's."""
    measured = [one.slug for one in folder.run().order]
    if labels and measured and not any(slug in labels for slug in measured):
        raise LabError(
            f"the scenario is another run's: it has {', '.join(list(labels)[:3])}, and not {measured[0]}",
            where=str(folder.scenario_path),
            remedy="restore the run's own scenario; or remove the file: then no limit is evaluated",
        )


def _not_run(folder: RunFolder, labels: Mapping[str, Keys]) -> list[JudgedCell]:
    """The cells that the run was to measure and of which it left no cell.json.

    labels: {slug: what the cell's matrix keys are}, of the cells that are known.
    """
    run = folder.run()
    written = {(cell.slug, cell.repeat) for cell in folder.cells()}
    what = _WHAT_ENDED_IT.get(run.status or "", "the run has no cell.json of this cell")
    found = []
    for order, one in enumerate(run.order, start=1):
        if (one.slug, one.repeat) in written:
            continue
        cell = RecordedCell(
            cell=dict(labels.get(one.slug, {})),
            slug=one.slug,
            repeat=one.repeat,
            order=order,
            status="not run",
            reason=Failure(what=what, where="", remedy="run it again"),
            streams=[],
        )
        found.append(JudgedCell.of(summarise_cell(cell, None), judge(Evidence(cell))))
    return found


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


# What the scenario and run.json say of the run


def _noted_trust(run: RecordedRun) -> Trust | None:
    """The scenario's `trust` as run.json has noted it; None where a later version of latlab reads that differently."""
    try:
        return Trust.model_validate(run.trust or {})
    except ValidationError:
        return None


def _is_changed(folder: RunFolder) -> bool | None:
    """Whether scenario.yaml is another than the one that was measured; None: run.json does not say which that was."""
    measured, now = folder.run().scenario_sha256, folder.scenario_digest()
    return None if measured is None else now is not None and now != measured


def _published(loaded: Loaded) -> Iterator[Published]:
    """The published rows, each with the cells that it is compared with."""
    for number, row in enumerate(loaded.scenario.published):
        named = [cell.slug for cell in cells(loaded) if number in cell.published] if row.when else None
        yield Published(**row.model_dump(exclude={"when"}), cells=named)


def _absent(whole: Scenario, scenarios: Mapping[str, Scenario]) -> dict[str, set[str]]:
    """{cell's slug: the probes of the scenario that it does not run}."""
    return {slug: set(whole.probes) - set(scenario.probes) for slug, scenario in scenarios.items()}


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
