"""Whether the `accept` limits of a scenario were kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from latlab.model.statistics import KEYS
from latlab.result.types import Cell, Limit

NOT_MEASURED: Final = "not measured"
EXCEEDED: Final = "over the limit"


LEGS: Final = ("up", "down")
_OPEN: Final = ("lost", "unsent", "unanswered")
"""The counts that packets may belong to of which recordings that are not all there do not say what became of them."""


def evaluate(
    limits: Mapping[str, int], cells: Sequence[Cell], absent: Mapping[str, Collection[str]] | None = None
) -> list[Limit]:
    """One entry a limit and cell: kept is `ok`, at the limit included.

    limits: {`stream.metric.statistic`: ns, `stream.counts.count`: packets}, statistics written as in a
    scenario (`p99.9`) or as in a result (`p99_9`); instead of a stream stands a probe or one of its legs, `rr.up`.
    absent: {slug: the probes that a cell does not run}, of which it has no entry. `reason`
    is None, "over the limit", or "not measured" when the cell is not ok, has no such figure, or leaves open whether
    packets are above the limit: what was not measured was not accepted.
    """
    without = absent or {}
    return [
        _entry(cell, path, limit)
        for cell in cells
        for path, limit in limits.items()
        if path.partition(".")[0] not in without.get(cell.slug, ())
    ]


def _entry(cell: Cell, path: str, limit: int) -> Limit:
    actual = _figure(cell, path) if cell.status == "ok" else None
    ok = actual is not None and actual <= limit and not _may_be_above(cell, path, limit)
    return Limit(
        cell=cell.slug,
        repeat=cell.repeat,
        path=path,
        limit=limit,
        actual=actual,
        ok=ok,
        reason=None if ok else EXCEEDED if actual is not None and actual > limit else NOT_MEASURED,
    )


def _figure(cell: Cell, path: str) -> int | float | None:
    figures, statistic = _figures(cell, path)
    # Of a maximum that some packets may be above, what is known of them counts, too.
    least = figures.get("max_at_least") if statistic == "max" else None
    return figures.get(statistic) if least is None else least


def _may_be_above(cell: Cell, path: str, limit: int) -> bool:
    """Whether packets of which it is not known may bring the figure above its limit."""
    figures, statistic = _figures(cell, path)
    if statistic == "max" and figures.get("max_at_least") is not None:
        most = figures.get("max_at_most")
        return most is None or most > limit
    if statistic in _OPEN:
        return (figures.get(statistic) or 0) + (figures.get("unknown") or 0) > limit
    return False


def _figures(cell: Cell, path: str) -> tuple[Mapping[str, int | float | None], str]:
    """The counts, or a metric's figures, and the key in them, that a path names."""
    stream, _, rest = path.partition(".")
    if rest.partition(".")[0] in LEGS:
        leg, _, rest = rest.partition(".")
        stream = f"{stream}.{leg}"
    group, _, statistic = rest.partition(".")
    measured = cell.streams.get(stream)
    if measured is None:
        return {}, ""
    metric = measured.metrics.get(group)
    figures = measured.counts if group == "counts" else dict(metric) if metric else {}
    return figures, KEYS.get(statistic, statistic)
