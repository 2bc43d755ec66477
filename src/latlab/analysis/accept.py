"""Whether the `accept` limits of a scenario were kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

NOT_MEASURED: Final = "not measured"
EXCEEDED: Final = "over the limit"


def evaluate(limits: Mapping[str, int], cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One entry a limit and cell, as in the result document: kept is `ok`, at the limit included.

    limits: {`stream.metric.statistic`: ns, `stream.counts.count`: packets}, statistics written as in a
    scenario (`p99.9`) or as in a result (`p99_9`); cells: the cells' documents. `reason` is None, "over the
    limit", or "not measured" when the cell is not ok or has no such figure: what was not measured was not
    accepted.
    """
    return [_entry(cell, path, limit) for cell in cells for path, limit in limits.items()]


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
    stream, group, statistic = path.split(".", 2)
    measured = cell["streams"].get(stream, {})
    figures = measured.get("counts", {}) if group == "counts" else measured.get("metrics", {}).get(group, {})
    figure: int | float | None = figures.get(statistic.replace(".", "_"))
    return figure
