"""Published figures: next to the measured ones in separate tables, or in one table with those of the headline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Final

from latlab.model.statistics import HEADINGS
from latlab.report import rows
from latlab.report.document import Table
from latlab.report.testbed import label_text
from latlab.report.text import exact, whole
from latlab.result.types import Metric, Published, Result

FIGURES = tuple((key, HEADINGS[key]) for key in ("min", "max", "pk_pk", "mean", "stddev", "p50", "p99"))
_ALWAYS: Final = frozenset({"min", "max", "mean", "stddev"})
"""The figures of the headline's table whether they were published or not."""
_ALONE: Final = _ALWAYS | {"pk_pk"}
"""Those where nothing was published."""
_WIDER: Final = {"interrupt": "wakeup", "round_trip_sent": "round_trip"}
"""Metrics that not every kernel or tool has, and of each one that is there instead, of which it is most."""

_COMPARED: Final = {
    "arrival_offset": (
        "arrival_offset counts from the first arrival, and published figures may count from the schedule: of the "
        "two, pk-pk and stddev compare, and min, max and mean do not"
    )
}
"""Of a metric that others count from elsewhere, which of its figures compare with theirs."""


def headline(result: Result) -> str | None:
    """The metric that the scenario is about; None where it names none, or one that was not measured."""
    return result.headline if result.headline in result.metric_names() else None


def headline_tables(result: Result, metric: str) -> Iterator[Table]:
    """Where the metric is the headline one table: its measured rows, and the published ones, marked as such, each below
    those that it is compared with, or at the end.
    """
    if metric != headline(result):
        return
    tables = rows.summaries(result, metric)
    measured: dict[tuple[int, tuple[str, ...]], list[rows.StreamRow]] = {}
    for number, table in enumerate(tables):
        for row in filter(lambda row: row.measured, table.rows):
            measured.setdefault((number, (row.label, row.stream, *table.dimensions(row))), []).append(row)
    published = [one for one in result.published if one.metric == metric]
    figures = _ordered(_ALWAYS if published else _ALONE, published)
    every = [row for repeats in measured.values() for row in repeats]
    several, labels = (len({getattr(row, key) for row in every}) > 1 for key in ("stream", "label"))
    sources = dict.fromkeys(one.source for one in published)
    shared, names = _shared([one.row for one in published])
    published_rows = [
        (f"published{f', {one.source}' if len(sources) > 1 else ''}: {name}", *_row(one, figures))
        for one, name in zip(published, names, strict=True)
    ]
    below = [_last_compared(one, list(measured.values())) for one in published]
    found = []
    for place, ((number, _), repeats) in enumerate(measured.items()):
        row, table = repeats[0], tables[number]
        named = filter(None, (row.stream if several else "", *table.dimensions(row)))
        name = ", ".join(dict.fromkeys((*named, *((row.label,) if labels else ())))) or row.stream
        each = [row.measured for row in repeats if row.measured]
        found.append((name, *(_over(each, key) for key, _ in figures), whole(sum(one.n or 0 for one in each))))
        found += [row for at, row in zip(below, published_rows, strict=True) if at == place]
    found += [row for at, row in zip(below, published_rows, strict=True) if at is None]
    which = [f"measured, and published ({'; '.join(filter(None, (*sources, shared)))})"] if published else []
    times = max(map(len, measured.values()), default=1)
    if times > 1:
        spans = ", pk-pk between these" if "pk_pk" in dict(figures) else ""
        which.append(f"over {times} repetitions: smallest min, largest max{spans}, mean of the others")
    clocks = rows.largest_uncertainty(every) if any(table.crosses_clocks for table in tables) else ""
    # A count that nothing published stands beside is in the section `cells`.
    counted = not published or any(one.n is not None for one in published)
    yield Table(
        title=f"{': '.join(filter(None, (metric, ', '.join(which))))}, µs · {label_text(result)} · {result.verdict}",
        headings=("what", *(heading for _, heading in figures), *(["n"] if counted else [])),
        rows=found if counted else [row[:-1] for row in found],
        figures=range(1, len(figures) + 1 + counted),
        remarks=[
            *_remarks(metric, published),
            *dict.fromkeys(note for one in tables for note in one.notes),
            *([f"{rows.off_by(tables)}: ± {clocks} µs"] if clocks else []),
        ],
    )


