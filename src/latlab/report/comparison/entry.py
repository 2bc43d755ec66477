"""One comparison as it stands in the comparison document (docs/explanation/comparing.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from latlab.analysis.comparison.compare import Difference, Pair
from latlab.analysis.comparison.configuration import Configuration, Losses, Lost, losses
from latlab.analysis.comparison.words import Judged, Names, sentence
from latlab.analysis.statistics import PERCENTILES
from latlab.report.places import dimension_text, matrix_title, short_headings
from latlab.report.text import microseconds
from latlab.result.comparison import (
    AllRepetitions,
    Compared,
    ComparedLosses,
    ComparedSide,
    ComparisonDocument,
    Regression,
    SideLosses,
)


def entry(one: Difference, names: Names) -> Compared:
    """The comparison with its sentence."""
    effect = one.effect
    shared = {key: value for key, value in one.a.cell.items() if one.b.cell.get(key) == value}
    low, high = (effect.interval if effect else None) or (None, None)
    from_, to = (*one.ends[0], *one.ends[1])[0]
    return Compared(
        cell=matrix_title(shared) if shared else "",
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


def regression_entry(found: Judged) -> Regression:
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


def _side(one: Configuration, name: str, stream: str) -> ComparedSide:
    return ComparedSide(name=name, run=one.run, slug=one.slug, stream=stream, verdict=one.verdict)


# Losses


def loss_entries(
    pairs: Sequence[Pair], streams: Sequence[str], sides: Mapping[str, str], *, judged: bool
) -> Iterator[ComparedLosses]:
    """An entry for each pair and stream of which either side lost packets.

    streams: only these, where any is named. sides: {run: the side's name}. judged: the first is a baseline, and to lose
    more than it is a regression.
    """
    for a, b in pairs:
        names = names_of(a, b, sides)
        shared = {key: value for key, value in a.cell.items() if b.cell.get(key) == value}
        for one in losses(a, b, streams):
            regression = judged and one.more
            cell = matrix_title(shared) if shared else ""
            where = ", ".join(filter(None, (cell, one.stream)))
            yield ComparedLosses(
                cell=cell,
                stream=one.stream,
                a=_side_losses(names.a, one.a),
                b=_side_losses(names.b, one.b),
                more=one.more,
                regression=regression,
                sentence=f"{where}: {_sentence(one, names)}{'; a regression' if regression else ''}",
            )


def _sentence(one: Losses, names: Names) -> str:
    more = f"; each repetition of {names.b} lost more than any of {names.a}" if one.more else ""
    return f"{names.b} lost {_share(one.b)}, {names.a} {_share(one.a)}{more}"


def _share(one: Lost) -> str:
    return f"{100 * one.share:.3g} % of its packets ({one.lost} of {one.sent})" if one.lost else "none"


def _side_losses(name: str, one: Lost) -> SideLosses:
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


def together_lines(document: ComparisonDocument) -> Iterator[str]:
    """A line for each entry of a comparison document, in µs."""
    several = len({(one.stream, one.metric) for one in document.together}) > 1
    cells = {(one.name, one.slug) for one in document.together}
    slugs = len(cells) > len({name for name, _ in cells})
    for one in document.together:
        whose = [one.name, *([one.slug] if slugs else []), *([one.stream, one.metric] if several else [])]
        least, most = f"min {microseconds(one.min)}", f"max {microseconds(one.max)}"
        percentiles = (
            f"{name.replace('_', '.')} {' … '.join(dict.fromkeys(map(microseconds, ends)))}"
            for name in PERCENTILES
            if (ends := getattr(one, name))
        )
        figures = ", ".join((f"n {one.n}", least, *percentiles, most))
        yield f"{', '.join(whose)}, {one.repeats} repetitions: {figures}"
