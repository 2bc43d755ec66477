"""Published figures beside the measured ones: tables of their own, marked as what they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from latlab.report.rows import metric_names
from latlab.report.text import exact, whole

FIGURES = (
    ("min", "min"),
    ("mean", "avg"),
    ("max", "max"),
    ("stddev", "stddev"),
    ("pk_pk", "pk-pk"),
    ("p50", "p50"),
    ("p99", "p99"),
)
_WIDER: Final = {"interrupt": "wakeup", "round_trip_sent": "round_trip"}
"""Metrics that not every kernel or tool has, and of each one that is there instead, of which it is most."""


@dataclass(frozen=True)
class PublishedTable:
    """The rows of one source. headings: of the columns that any row has a figure for; rows: texts, as many."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


def published_tables(result: Mapping[str, Any], metric: str) -> Iterator[PublishedTable]:
    """A table for each source that has published figures of the metric, in the scenario's order; then for those of a
    metric that was not measured, and that this one stands in for.
    """
    published = result.get("published", [])
    measured = metric_names(result, ())
    if metric not in measured and _WIDER.get(metric) in measured:
        return
    named = [metric, *(name for name, wider in _WIDER.items() if wider == metric and name not in measured)]
    for name in named:
        yield from _tables([one for one in published if one["metric"] == name], name)


def _tables(found: Sequence[Mapping[str, Any]], metric: str) -> Iterator[PublishedTable]:
    for source in dict.fromkeys(one["source"] for one in found):
        listed = [one for one in found if one["source"] == source]
        shown = [(key, heading) for key, heading in FIGURES if any(one[key] is not None for one in listed)]
        yield PublishedTable(
            title=f"{metric}, published, not measured here, µs · {source}",
            headings=("published", *(heading for _, heading in shown), "n"),
            rows=[
                (
                    one["row"],
                    *("" if one[key] is None else exact(one[key]) for key, _ in shown),
                    "" if one["n"] is None else whole(one["n"]),
                )
                for one in listed
            ],
        )
