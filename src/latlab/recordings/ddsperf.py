"""The lines in which ddsperf prints the figures of each second. Cyclone DDS 0.8 to 11, src/tools/ddsperf/ddsperf.c
(latencystat_print, latencystat_update).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from latlab.model.units import SECOND_NS

SAMPLES: Final = 20_000
"""PINGPONG_RAWSIZE: percentiles are of so many first samples of a second, whatever its count says."""

_US: Final = r"(-?\d{1,12}\.\d{3})us"
_FIGURES: Final = re.compile(
    rf"^\[\d{{1,10}}\] (\d{{1,9}}\.\d{{3}})  ?( sublat)? ?(\S{{1,128}}) size (\d{{1,10}}) mean {_US} min {_US} "
    rf"50% {_US} 90% {_US} 99% {_US} max {_US} cnt (\d{{1,10}})$"
)
_SLACK_NS: Final = 500_000_000
"""A line comes each second, late by what the machine is: one stamped before 1.5 s is the first."""


@dataclass(frozen=True)
class Second:
    """What ddsperf printed for one second, of half a round trip (`ping`) or of one way (`sublat`), ns.

    peer: as ddsperf names it, host:process. size: bytes of the sample. start_ns: since ddsperf began; 0 is the first
    second, in which peers discover each other. Percentiles are of the first SAMPLES samples.
    """

    peer: str
    kind: Literal["ping", "sublat"]
    size: int
    start_ns: int
    n: int
    min: int
    mean: float
    p50: int
    p90: int
    p99: int
    max: int


def seconds(lines: Iterable[str]) -> list[Second]:
    """Every second that is reported, including the first, in the order of the lines; other lines are skipped."""
    return [_second(match) for line in lines if (match := _FIGURES.match(line))]


def _second(match: re.Match[str]) -> Second:
    mean, least, p50, p90, p99, most = (round(float(match[place]) * 1000) for place in range(5, 11))
    # The stamp is the end of the second.
    begun = max(0, round(float(match[1]) * SECOND_NS) - SECOND_NS)
    return Second(
        peer=match[3],
        kind="sublat" if match[2] else "ping",
        size=int(match[4]),
        start_ns=begun if begun > _SLACK_NS else 0,
        n=int(match[11]),
        min=least,
        mean=float(mean),
        p50=p50,
        p90=p90,
        p99=p99,
        max=most,
    )
