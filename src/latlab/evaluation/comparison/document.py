"""The comparison document: runs, cells of runs, or the values of a matrix key, held against each other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from latlab.analysis.comparison.compare import Pair, compared
from latlab.analysis.comparison.configuration import (
    Configuration,
    by_key,
    matched,
    streams_of_both,
)
from latlab.analysis.comparison.effect import ALPHA
from latlab.analysis.comparison.words import judged
from latlab.evaluation.comparison.cells import MEDIAN, compared_by
from latlab.evaluation.comparison.differing import (
    ComparedCells,
    differing_facts,
    differing_scenarios,
    differing_streams,
    differing_versions,
)
from latlab.evaluation.comparison.entry import (
    entry,
    family_size,
    loss_entries,
    main_family,
    names_of,
    notes,
    regression_entry,
    together_entries,
)
from latlab.evaluation.comparison.sides import Side, open_sides
from latlab.evaluation.comparison.wanted import Wanted, check_streams
from latlab.model.errors import EXIT_ACCEPT, EXIT_LAB, EXIT_OK, EXIT_UNTRUSTED, UsageError
from latlab.model.labels import IMPORTED
from latlab.model.part import UNAVAILABLE, distrusted
from latlab.recordings.run_folder import RunFolder
from latlab.result.comparison import ComparedRun, ComparisonDocument, Differing, Question
from latlab.result.places import (
    cell_title,
    dimension_keys,
    dimension_text,
    matrix_title,
    short_headings,
)

FORMAT: Final = "latlab.comparison/1"
_MOST: Final = 4
"""So many cells without a pair are named in an error."""


@dataclass(frozen=True)
class _Asked:
    """What is compared with what. groups: whose circumstances are held against each other. explained: what is to
    differ. unmatched: cells that only one side has.
    """

    question: Question
    sides: Sequence[Side]
    pairs: Sequence[Pair]
    groups: Sequence[ComparedCells]
    explained: Collection[str] = ()
    unmatched: Sequence[str] = ()

    @property
    def runs(self) -> dict[str, RunFolder]:
        """{side's name: run}, each run once."""
        found = {side.result.run: side for side in reversed(self.sides)}
        return {side.name: side.folder for side in reversed(found.values())}

    @property
    def names(self) -> dict[str, str]:
        """{run: side's name}."""
        return {side.result.run: side.name for side in reversed(self.sides)}


def compare(
    texts: Sequence[str], root: Path, wanted: Wanted, *, baseline: str | None = None, by: str | None = None
) -> ComparisonDocument:
    """The comparison document of what a command line names: RUN..., RUN by a key, or a baseline and NEW.

    root: where runs are looked for by name. UsageError: too few or too many are named; and as below.
    """
    if baseline is not None:
        if len(texts) != 1 or by is not None:
            raise UsageError(
                "one run is compared with a baseline", where="--baseline", remedy="latlab compare --baseline RUN NEW"
            )
        old, new = open_sides((baseline, *texts), root, ("baseline", "new"))
        return compare_baseline(old, new, wanted)
    if wanted.thresholds:
        raise UsageError(
            "a threshold needs a baseline", where="--threshold", remedy="latlab compare --baseline RUN NEW"
        )
    sides = open_sides(texts, root)
    if by is not None:
        if len(sides) != 1 or sides[0].slug is not None:
            raise UsageError("the cells of one whole run are compared by a key", where="--by", remedy="name one RUN")
        return compare_key(sides[0], by, wanted)
    if len(sides) < 2:
        keys = ", ".join(key for side in sides for key in dimension_keys(side.result))
        raise UsageError(
            "there is nothing to compare it with",
            where=" ".join(texts) or "RUN...",
            remedy=f"name another RUN or RUN:CELL{f', or compare its cells: --by KEY, one of {keys}' if keys else ''}",
        )
    return compare_sides(sides, wanted)


def compare_sides(sides: Sequence[Side], wanted: Wanted) -> ComparisonDocument:
    """The document of each side held against the first: cells, or whole runs cell by cell.

    UsageError: nothing to compare, or labels that may not be.
    """
    return _document(_held_against_first("sides", sides), wanted)


def compare_baseline(baseline: Side, new: Side, wanted: Wanted) -> ComparisonDocument:
    """The document of a new run held against a baseline: each comparison has a `regression`, and the document `lost`.

    UsageError: as for others.
    """
    return _document(_held_against_first("baseline", (baseline, new)), wanted)


def compare_key(side: Side, key: str, wanted: Wanted) -> ComparisonDocument:
    """The document of every two cells of a run that differ in this matrix key alone. UsageError: there are none."""
    keys = dimension_keys(side.result)
    # As tables head it: `bridge` of guests.vm1.bridge, where no other ends alike.
    key = dict(zip(short_headings(keys), keys, strict=True)).get(key, key)
    pairs = by_key(side.found, key)
    if not pairs:
        what = "no two measured cells differ in this key alone" if key in keys else f"the matrix has no key {key!r}"
        raise UsageError(what, where=f"--by {key}", remedy=f"one of {', '.join(keys) or 'none: it has one cell'}")
    values: dict[str, list[Configuration]] = {}
    for one in side.found:
        if key in one.cell:
            values.setdefault(dimension_text(one.cell[key]), []).append(one)
    groups = [_group(value, side, having) for value, having in values.items()]
    return _document(_Asked("key", [side], pairs, groups, explained=(key,)), wanted)


def coarse(document: ComparisonDocument) -> int:
    """How many comparisons with a threshold had no power to see it exceeded."""
    return sum(one.regression is not None and one.regression.coarse for one in document.comparisons)


def exit_code(document: ComparisonDocument, *, strict: bool = False, need_power: bool = False) -> int:
    """The exit code that a comparison deserves, the first that applies.

    Against a baseline: a cell of the new run failed or never ran (3); untrusted, or something could not be judged (4);
    a regression (1). Without one: untrusted (4). strict takes `suspect` for untrusted; need_power takes what is too
    coarse for its threshold for what could not be judged.
    """
    found = document.comparisons
    outcomes = {one.regression.outcome for one in found if one.regression}
    if document.lost:
        return EXIT_LAB
    if {side.verdict for one in found for side in (one.a, one.b)} & {*distrusted(strict)} or "not judged" in outcomes:
        return EXIT_UNTRUSTED
    if need_power and coarse(document):
        return EXIT_UNTRUSTED
    worse = "regression" in outcomes or any(one.regression for one in document.losses)
    return EXIT_ACCEPT if worse else EXIT_OK


def _held_against_first(question: Question, sides: Sequence[Side]) -> _Asked:
    first, *others = sides
    if first.slug is not None:
        groups = [_group(side.name, side, side.found) for side in sides]
        return _Asked(question, sides, [(first.found[0], other.found[0]) for other in others], groups)
    for other in others:
        _refuse_other_labels(first, other)
    pairs: list[Pair] = []
    lacking: list[str] = []
    for other in others:
        found, unmatched = matched(first.found, other.found)
        pairs += found
        lacking += [f"{(first if one in first.found else other).name} only: {_title(one)}" for one in unmatched]
    if not pairs:
        raise UsageError(
            "no cells of these runs have the same matrix values",
            where=" and ".join(side.folder.id for side in sides),
            remedy=f"name the cells to compare as RUN:CELL; {_few(lacking)}",
        )
    met = {(one.run, one.slug) for pair in pairs for one in pair}
    groups = [_group(side.name, side, [one for one in side.found if (one.run, one.slug) in met]) for side in sides]
    return _Asked(question, sides, pairs, groups, unmatched=tuple(dict.fromkeys(lacking)))


def _document(asked: _Asked, wanted: Wanted) -> ComparisonDocument:
    members = [one for pair in asked.pairs for one in pair]
    check_streams(wanted, members)
    _refuse_labels(asked)
    figures = wanted.figures(_metrics_of_pages(asked.sides))
    # What fails a build is judged as one family: it is to be wrong in 5 % of builds, whatever is looked at.
    main = (figures[0][0], MEDIAN) if asked.question != "baseline" else None
    found = compared(asked.pairs, figures, wanted.streams, main=main)
    if all(one.effect is None for one in found):
        why = next((one.why_not or "" for one in found), "") or _nothing_in_both(asked)
        raise UsageError(
            f"these cannot be compared: {why}",
            where=" and ".join(dict.fromkeys(side.folder.id for side in asked.sides)),
            remedy="select figures that both have, by --stream, --metric and --statistic",
        )
    names = [names_of(one.a, one.b, asked.names) for one in found]
    has_baseline = asked.question == "baseline"
    entries = [
        entry(one, called).model_copy(
            update={"regression": regression_entry(judged(one, wanted.thresholds, called)) if has_baseline else None}
        )
        for one, called in zip(found, names, strict=True)
    ]
    return ComparisonDocument(
        format=FORMAT,
        question=asked.question,
        alpha=ALPHA,
        family=family_size(found),
        main=main_family(found),
        sides=[_compared_run(side) for side in asked.sides],
        comparisons=entries,
        together=together_entries(found, asked.names),
        unmatched=list(asked.unmatched),
        losses=list(loss_entries(asked.pairs, wanted.streams, asked.names, judged=has_baseline)),
        left_out=list(_left_out(asked)),
        lost=list(_lost(asked)) if has_baseline else [],
        differs=list(_differing(asked)),
        notes=notes(found, runs=len(asked.runs)),
    )


def _metrics_of_pages(sides: Sequence[Side]) -> list[str]:
    """The metrics that every run's own page compares: the same figures, judged alike."""
    first, *others = (compared_by(side.result) for side in sides)
    return [name for name in first if all(name in other for other in others)]


def _few(lines: Sequence[str]) -> str:
    more = f"; and {len(lines) - _MOST} more" if len(lines) > _MOST else ""
    return "; ".join(lines[:_MOST]) + more


def _differing(asked: _Asked) -> Iterator[Differing]:
    yield from differing_streams(asked.groups, asked.explained)
    if len(asked.runs) > 1:
        yield from differing_versions(asked.runs)
        yield from differing_scenarios(asked.runs)
    yield from differing_facts(asked.groups)


def _left_out(asked: _Asked) -> Iterator[str]:
    """The repetitions that are not in any figure, a line each."""
    for one in {(one.run, one.slug): one for pair in asked.pairs for one in pair}.values():
        for repeat, status in one.left_out.items():
            run = f"{asked.names[one.run]}: " if len(asked.runs) > 1 else ""
            yield f"{run}{_title(one)}, repeat {repeat}: {status}"


def _lost(asked: _Asked) -> Iterator[str]:
    """The new run's cells that failed or never ran."""
    new = asked.sides[-1]
    for cell in new.result.cells:
        if new.slug in (None, cell.slug) and cell.status not in ("ok", UNAVAILABLE):
            yield f"{cell_title(cell)}, repeat {cell.repeat}: {cell.status}"


def _nothing_in_both(asked: _Asked) -> str:
    """Why there is no comparison at all: the two have no stream in common, or no such metric."""
    for a, b in asked.pairs:
        if not streams_of_both(a, b):
            had = (f"{_title(one)} of {one.run} has {', '.join(one.streams)}" for one in (a, b))
            return f"they have no stream in common: {'; '.join(had)}"
    return "they have no figure in common"


def _refuse_labels(asked: _Asked) -> None:
    """Check the labels. UsageError: figures of different labels would be compared."""
    for a, b in asked.pairs:
        _refuse(a.labels, b.labels, (_title(a), _title(b)), (a.run, b.run))


def _refuse_other_labels(a: Side, b: Side) -> None:
    """Check the runs' labels. UsageError: two have none in common, whatever their cells are called."""
    of_a, of_b = (tuple(dict.fromkeys(label for one in side.found for label in one.labels)) for side in (a, b))
    if not set(of_a) & set(of_b):
        _refuse(of_a, of_b, (a.name, b.name), (a.folder.id, b.folder.id))


def _refuse(of_a: Sequence[str], of_b: Sequence[str], names: Sequence[str], runs: Sequence[str]) -> None:
    labels = tuple(dict.fromkeys((*of_a, *of_b)))
    if len(labels) < 2:
        return
    same = "measured by the same program" if IMPORTED in labels else "measured on the same kind of machine"
    raise UsageError(
        f"figures that are {' and '.join(labels)} cannot be compared: {names[0]} is {', '.join(of_a)}, "
        f"{names[1]} is {', '.join(of_b)}",
        where=" and ".join(dict.fromkeys(runs)),
        remedy=f"compare cells of one label: name them as RUN:CELL, or take two that were {same}",
    )


def _compared_run(side: Side) -> ComparedRun:
    labels = dict.fromkeys(label for one in side.found for label in one.labels)
    return ComparedRun(
        name=side.name,
        run=side.result.run,
        scenario=side.result.scenario,
        cell=None if side.slug is None else _title(side.found[0]),
        slug=side.slug,
        label=", ".join(labels),
        verdict=side.result.verdict if side.slug is None else side.found[0].verdict,
    )


def _group(name: str, side: Side, found: Sequence[Configuration]) -> ComparedCells:
    folders = (side.folder.cell(one.slug, repeat) for one in found for repeat in one.repetitions)
    return ComparedCells(name, tuple(folders))


def _title(one: Configuration) -> str:
    return matrix_title(one.cell)
