"""One comparison as it stands in the comparison document (docs/explanation/comparing.md)."""

from __future__ import annotations

from collections.abc import Mapping

from latlab.analysis.comparison.compare import Difference
from latlab.analysis.comparison.configuration import Configuration
from latlab.analysis.comparison.regression import Judged
from latlab.analysis.comparison.words import Names, sentence
from latlab.report.places import dimension_text, matrix_title, short_headings
from latlab.result.comparison import Compared, ComparedSide, Regression


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
