"""One comparison as it stands in the comparison document (docs/explanation/comparing.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from typing import Final

from latlab.analysis.comparison.compare import Difference, Pair, level_to_show
from latlab.analysis.comparison.configuration import Configuration, LossShares, PairLosses, losses
from latlab.analysis.comparison.effect import ALPHA, critical
from latlab.analysis.comparison.words import JudgedComparison, Names, sentence
from latlab.model.labels import LABELS
from latlab.model.statistics import PERCENTILES
from latlab.result.comparison import (
    AllRepetitions,
    Compared,
    ComparedLosses,
    ComparedSide,
    MainFamily,
    Regression,
    SideLosses,
)
from latlab.result.places import dimension_text, matrix_title, short_headings


def entry(one: Difference, names: Names) -> Compared:
    """The comparison with its sentence."""
    effect = one.effect
    low, high = (effect.interval if effect else None) or (None, None)
    from_, to = (*one.ends[0], *one.ends[1])[0]
    return Compared(
        cell=_common_title(one.a, one.b),
        a=_side(one.a, names.a, one.stream),
        b=_side(one.b, names.b, one.stream_b),
        label=", ".join(dict.fromkeys((*one.a.labels, *one.b.labels))),
        stream=one.title,
        metric=one.metric,
        statistic=one.statistic,
        from_=from_,
        to=to,
        paired=one.paired,
        repeats_a=dict(one.of_a),
        repeats_b=dict(one.of_b),
        a_ns=effect.a if effect else None,
        b_ns=effect.b if effect else None,
        difference_ns=effect.difference if effect else None,
        half_ns=effect.half() if effect else None,
        low_ns=low,
        high_ns=high,
        within_ns=one.within_ns,
        clocks_ns=effect.clocks if effect else None,
        p=effect.p if effect else None,
        p_adjusted=one.p_adjusted,
        shown=one.shown,
        smallest_ns=one.smallest_ns,
        why_not=one.why_not,
        sentence=sentence(one, names),
    )


def regression_entry(found: JudgedComparison) -> Regression:
    """What stands as `regression` of a comparison with a baseline."""
    return Regression(
        outcome=found.outcome,
        threshold=found.threshold.text,
        threshold_ns=found.threshold_ns,
        coarse=found.coarse,
        sentence=found.sentence,
    )


def names_of(a: Configuration, b: Configuration, sides: Mapping[str, str]) -> Names:
    """What the two are called: cells of one run by the matrix values they differ in, else by their run's side.

    sides: {run: the side's name}.
    """
    if a.run != b.run:
        return Names(sides.get(a.run, a.run), sides.get(b.run, b.run))
    keys = [key for key in {**a.cell, **b.cell} if a.cell.get(key) != b.cell.get(key)]
    headings = dict(zip(a.cell, short_headings(tuple(a.cell)), strict=True))

    def called(one: Configuration) -> str:
        return ", ".join(f"{headings.get(key, key)} {dimension_text(one.cell.get(key))}" for key in keys) or one.slug

    return Names(called(a), called(b))


def _common_title(a: Configuration, b: Configuration) -> str:
    """The matrix values that both have; empty where they have none in common."""
    shared = {key: value for key, value in a.cell.items() if b.cell.get(key) == value}
    return matrix_title(shared) if shared else ""


def _side(one: Configuration, name: str, stream: str) -> ComparedSide:
    return ComparedSide(name=name, run=one.run, slug=one.slug, stream=stream, verdict=one.verdict)


# Losses


def loss_entries(
    pairs: Sequence[Pair], streams: Sequence[str], sides: Mapping[str, str], *, judged: bool
) -> Iterator[ComparedLosses]:
    """An entry for each pair and stream of which either side lost packets.

    streams: only these, where any is named. sides: {run: the side's name}. judged: the first is a baseline, and to lose
    more than it is a regression, unless chance alone would show one in more than 5 % of such comparisons.
    """
    found = [(a, b, one) for a, b in pairs for one in losses(a, b, streams)]
    for a, b, one in found:
        names = names_of(a, b, sides)
        by_chance = one.more and len(found) * one.chance > ALPHA
        regression = judged and one.more and not by_chance
        cell = _common_title(a, b)
        where = ", ".join(filter(None, (cell, one.stream)))
        told = "; a regression" if regression else "; so few repetitions may do that by chance" if by_chance else ""
        yield ComparedLosses(
            cell=cell,
            stream=one.stream,
            a=_side_losses(names.a, one.a),
            b=_side_losses(names.b, one.b),
            more=one.more,
            regression=regression,
            sentence=f"{where}: {_sentence(one, names)}{told}",
        )


def _sentence(one: PairLosses, names: Names) -> str:
    more = f"; each repetition of {names.b} lost more than any of {names.a}" if one.more else ""
    return f"{names.b} lost {_share(one.b)}, {names.a} {_share(one.a)}{more}"


def _share(one: LossShares) -> str:
    return f"{100 * one.share:.3g} % of its packets ({one.lost} of {one.sent})" if one.lost else "none"


def _side_losses(name: str, one: LossShares) -> SideLosses:
    return SideLosses(name=name, lost=one.lost, sent=one.sent, shares=list(one.shares))


# All repetitions together


def together_entries(found: Sequence[Difference], sides: Mapping[str, str]) -> list[AllRepetitions]:
    """An entry for each configuration, stream and metric that is compared and has several repetitions.

    sides: {run: the side's name}.
    """
    entries: dict[tuple[str, ...], AllRepetitions] = {}
    for one in found:
        names = names_of(one.a, one.b, sides)
        for side, name, stream in ((one.a, names.a, one.stream), (one.b, names.b, one.stream_b)):
            key = (side.run, side.slug, stream, one.metric)
            if key in entries or len(side.repetitions) < 2 or (pooled := side.together(stream, one.metric)) is None:
                continue
            ends = {percentile: pooled.percentile(percentile) for percentile in PERCENTILES}
            entries[key] = AllRepetitions(
                name=name,
                run=side.run,
                slug=side.slug,
                stream=stream,
                metric=one.metric,
                repeats=pooled.repeats,
                n=pooled.buckets.n,
                min=pooled.buckets.min_ns,
                max=pooled.buckets.max_ns,
                **ends,
            )
    return list(entries.values())


# What has to be known of a comparison before it is believed, a sentence each.


ENOUGH: Final = {True: 6, False: 4}
"""From how many repetitions on a test exists that assumes nothing of how they are spread and can reach 5 %, {paired:
repetitions a side}: 2 / 2⁶ and 2 / C(8, 4) (signs, and Wilcoxon's ranks).

With fewer, n a side, a mode for each side happens by chance in 2 × (1/2)ⁿ × (1/2)ⁿ, if both modes are as likely."""

_MORE: Final = (5, 10)


def notes(found: Sequence[Difference], *, runs: int, family: Sequence[Difference] = ()) -> list[str]:
    """The sentences for these comparisons. runs: how many runs they are of. family: all that were judged with them;
    without it these.
    """
    return [*_of_runs(runs), *_of_labels(found), *_of_repetitions(found, family or found), *_of_clocks(found)]


def _of_runs(runs: int) -> Iterator[str]:
    if runs > 1:
        yield (
            "the runs were measured one after the other: anything else that changed between them is part of the "
            "difference, and no interval covers it"
        )


def _of_labels(found: Sequence[Difference]) -> Iterator[str]:
    labels = {label for one in found for side in (one.a, one.b) for label in side.labels}
    yield from (f"{one.name}: {one.compared}" for one in LABELS if one.name in labels and one.compared)


def _of_repetitions(found: Sequence[Difference], family: Sequence[Difference]) -> Iterator[str]:
    judged = [one for one in found if one.p_adjusted is not None]
    if not judged:
        return
    # What is hardest to show: the others, where there are any beside the main figure's.
    apart = any(not one.main for one in judged)
    together = [one.p_adjusted for one in family if one.p_adjusted is not None and one.main is not apart]
    fewest = min(judged, key=lambda one: min(len(one.of_a), len(one.of_b)))
    n = min(len(fewest.of_a), len(fewest.of_b))
    level = level_to_show(together, ALPHA)
    if n < ENOUGH[fewest.paired]:
        yield (
            f"{n} repetitions: the intervals assume that repetitions are normally distributed. If they have two modes, "
            f"one comparison in {2 ** (2 * n - 1)} shows a difference where there is none. A method without this "
            f"assumption needs {ENOUGH[fewest.paired]} repetitions"
        )
    more = [one for one in _MORE if one > n]
    if more and not all(one.shown for one in judged):
        others = ", ".join(f"{reach(one, level)} with repeat: {one}" for one in more)
        many = f"{len(together)} comparisons" if len(together) > 1 else "one comparison"
        yield (
            f"with {n} repetitions and {many} a difference is shown if it exceeds about {reach(n, level)} standard "
            f"deviations of a repetition ({others})"
        )


def _of_clocks(found: Sequence[Difference]) -> Iterator[str]:
    if any(one.effect and one.effect.clocks for one in found):
        yield "the ± of both sides' clocks widens the intervals, so a difference must be larger to be shown"
    if any(one.effect and one.effect.clocks is None for one in found):
        yield "the clocks of some figures are not bounded: the intervals do not include their error"


def reach(n: int, level: float) -> str:
    """How many standard deviations of a repetition n of them can show at this level, both sides spread alike."""
    found = critical(level, n - 1) * sqrt(2 / n)
    return f"{found:.2g}" if found < 99.5 else f"{found:.0f}"


def main_family(found: Sequence[Difference]) -> MainFamily | None:
    """The main figure's comparisons; None where they are all there are, or where none of it was judged."""
    judged = [one for one in found if one.p_adjusted is not None]
    of_main = [one for one in judged if one.main]
    if not of_main or len(of_main) == len(judged):
        return None
    return MainFamily(metric=of_main[0].metric, statistic=of_main[0].statistic, comparisons=len(of_main))


def family_size(found: Sequence[Difference]) -> int:
    """How many comparisons are judged together, the main figure's apart where there are others."""
    return max((one.family for one in found if not one.main), default=0) or max(
        (one.family for one in found), default=0
    )