def _last_compared(one: Published, measured: Sequence[Sequence[rows.StreamRow]]) -> int | None:
    """The last of the measured rows, each with its repetitions, that a published one is compared with; None: none."""
    if one.stream is None and one.cells is None:
        return None
    compared = [
        place
        for place, (row, *_) in enumerate(measured)
        if one.stream in (None, row.stream) and (one.cells is None or row.slug in one.cells)
    ]
    return max(compared, default=None)


def published_tables(result: Result, metric: str) -> Iterator[Table]:
    """A table for each source that has published figures of the metric, in the scenario's order; then for those of a
    metric that was not measured, and that this one stands in for. None of the headline's: they are in its own table.
    """
    published = result.published
    measured = result.metric_names()
    if metric not in measured and _WIDER.get(metric) in measured:
        return
    named = [metric, *(name for name, wider in _WIDER.items() if wider == metric and name not in measured)]
    for name in named:
        if name != headline(result):
            yield from _tables([one for one in published if one.metric == name], name)


def _tables(found: Sequence[Published], metric: str) -> Iterator[Table]:
    for source in dict.fromkeys(one.source for one in found):
        listed = [one for one in found if one.source == source]
        shown = _ordered(frozenset(), listed)
        shared, names = _shared([one.row for one in listed])
        yield Table(
            title=f"{metric}, published, not measured here, µs · {'; '.join(filter(None, (source, shared)))}",
            headings=("published", *(heading for _, heading in shown), "n"),
            rows=[(name, *_row(one, shown)) for one, name in zip(listed, names, strict=True)],
            figures=range(1, len(shown) + 2),
            remarks=_remarks(metric, listed),
        )


def _ordered(always: frozenset[str], published: Sequence[Published]) -> list[tuple[str, str]]:
    """The figures of a table: these, and those that were published. The mean is between the extremes, as most authors
    have it, unless peak to peak is there.
    """
    found = [
        (key, heading)
        for key, heading in FIGURES
        if key in always or any(getattr(one, key) is not None for one in published)
    ]
    if "pk_pk" in dict(found):
        return found
    first = ("min", "mean", "max")
    return sorted(found, key=lambda one: first.index(one[0]) if one[0] in first else len(first))


def _shared(names: Sequence[str]) -> tuple[str, list[str]]:
    """What all names begin with, up to a comma, and what is left of each; nothing where one has nothing else."""
    parts = [name.split(", ") for name in names]
    least = min(map(len, parts), default=0)
    count = next((n for n in range(least) if len({tuple(one[: n + 1]) for one in parts}) > 1), least)
    if len(parts) < 2 or not 0 < count < least:
        return "", list(names)
    return ", ".join(parts[0][:count]), [", ".join(one[count:]) for one in parts]


def _remarks(metric: str, published: Sequence[Published]) -> Sequence[str]:
    return [f"{_COMPARED[metric]}."] if published and metric in _COMPARED else []


def _row(one: Published, figures: Sequence[tuple[str, str]]) -> Iterator[str]:
    yield from ("" if (ns := getattr(one, key)) is None else exact(ns) for key, _ in figures)
    yield whole(one.n)


def _over(each: Sequence[Metric], key: str) -> str:
    """A statistic of repetitions together, to the nanosecond as what is published: extremes are of all of them."""
    ends = [(one.min, one.max) for one in each if one.min is not None and one.max is not None]
    if key == "pk_pk" and ends:
        return exact(max(most for _, most in ends) - min(least for least, _ in ends))
    found = [ns for one in each if (ns := getattr(one, key)) is not None]
    return exact(round({"min": min, "max": max, "pk_pk": max}.get(key, fmean)(found))) if found else ""
