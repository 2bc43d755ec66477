"""What all repetitions of each side show together, beside a comparison of single ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from latlab.analysis.comparison.compare import Comparison
from latlab.report.comparison.entry import names_of
from latlab.report.text import microseconds

_PERCENTILES = ("p50", "p90", "p99", "p99_9", "p99_99")


def together_entries(found: Sequence[Comparison], sides: Mapping[str, str]) -> list[dict[str, Any]]:
    """An entry for each configuration, stream and metric that is compared and has several repetitions.

    {"name", "run", "slug", "cell", "stream", "metric", "repeats", "n", "min", "p50" … "p99_99": [smallest, largest] or
    null, "max"}: ns. sides: {run: the side's name}.
    """
    entries: dict[tuple[str, ...], dict[str, Any]] = {}
    for one in found:
        names = names_of(one.a, one.b, sides)
        for side, name, stream in ((one.a, names.a, one.stream), (one.b, names.b, one.stream_b)):
            key = (side.run, side.slug, stream, one.metric)
            if key in entries or len(side.repetitions) < 2 or (pooled := side.together(stream, one.metric)) is None:
                continue
            where = {"run": side.run, "slug": side.slug, "stream": stream, "metric": one.metric}
            entries[key] = {"name": name, **where, **pooled.document()}
    return list(entries.values())


def together_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """A line for each entry of a comparison document, in µs."""
    several = len({(one["stream"], one["metric"]) for one in document["together"]}) > 1
    cells = {(one["name"], one["slug"]) for one in document["together"]}
    slugs = len(cells) > len({name for name, _ in cells})
    for one in document["together"]:
        whose = [one["name"], *([one["slug"]] if slugs else []), *([one["stream"], one["metric"]] if several else [])]
        ends = (f"min {microseconds(one['min'])}", f"max {microseconds(one['max'])}")
        percentiles = (
            f"{name.replace('_', '.')} {' … '.join(dict.fromkeys(map(microseconds, one[name])))}"
            for name in _PERCENTILES
            if one[name]
        )
        figures = ", ".join((f"n {one['n']}", ends[0], *percentiles, ends[1]))
        yield f"{', '.join(whose)}, {one['repeats']} repetitions: {figures}"
