"""How the cells of one run differ, for its own report: each held against the first that shares the rest with it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from latlab.analysis.comparison.compare import ONE_REPETITION, STATISTICS, Difference, compared
from latlab.analysis.comparison.configuration import against_first, configurations
from latlab.analysis.comparison.effect import ALPHA
from latlab.analysis.words import rate
from latlab.evaluation.comparison.entry import entry, family_size, main_family, names_of, notes, reach
from latlab.model.metrics import METRIC_ORDER
from latlab.result.comparison import Comparison
from latlab.result.places import CellPlaces, dimension_keys, dimension_text, listed
from latlab.result.types import Cell, Result
from latlab.scenario.units import numbers

COMPARED: Final = (
    "latency",
    "latency_user",
    "round_trip_sent",
    "round_trip",
    "half_round_trip",
    "interrupt",
    "transit",
)
"""The metrics that are compared: those that go all the way. What they are made of, `latlab compare` compares."""
WAKEUP: Final = "wakeup"
"""So does a timer's."""
MEDIAN: Final = "p50"

_REPEAT: Final = (3, 5, 10)
FEWEST: Final = 3
"""Values of a key from which on its lines say more than a table."""


def cell_comparisons(result: Result) -> list[Comparison]:
    """An entry for each metric that cells of the run can be compared by; where none has any, for the first
    metric there is. Empty for a run of one cell. The medians of the first metric are judged together, and so are all
    other comparisons, those of all metrics.

    Cells of different labels are in none, neither is a figure that no cell has, nor are cells that differ in a size or
    a duration that a line is drawn over: that larger packets take longer needs no test.
    """
    found = configurations(result)
    apart = [key for key in dimension_keys(result) if not is_swept(result, key)]
    keys = {(a.slug, b.slug): key for key in apart for a, b in against_first(found, key)}
    pairs = [(a, b) for a in found for b in found if (a.slug, b.slug) in keys and len({*a.labels, *b.labels}) == 1]
    chosen = compared_by(result)
    # The medians of the first metric are the answer, on the first screen; all else is looked at beside it.
    figures = [(metric, name) for metric in chosen for name in STATISTICS]
    family = [one for one in compared(pairs, figures, main=(chosen[0], MEDIAN)) if not one.blank] if chosen else []
    every = [_comparison(result, name, family, keys) for name in chosen]
    return [one for one in every if one.comparisons]


def compared_by(result: Result) -> list[str]:
    """The metrics that cells of this result are compared by unless others are asked for: those of COMPARED that it has,
    and its timers' `wakeup`; where it has none, the first that there is. The one that the scenario is about, or that
    it has published figures of, comes first.
    """
    there = result.metric_names(METRIC_ORDER)
    of_timers = (WAKEUP,) if result.any_waits else ()
    found = [name for name in (*COMPARED, *of_timers) if name in there] or list(there[:1])
    about = (result.headline, *(one.metric for one in result.published))
    return [*dict.fromkeys(name for name in (*about, *found) if name in found)]


def _comparison(
    result: Result,
    metric: str,
    family: Sequence[Difference],
    keys: Mapping[tuple[str, str], str],
) -> Comparison:
    """The metric's entry. family: all comparisons of the page."""
    found = [one for name in STATISTICS for one in family if (one.metric, one.statistic) == (metric, name)]
    entries = [
        entry(one, names_of(one.a, one.b, {})).model_copy(update={"key": keys[one.a.slug, one.b.slug]}) for one in found
    ]
    streams = {one.stream for one in entries}
    return Comparison(
        metric=metric,
        alpha=ALPHA,
        family=family_size(family),
        main=main_family(family),
        comparisons=entries,
        notes=[
            *sent_otherwise(result, streams),
            *_of_one_repetition(found, family),
            *notes(found, runs=1, family=family),
        ],
    )


def _of_one_repetition(found: Sequence[Difference], family: Sequence[Difference]) -> Iterator[str]:
    """What is missing if cells were deployed once, and what can still be reported."""
    alone = [one for one in found if one.why_not == ONE_REPETITION]
    if not alone:
        return
    which = "every cell" if len(alone) == len(found) else "some cells"
    yield (
        f"{which} was deployed once: the spread between deployments is not known, so no difference can be shown. The "
        "figures are the differences of these deployments. Intervals use only their packets; the next deployments may "
        "differ in the opposite direction"
    )
    family = [one for one in family if one.main] or family
    level = ALPHA / len(family)
    enough = ", ".join(f"{reach(n, level)} with repeat: {n}" for n in _REPEAT)
    yield (
        f"more repetitions show smaller differences. Among {len(family)} comparisons the smallest one shown, in "
        f"standard deviations of a repetition, is {enough}"
    )


def is_swept(result: Result, key: str) -> bool:
    """Whether a key of the matrix has so many sizes, or durations, that figures are drawn over it."""
    values = {dimension_text(cell.cell[key]): cell.cell[key] for cell in result.cells if key in cell.cell}
    return len(values) >= FEWEST and numbers(list(values.values())) is not None


def sent_otherwise(result: Result, streams: Collection[str]) -> list[str]:
    """A sentence for each of these streams, and each load, that is not the same in all cells and whose cells do not say
    so by their names: readers who compare them must know it.
    """
    found: dict[tuple[str, str], dict[str, list[Cell]]] = {}
    for cell in result.cells:
        sent = [(("streams", name), block.sent_as) for name, block in cell.streams.items() if name in streams]
        sent += [(("loads", load.name), rate(load.asked_bps, "bit/s")) for load in cell.loads]
        for which, what in sent:
            if what:
                found.setdefault(which, {}).setdefault(what, []).append(cell)
    keys, places = dimension_keys(result), CellPlaces(result)
    sentences = []
    for (kind, name), cells in found.items():
        *fewer, most = sorted(cells, key=lambda what: len(cells[what]))
        if fewer and not any(key.startswith(f"{kind}.{name}.") for key in keys):
            told = [f"{what} in {listed(places.told(cells[what]), 'and')}" for what in fewer]
            sentences.append(f"{name} is {', '.join(told)}, and {most} elsewhere")
    return sentences
