"""Published figures beside the measured ones: tables of their own, marked as what they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class PublishedTable:
    """The rows of one source. headings: of the columns that any row has a figure for; rows: texts, as many."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


def published_tables(result: Mapping[str, Any], metric: str) -> Iterator[PublishedTable]:
    """A table for each source that has published figures of the metric, in the scenario's order."""
    found = [one for one in result.get("published", []) if one["metric"] == metric]
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
