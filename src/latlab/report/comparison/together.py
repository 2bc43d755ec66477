"""What all repetitions of each side show together, next to a comparison of single ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from latlab.analysis.comparison.compare import Difference
from latlab.analysis.statistics import PERCENTILES
from latlab.report.comparison.entry import names_of
from latlab.report.text import microseconds
from latlab.result.comparison import AllRepetitions, ComparisonDocument


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
