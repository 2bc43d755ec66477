"""Of result.json: a metric's statistics, its tail, and where its time went."""

from __future__ import annotations

from typing import Literal

from latlab.model.part import DocumentPart


class Statistics(DocumentPart):
    """Order statistics of n values, ns; a percentile that n does not support is None.

    min_sequence, max_sequence: the packets that have the extremes.
    """

    n: int | None
    min: int | None
    mean: float | None
    p50: int | None
    p90: int | None
    p99: int | None
    p99_9: int | None
    p99_99: int | None
    max: int | None
    stddev: float | None
    pk_pk: int | None
    min_sequence: int | None
    max_sequence: int | None


class LowPercentiles(Statistics):
    """Statistics of packet delay variation between packets that follow each other (IPDV, RFC 5481).

    undefined: pairs of which one was lost.
    """

    p0_01: int | None
    p0_1: int | None
    p1: int | None
    p10: int | None
    undefined: int


class Variation(DocumentPart):
    """Packet delay variation (RFC 5481): between neighbours, and against the smallest delay."""

    ipdv: LowPercentiles
    pdv: Statistics


class Interval(DocumentPart):
    """A statistic and its confidence interval, ns; those of percentiles are values that were measured, whole ones.

    effective_n: the effective sample size. block: length of the bootstrap's
    blocks. needs_n: values it takes for an interval. why: there is none.
    """

    value: int | float | None
    low: int | float | None
    high: int | float | None
    effective_n: int | None
    block: int | None
    needs_n: int | None
    why: str | None


class LargestValue(DocumentPart):
    """The maximum. share_above: with 95 % confidence at most this share of packets is above it."""

    value: int | None
    share_above: float | None
    effective_n: int | None


class Confidence(DocumentPart):
    """Confidence intervals of a metric's statistics, at the level `confidence`. supports: what n supports, in words."""

    n: int
    confidence: float
    method: str
    mean: Interval
    stddev: Interval
    p50: Interval
    p90: Interval
    p99: Interval
    p99_9: Interval
    p99_99: Interval
    max: LargestValue
    supports: str


class Buckets(DocumentPart):
    """How many values lie in each fixed bucket (docs/explanation/statistics.md): those of any runs merge exactly."""

    format: str
    bits: int
    n: int
    min_ns: int | None
    max_ns: int | None
    buckets: str


class TailFit(DocumentPart):
    """A generalized Pareto distribution fitted to the peaks over a threshold (docs/explanation/statistics.md).

    level_ns: the value of one episode in `level_packets`; None where that is below the threshold.
    """

    threshold_ns: int
    start_ns: float
    exceedances: int
    extremal_index: float
    run: int
    clusters: int
    shape: float
    shape_low: float | None
    shape_high: float | None
    scale_ns: float
    modified_scale_ns: float
    p_value: float
    fits: bool
    level_ns: float | None
    level_low_ns: float | None
    level_high_ns: float | None


class TailLevel(DocumentPart):
    """The value that one of so many packets exceeds. beyond: times as many packets as were measured."""

    packets: int
    value_ns: float | None
    low_ns: float | None
    high_ns: float | None
    beyond: float
    why: str | None


class Peaks(DocumentPart):
    """Peaks above the threshold, and the share of packets at or above each."""

    value_ns: list[int]
    share: list[float]


class Tail(DocumentPart):
    """What lies beyond the sample. fit: one of `stability`; why: there is none."""

    n: int
    why: str | None
    fit: TailFit | None
    stability: list[TailFit]
    level_packets: int | None
    peaks: Peaks | None = None
    levels: list[TailLevel]
    words: str | None


# Where the time went


class Stage(DocumentPart):
    """How long one packet took from one timestamp to the next."""

    from_: str
    to: str
    ns: int


class WorstPacket(DocumentPart):
    """The packet that took longest; its stages add up to the maximum."""

    sequence: int
    intervals: list[Stage]


