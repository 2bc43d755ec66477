"""How the cells of one run differ, for its own report: each held against the first that shares the rest with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from latlab.analysis.comparison.compare import ONE_REPETITION, STATISTICS, Difference, compared
from latlab.analysis.comparison.configuration import against_first, configurations
from latlab.analysis.comparison.effect import ALPHA
from latlab.report.charts.sweeps import is_swept
from latlab.report.charts.timers import any_waits
from latlab.report.comparison.entry import entry, names_of
from latlab.report.comparison.notes import family_size, main_family, notes, reach
from latlab.report.places import dimension_keys
from latlab.report.rows import metric_names
from latlab.report.testbed import sent_otherwise
from latlab.report.view import METRIC_ORDER
from latlab.result.comparison import Comparison
from latlab.result.types import Result

COMPARED: Final = ("latency", "latency_user", "round_trip_sent", "round_trip", "half_round_trip", "interrupt")
"""The metrics that are compared: those that go all the way. What they are made of, `latlab compare` compares."""
WAKEUP: Final = "wakeup"
"""So does a timer's."""
MEDIAN: Final = "p50"

_REPEAT: Final = (3, 5, 10)


def cell_comparisons(
    result: Result, metrics: Sequence[str] = COMPARED, statistics: Sequence[str] = STATISTICS
) -> list[Comparison]:
    """An entry for each of these metrics that cells of the run can be compared by; where none has any, for the first
    metric there is. Empty for a run of one cell. The medians of the first metric are judged together, and so are all
    other comparisons, those of all metrics.

    Cells of different labels are in none, neither is a figure that no cell has, nor are cells that differ in a size or
    a duration that a line is drawn over: that larger packets take longer needs no test.
    """
    found = configurations(result)
    apart = [key for key in dimension_keys(result) if not is_swept(result, key)]
    keys = {(a.slug, b.slug): key for key in apart for a, b in against_first(found, key)}
    pairs = [(a, b) for a in found for b in found if (a.slug, b.slug) in keys and len({*a.labels, *b.labels}) == 1]
    chosen = compared_by(result, metrics)
    # The medians of the first metric are the answer, on the first screen; all else is looked at beside it.
    figures = [(metric, name) for metric in chosen for name in statistics]
    family = [one for one in compared(pairs, figures, main=(chosen[0], MEDIAN)) if not one.blank] if chosen else []
    every = [_comparison(result, name, family, keys, statistics) for name in chosen]
    return [one for one in every if one.comparisons]


def compared_by(result: Result, metrics: Sequence[str] = COMPARED) -> list[str]:
    """The metrics that cells of this result are compared by unless others are asked for: those of these that it has,
    and its timers' `wakeup`; where it has none, the first that there is. The one that the scenario is about, or that
    it has published figures of, comes first.
    """
    there = metric_names(result, METRIC_ORDER)
    of_timers = (WAKEUP,) if any_waits(result) else ()
    found = [name for name in (*metrics, *of_timers) if name in there] or list(there[:1])
    about = (result.headline, *(one.metric for one in result.published))
    return [*dict.fromkeys(name for name in (*about, *found) if name in found)]


def _comparison(
    result: Result,
    metric: str,
    family: Sequence[Difference],
    keys: Mapping[tuple[str, str], str],
    statistics: Sequence[str],
) -> Comparison:
    """The metric's entry. family: all comparisons of the page."""
    found = [one for name in statistics for one in family if (one.metric, one.statistic) == (metric, name)]
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
