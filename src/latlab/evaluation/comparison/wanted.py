"""Which figures are to be compared, and how much worse each may be: from the command line, checked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic_core import PydanticCustomError

from latlab.analysis.comparison.compare import STATISTICS
from latlab.analysis.comparison.configuration import Configuration
from latlab.analysis.comparison.words import Path as FigurePath
from latlab.analysis.comparison.words import Tolerance
from latlab.model.errors import UsageError
from latlab.model.metrics import METRICS_BY_NAME
from latlab.model.statistics import KEYS
from latlab.scenario import limits, parse_duration

METRIC: Final = "latency"
"""What is compared where runs have no metric in common."""
METRICS: Final = tuple(METRICS_BY_NAME)

_SHARE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?%")


@dataclass(frozen=True)
class Wanted:
    """What was asked for; what is empty was not said. Names are those of results (`p99_9`)."""

    metrics: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    thresholds: Mapping[FigurePath, Tolerance] = field(default_factory=dict)

    def figures(self, usual: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """Every (metric, statistic) to compare: those asked for, else four of the usual metrics; and those with a
        threshold.
        """
        usual = usual or (METRIC,)
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


def _threshold(text: str) -> tuple[FigurePath, Tolerance]:
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


def _allowed(value: str, where: str) -> Tolerance:
    if share := _SHARE.fullmatch(value):
        return Tolerance(share=float(share[1]) / 100)
    try:
        return Tolerance(ns=parse_duration(0 if value == "0" else value))
    except PydanticCustomError as error:
        context = error.context or {}
        what, expected = str(context["what"]), str(context["expected"])
        raise UsageError(what, where=where, remedy=f"write {expected}, or a share such as 10%") from None


def _statistic(name: str, where: str) -> str:
    if name in KEYS.values():
        return name
    _check("statistic", name, limits.STATISTICS, where)
    return KEYS[name]


def _check(kind: str, name: str, known: Sequence[str], where: str) -> None:
    if name not in known:
        raise UsageError(f"there is no {kind} {name!r}", where=where, remedy=f"one of {', '.join(known)}")