class Growth(DocumentPart):
    """A stage that was the dominant one. packets: of how many; ns: of one packet; share: of what it was late by."""

    from_: str
    to: str
    packets: int | None = None
    ns: int | None = None
    share: float


class CameTo(DocumentPart):
    """What an interrupt interrupted, or who asked for it. vcpu: where the vCPU was then."""

    what: str | None = None
    comm: str | None = None
    n: int | None = None
    vcpu: str | None = None


class StagesOfGroup(DocumentPart):
    """Mean stages of the packets between two latencies. split: how many had all timestamps."""

    name: str
    least_ns: int
    below_ns: int | None
    packets: int
    split: int
    value_ns: int | float | None
    ns: list[int | float] | None


class StagesOfPacket(DocumentPart):
    """Stages of one packet. stops: where they are others than the chain's. grew: None where there is no typical packet.
    interrupted: by its interrupt, if traced.
    """

    sequence: int
    value_ns: int
    ns: list[int]
    stops: list[str] | None = None
    grew: list[Growth] | None = []
    interrupted: CameTo | None = None


class WorstStages(DocumentPart):
    """The worst packets: how many, how many of them late, their dominant stages, and some one by one."""

    packets: int
    late: int
    grew: list[Growth]
    each: list[StagesOfPacket]


class Chain(DocumentPart):
    """The stages that a metric adds up from (docs/explanation/where-the-time-went.md).

    stops: timestamps in their order; clocks: of each stage whose clock; split: packets that have all timestamps;
    below_zero: of each stage how many were negative. left_out: packets without them.
    """

    metric: str
    from_: str
    to: str
    packets: int
    stops: list[str]
    clocks: list[str]
    split: int
    below_zero: list[int]
    groups: list[StagesOfGroup]
    median: StagesOfPacket | None
    worst: WorstStages | None
    left_out: int | None = None


# Metrics


class Series(DocumentPart):
    """How many intervals a tool reported of, and the least and the greatest of each figure that all have."""

    count: int
    n: list[int] = []
    min: list[int] = []
    mean: list[float] = []
    p50: list[int] = []
    p90: list[int] = []
    p99: list[int] = []
    max: list[int] = []


class Counted(DocumentPart):
    """What is known of a metric beside its statistics.

    from_, to: its two timestamps. missing: packets without one of them; unbounded: whose clocks nothing bounds.
    uncertainty_ns: how far any value may be off, ±.
    """

    n: int | None
    lost: int | None
    duplicated: int | None
    reordered: int | None
    missing: int | None
    unbounded: int
    from_: str
    to: str
    uncertainty_ns: int | None


class Metric(Statistics, Counted):
    """One metric of a stream after the warm-up.

    max_at_least, max_at_most: bounds of the largest value where
    packets are without a timestamp. kept: of an imported metric `histogram`, `intervals` or `summary`; bins: of its
    percentiles, from and to; below, above: values outside of its histogram.
    """

    max_at_least: int | None = None
    max_at_most: int | None = None
    worst: WorstPacket | None = None
    confidence: Confidence | None = None
    tail: Tail | None = None
    variation: Variation | None = None
    chain: Chain | None = None
    buckets: Buckets | None = None
    uncertainty_of: str | None = None
    kept: Literal["histogram", "intervals", "summary"] | None = None
    bins: dict[str, tuple[int, int] | None] | None = None
    below: int | None = None
    above: int | None = None
    intervals: Series | None = None

    def with_worst(self, worst: WorstPacket) -> Metric:
        """The metric with the packet that has its largest value."""
        return self.model_copy(update={"worst": worst})

    @property
    def nothing_arrived(self) -> bool:
        """Whether packets were sent and none arrived, the warm-up left out: there is no value, although no packet is
        without a timestamp or a bound of its clocks.
        """
        return bool(self.n == 0 and self.lost and not self.missing and not self.unbounded)
