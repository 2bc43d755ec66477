"""What a verdict on a cell rests on, and where the lines are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import polars as pl

from latlab.model.part import Facts
from latlab.recordings.cell import RecordedCell
from latlab.result.types import PtpPort, Stream


class ImpossibleSeen(Protocol):
    """Timestamps of one kind that cannot be."""

    @property
    def stream(self) -> int:
        """The stream's number."""

    @property
    def stamp(self) -> str:
        """Which timestamp."""

    @property
    def why(self) -> str:
        """As `before it was due`."""

    @property
    def count(self) -> int:
        """Of how many packets."""

    @property
    def first_sequence(self) -> int:
        """The first of them."""

    @property
    def left_out(self) -> bool:
        """They are not in any figure."""


class GapSeen(Protocol):
    """Rows of one recording that are damaged or missing."""

    @property
    def batch(self) -> int:
        """The number of the first batch that is, from 1."""

    @property
    def first_row(self) -> int:
        """The first row, from 1."""

    @property
    def rows(self) -> int | None:
        """How many; None: all up to the end."""


class RecordingSeen(Protocol):
    """What the join of the packet table saw of one recording."""

    @property
    def rows(self) -> int:
        """How many were read."""

    @property
    def stated(self) -> int | None:
        """How many its agent counted; None: it did not say."""

    @property
    def present(self) -> bool:
        """There is such a file."""

    @property
    def complete(self) -> bool:
        """The end of the recording was there."""

    @property
    def gaps(self) -> Sequence[GapSeen]:
        """What of it is damaged."""

    @property
    def stray(self) -> int:
        """Rows that belong to no packet, or to one that had such a row already."""

    @property
    def launch_mismatched(self) -> int:
        """Rows whose launch time is not the schedule's."""

    @property
    def unconverted(self) -> int:
        """Software timestamps without recorded clocks to convert them by."""

    @property
    def impossible(self) -> Sequence[ImpossibleSeen]:
        """Timestamps that cannot be."""


@dataclass(frozen=True)
class Thresholds:
    """Where the lines are drawn.

    clock_step_ns: two readings of REALTIME − MONOTONIC further apart than this, beyond what reading them takes, are a
    step: steering turns both alike.
    clock_bound_share: of the median latency. missing_share: of the packets that should have a timestamp.
    steal_share: of the time between the facts before and after. late_ns: above its stream's median latency; a packet
    that is later is late, and causes are looked for. idle_wakeup_ns: what a CPU may take to wake from an idle state.
    sibling_share: of the time, the other thread of a core being busy. coalescing_share: of the median latency.
    clock_slew_share: of a clock's rate, from one reading to the next.
    """

    clock_step_ns: int = 20_000
    clock_bound_share: float = 0.10
    missing_share: float = 0.001
    steal_share: float = 0.01
    late_ns: int = 100_000
    idle_wakeup_ns: int = 20_000
    sibling_share: float = 0.10
    coalescing_share: float = 0.20
    clock_slew_share: float = 10e-6


@dataclass(frozen=True)
class Evidence:
    """All that the checks of one cell look at.

    cell: cell.json. streams, ptp: the result's. findings: {`talker-HOST.sent`: what the join saw}.
    clocks: {`talker-HOST`: its clocks table}. facts_before, facts_after: {host: facts}. What is missing is
    left empty. thresholds: where the lines are drawn.
    """

    cell: RecordedCell
    streams: Mapping[str, Stream] = field(default_factory=dict)
    ptp: Sequence[PtpPort] = ()
    findings: Mapping[str, RecordingSeen] = field(default_factory=dict)
    clocks: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    facts_before: Facts = field(default_factory=dict)
    facts_after: Facts = field(default_factory=dict)
    thresholds: Thresholds = Thresholds()


@dataclass(frozen=True)
class Broken:
    """One place where a check is broken: host, recording, stream or metric.

    remedy: what to do there; empty: what the rule says.
    """

    where: str
    expected: str
    actual: str
    remedy: str = ""


Check = Callable[[Evidence], Iterator[Broken]]
"""Yields every place that breaks its rule; evidence that is not there breaks nothing."""

CHECKS: Final[dict[str, Check]] = {}
"""{id of a rule in `latlab.model.rules`: its check}."""


def checks(rule: str) -> Callable[[Check], Check]:
    """Make a function the check of the rule with this id."""

    def note(check: Check) -> Check:
        CHECKS[rule] = check
        return check

    return note
