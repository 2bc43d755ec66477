"""What a verdict on a cell rests on, and where the lines are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import polars as pl


class RecordingSeen(Protocol):
    """What the join of the packet table saw of one recording."""

    @property
    def complete(self) -> bool:
        """The end of the recording was there."""

    @property
    def stray(self) -> int:
        """Rows that belong to no packet, or to one that had such a row already."""

    @property
    def launch_mismatched(self) -> int:
        """Rows whose launch time is not the schedule's."""

    @property
    def unconverted(self) -> int:
        """Software timestamps without recorded clocks to convert them by."""


@dataclass(frozen=True)
class Evidence:
    """All that the checks of one cell look at.

    cell: cell.json. document: `summarise_cell` of it. findings: {`talker-HOST.sent`: what the join saw}.
    clocks: {`talker-HOST`: its clocks table}. facts_before, facts_after: {host: facts}. What is missing is
    left empty.
    """

    cell: Mapping[str, Any]
    document: Mapping[str, Any]
    findings: Mapping[str, RecordingSeen] = field(default_factory=dict)
    clocks: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    facts_before: Mapping[str, Any] = field(default_factory=dict)
    facts_after: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Broken:
    """One place where a check is broken: host, recording, stream or metric."""

    where: str
    expected: str
    actual: str


@dataclass(frozen=True)
class Thresholds:
    """Where the lines are drawn.

    clock_step_ns: two readings of REALTIME − MONOTONIC further apart than this are a step, not a slew.
    clock_bound_share: of the median latency. missing_share: of the packets that ought to have a timestamp.
    steal_share: of the time between the facts before and after.
    """

    clock_step_ns: int = 1_000_000
    clock_bound_share: float = 0.10
    missing_share: float = 0.001
    steal_share: float = 0.01


THRESHOLDS: Final = Thresholds()
