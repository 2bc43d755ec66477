"""Which figures are to be compared, and how much worse each may be: from the command line, checked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic_core import PydanticCustomError

from latlab.analysis.comparison.compare import STATISTICS
from latlab.analysis.comparison.configuration import Configuration
from latlab.analysis.comparison.words import Path, Threshold
from latlab.model.errors import UsageError
from latlab.model.metrics import METRICS_BY_NAME
from latlab.result.types import Cell
from latlab.scenario import limits, parse_duration

METRIC: Final = "latency"
"""What is compared unless something else is asked for: each further metric makes every other one harder to show."""
ROUND_TRIP: Final = "round_trip"
"""The same of probes."""
WAKEUP: Final = "wakeup"
"""The same of timers."""
METRICS: Final = tuple(METRICS_BY_NAME)

_SHARE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?%")


@dataclass(frozen=True)
class Wanted:
    """What was asked for; what is empty was not said. Names are those of results (`p99_9`)."""

    metrics: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    thresholds: Mapping[Path, Threshold] = field(default_factory=dict)

    def figures(self, found: Sequence[Configuration]) -> tuple[tuple[str, str], ...]:
        """Every (metric, statistic) to compare: those asked for, else four of `latency`, of probes of `round_trip`, of
        timers of `wakeup`;
        and those with a threshold.

        If no cell has either, the first metric that there is.
        """
        there = {metric for one in found for cell in one.repetitions.values() for metric in _metrics(cell)}
        waited = (WAKEUP,) if any(all(one.probed(name)) for one in found for name in one.streams) else ()
        usual: tuple[str, ...] = tuple(name for name in (ROUND_TRIP, METRIC, *waited) if name in there)
        usual = usual or tuple(name for name in METRICS if name in there)[:1] or (METRIC,)
        asked = [(metric, one) for metric in self.metrics or usual for one in self.statistics or STATISTICS]
        return tuple(dict.fromkeys((*asked, *((metric, one) for _, metric, one in self.thresholds))))


def wanted(
    metrics: Sequence[str] = (),
    statistics: Sequence[str] = (),
    streams: Sequence[str] = (),
    thresholds: Sequence[str] = (),
) -> Wanted:
    """What the options of the command line ask for. UsageError: a name that is none, a threshold that is none.

    thresholds: `stream.metric.statistic=LIMIT`, where LIMIT is a duration or a share of the baseline (`10%`).
    """
    for name in metrics:
        _check("metric", name, METRICS, "--metric")
    return Wanted(
        tuple(dict.fromkeys(metrics)),
        tuple(dict.fromkeys(_statistic(name, "--statistic") for name in statistics)),
        tuple(dict.fromkeys(streams)),
        dict(_threshold(text) for text in thresholds),
    )


def check_streams(asked: Wanted, found: Iterable[Configuration]) -> None:
    """Check the streams. UsageError: one was asked for, or has a threshold, that none of these has."""
    known = tuple(dict.fromkeys(name for one in found for name in one.streams))
    for name in asked.streams:
        _check("stream", name, known, "--stream")
    for name, metric, statistic in asked.thresholds:
        _check("stream", name, known, f"--threshold {name}.{metric}.{statistic}")


def _threshold(text: str) -> tuple[Path, Threshold]:
    where = f"--threshold {text}"
    path, equals, value = text.partition("=")
    stream, _, rest = path.partition(".")
    if rest.partition(".")[0] in limits.LEGS:
        leg, _, rest = rest.partition(".")
        stream = f"{stream}.{leg}"
    parts = (stream, *rest.split(".", 1))
    if not equals or len(parts) != 3:
        raise UsageError("this is not a threshold", where=where, remedy="write control.latency.p99_9=5us, or =10%")
    stream, metric, statistic = parts
    _check("metric", metric, METRICS, where)
    return (stream, metric, _statistic(statistic, where)), _allowed(value.strip(), where)


def _allowed(value: str, where: str) -> Threshold:
    if share := _SHARE.fullmatch(value):
        return Threshold(share=float(share[1]) / 100)
    try:
        return Threshold(ns=parse_duration(0 if value == "0" else value))
    except PydanticCustomError as error:
        context = error.context or {}
        what, expected = str(context["what"]), str(context["expected"])
        raise UsageError(what, where=where, remedy=f"write {expected}, or a share such as 10%") from None


def _statistic(name: str, where: str) -> str:
    _check("statistic", name.replace("p99_9", "p99.9"), limits.STATISTICS, where)
    return name.replace(".", "_")


def _check(kind: str, name: str, known: Sequence[str], where: str) -> None:
    if name not in known:
        raise UsageError(f"there is no {kind} {name!r}", where=where, remedy=f"one of {', '.join(known)}")


def _metrics(cell: Cell) -> set[str]:
    return {metric for stream in cell.streams.values() for metric in stream.metrics}
