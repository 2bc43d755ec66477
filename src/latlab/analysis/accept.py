"""Whether the `accept` limits of a scenario were kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

NOT_MEASURED: Final = "not measured"
EXCEEDED: Final = "over the limit"


LEGS: Final = ("up", "down")


def evaluate(
    limits: Mapping[str, int], cells: Sequence[Mapping[str, Any]], absent: Mapping[str, Collection[str]] | None = None
) -> list[dict[str, Any]]:
    """One entry a limit and cell, as in the result document: kept is `ok`, at the limit included.

    limits: {`stream.metric.statistic`: ns, `stream.counts.count`: packets}, statistics written as in a
    scenario (`p99.9`) or as in a result (`p99_9`); in place of a stream stands a probe or one of its legs, `rr.up`.
    cells: the cells' documents. absent: {slug: the probes that a cell does not run}, of which it has no entry. `reason`
    is None, "over the limit", or "not measured" when the cell is not ok or has no such figure: what was not measured
    was not accepted.
    """
    without = absent or {}
    return [
        _entry(cell, path, limit)
        for cell in cells
        for path, limit in limits.items()
        if path.partition(".")[0] not in without.get(cell["slug"], ())
    ]


def _entry(cell: Mapping[str, Any], path: str, limit: int) -> dict[str, Any]:
    actual = _figure(cell, path) if cell["status"] == "ok" else None
    ok = actual is not None and actual <= limit
    return {
        "cell": cell["slug"],
        "repeat": cell["repeat"],
        "path": path,
        "limit": limit,
        "actual": actual,
        "ok": ok,
        "reason": None if ok else NOT_MEASURED if actual is None else EXCEEDED,
    }


def _figure(cell: Mapping[str, Any], path: str) -> int | float | None:
    stream, _, rest = path.partition(".")
    if rest.partition(".")[0] in LEGS:
        leg, _, rest = rest.partition(".")
        stream = f"{stream}.{leg}"
    group, _, statistic = rest.partition(".")
    measured = cell["streams"].get(stream, {})
    figures = measured.get("counts", {}) if group == "counts" else measured.get("metrics", {}).get(group, {})
    figure: int | float | None = figures.get(statistic.replace(".", "_"))
    return figure
