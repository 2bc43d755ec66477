"""The types of result.json (docs/reference/result.md). Durations are ns, instants TAI ns, shares of one; None: not
known.

A key of JSON that is a word of Python's has an underscore here: `from` is `from_`, `class` is `class_`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from latlab.model.part import Failure, Keys, Part, Status, Verdict
from latlab.model.rules import IDS, Severity
from latlab.recordings.cell import Bridge, Guest, LeftOut, Load
from latlab.result.comparison import Comparison


class Reason(Part):
    """Why a verdict is not `trusted`.

    id: the rule's, which stays the same. check: its name. finding: what is so where it is broken. where: host, file,
    stream or cell. expected, actual: in words, with units. remedy: what to do. why: of a rule that is turned off, the
    scenario's reason for that.
    """

    id: str
    check: str
    finding: str
    severity: Severity
    where: str
    expected: str
    actual: str
    remedy: str
    why: str | None = None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Reason:
        """The reason that was written as this; versions without ids wrote its rule's name alone."""
        return cls.model_validate({"id": document.get("id") or IDS[document["check"]], **document})


class TurnedOff(Part):
    """A rule that the scenario turns off. found: the number of reasons that it would have given."""

    id: str
    check: str
    why: str
    found: int


class Threshold(Part):
    """A threshold of trust. value, default: ns, or a share. given: the scenario says it."""

    value: int | float
    default: int | float
    given: bool


class Limit(Part):
    """A limit of `accept` in one cell. limit, actual: ns, or packets. reason: None where it was kept."""

    cell: str
    repeat: int
    path: str
    limit: int
    actual: int | float | None
    ok: bool
    reason: Literal["over the limit", "not measured"] | None


# Statistics


class Statistics(Part):
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


class Variation(Part):
    """Packet delay variation (RFC 5481): between neighbours, and against the smallest delay."""

    ipdv: LowPercentiles
    pdv: Statistics


class Interval(Part):
    """A statistic and its confidence interval, ns; those of percentiles are values that were measured, whole ones.

    effective_n: as many independent values tell as much (effective sample size). block: length of the bootstrap's
    blocks. needs_n: values it takes for an interval. why: there is none.
    """

    value: int | float | None
    low: int | float | None
    high: int | float | None
    effective_n: int | None
    block: int | None
    needs_n: int | None
    why: str | None


class LargestValue(Part):
    """The maximum. share_above: with 95 % confidence at most this share of packets is above it."""

    value: int | None
    share_above: float | None
    effective_n: int | None


class Confidence(Part):
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


class Buckets(Part):
    """How many values lie in each fixed bucket (docs/explanation/statistics.md): those of any runs merge exactly."""

    format: str
    bits: int
    n: int
    min_ns: int | None
    max_ns: int | None
    buckets: str


class TailFit(Part):
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


class TailLevel(Part):
    """The value that one of so many packets exceeds. beyond: times as many packets as were measured."""

    packets: int
    value_ns: float | None
    low_ns: float | None
    high_ns: float | None
    beyond: float
    why: str | None


class Peaks(Part):
    """Peaks above the threshold, and the share of packets at or above each."""

    value_ns: list[int]
    share: list[float]


class Tail(Part):
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


class Stage(Part):
    """How long one packet took from one timestamp to the next."""

    from_: str
    to: str
    ns: int


class WorstPacket(Part):
    """The packet that took longest; its stages add up to the maximum."""

    sequence: int
    intervals: list[Stage]


class Growth(Part):
    """A stage that was the dominant one. packets: of how many; ns: of one packet; share: of what it was late by."""

    from_: str
    to: str
    packets: int | None = None
    ns: int | None = None
    share: float


class CameTo(Part):
    """What an interrupt interrupted, or who asked for it. vcpu: where the vCPU was then."""

    what: str | None = None
    comm: str | None = None
    n: int | None = None
    vcpu: str | None = None


class StagesOfGroup(Part):
    """Mean stages of the packets between two latencies. split: how many had all timestamps."""

    name: str
    least_ns: int
    below_ns: int | None
    packets: int
    split: int
    value_ns: int | float | None
    ns: list[int | float] | None


class StagesOfPacket(Part):
    """Stages of one packet. stops: where they are others than the chain's. interrupted: by its interrupt, if traced."""

    sequence: int
    value_ns: int
    ns: list[int]
    stops: list[str] | None = None
    grew: list[Growth] = []
    interrupted: CameTo | None = None


class WorstStages(Part):
    """The worst packets: how many, how many of them late, their dominant stages, and some one by one."""

    packets: int
    late: int
    grew: list[Growth]
    each: list[StagesOfPacket]


class Chain(Part):
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


class Series(Part):
    """How many intervals a tool reported of, and the least and the greatest of each figure that all have."""

    count: int
    n: list[int] = []
    min: list[int] = []
    mean: list[float] = []
    p50: list[int] = []
    p90: list[int] = []
    p99: list[int] = []
    max: list[int] = []


class Counted(Part):
    """What is known of a metric beside its statistics.

    from_, to: its two timestamps. missing: packets that lack one of them; unbounded: whose clocks nothing bounds.
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
    packets lack a timestamp. kept: of an imported metric `histogram`, `intervals` or `summary`; bins: of its
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

    @property
    def nothing_arrived(self) -> bool:
        """Whether packets were sent and none arrived, the warm-up left out: there is no value, though no packet lacks
        a timestamp or a bound of its clocks.
        """
        return bool(not self.n and self.lost and not self.missing and not self.unbounded)


# Anomalies and windows


Evidence = dict[str, Any]
"""Figures of an episode, by its class (docs/reference/anomaly-classes.md)."""


class Episode(Part):
    """Something that happened, not noise. packets: how many of its class are in it. evidence: figures of its kind."""

    number: int
    class_: str
    from_tai_ns: int
    to_tai_ns: int
    from_sequence: int
    to_sequence: int
    packets: int
    severity: float
    evidence: Evidence
    text: str


class Anomaly(Part):
    """All episodes of one class. packets: of the class; worst: the text of the most severe; shown: the most severe."""

    title: str
    meaning: str
    packets: int
    episodes: int
    worst: str
    shown: list[Episode]


class Range(Part):
    """A figure that changes over the stream."""

    least: int
    middle: int
    greatest: int


class Gap(Part):
    """Packets beyond a gap in the distribution."""

    packets: int
    of: int
    ends_ns: int
    begins_ns: int


class Bursts(Part):
    """Packets that came together. regular: at equal intervals; usual: that is how this path works."""

    packets: int
    of: int
    times: int
    size: int
    every_ns: int
    regular: bool
    usual: bool
    share: float


class LateLimits(Part):
    """From when on a packet is late (docs/explanation/anomalies.md). until: the timestamp that latencies count to."""

    packets: int
    period_ns: int
    until: str
    usual_ns: Range
    above_ns: Range
    from_ns: Range
    sender_share: float
    sender_ns: Range | None
    spread_ns: int
    exponential_ns: int | None
    largest_ns: int
    parted: Gap | None = None
    bursts: Bursts | None
    beside_ns: Range | None = None
    heavy: bool
    out_of_reach: bool


class KeptWindow(Part):
    """A clean window."""

    from_tai_ns: int
    to_tai_ns: int
    packets: int


class Cut(Part):
    """Launch times that no clean window has. reason: a class of anomalies; text: its episodes."""

    from_tai_ns: int
    to_tai_ns: int
    reason: str
    text: str
    packets: int


class PacketsKept(Part):
    """Packets after the warm-up, those within the windows, and the others."""

    whole: int
    kept: int
    cut: int


class CleanStatistics(Statistics):
    """Statistics of the clean windows. confidence: of latencies, where something is cut."""

    confidence: Confidence | None = None


class Beside(Part):
    """The whole run and its clean windows."""

    whole: Statistics
    clean: CleanStatistics


class ChosenWindow(Part):
    """A window that somebody named, ns from the start of the streams."""

    from_ns: int
    to_ns: int
    why: str
    packets: int
    metrics: dict[str, Statistics]


class PassedOver(Part):
    """An episode that a chosen window does not cut."""

    class_: str
    text: str


class Chosen(Part):
    """Windows that somebody named, by the scenario or after the fact, and statistics of all of them together."""

    after_the_fact: bool
    kept: list[ChosenWindow]
    cuts: list[Cut]
    passed_over: list[PassedOver]
    packets: PacketsKept
    metrics: dict[str, Statistics]


class Windows(Part):
    """Clean windows next to the whole run; chosen: windows that somebody named."""

    kept: list[KeptWindow]
    cuts: list[Cut]
    packets: PacketsKept
    metrics: dict[str, Beside]
    chosen: list[Chosen] = []


# What else is known of a stream


class Silent(Part):
    """Packets with launch times that the kernel dropped silently."""

    count: int
    first_sequence: int
    last_sequence: int


class Unstamped(Part):
    """Packets that lack a timestamp. later: how many of them are among the latest by `until`; late: chance does not
    explain that.
    """

    stamp: str
    n: int
    of: int
    until: str | None
    later: int
    share: float | None
    late: bool


class Bound(Part):
    """What a gate schedule guarantees."""

    earliest_ns: int
    latest_ns: int
    worst_wait_ns: int
    frame_ns: int
    guard_ns: int


class Gates(Part):
    """When packets left through a gate, after the warm-up. missed: in a later window than their own."""

    left: int
    missed: int
    early: int
    windows_late: dict[int, int]
    first_missed: int | None
    last_missed: int | None
    least_ns: int | None
    most_ns: int | None
    from_: str | None
    interface: str
    traffic_class: int
    promised: Bound
    in_slot: dict[str, Statistics]


class ProbeOf(Part):
    """Of which probe these figures are. leg: `up`, `down`, or None of the whole; period_ns: None of a closed loop."""

    name: str
    kind: str
    from_: str
    to: str
    leg: str | None
    period_ns: int | None
    frames: int
    told: str


class TimerWindow(Part):
    """A timer's figures in one window, ns from its start."""

    from_ns: int
    n: int
    mean: float | None
    stddev: float | None
    min: int | None
    max: int | None
    above: int


class TimerHandler(Part):
    """The interrupt's handler of a timer. above: later than the threshold."""

    n: int
    above: int
    windows: list[TimerWindow] | None


class TimerLimits(Part):
    """What a timer's instants are held against, and the windows that they are counted in."""

    threshold_ns: int
    window_ns: int


class Timer(TimerHandler, TimerLimits):
    """A timer's thread, and its interrupt's handler. traced: the kernel reports its interrupts."""

    interrupt: TimerHandler | None
    traced: bool
    trace_problem: Failure | None


class TraceStage(Part):
    """A stage between interrupt and thread, over the packets or instants of which it is known, ns."""

    from_: str
    to: str
    name: str
    n: int
    min: int
    mean: float
    p50: int | None
    p99: int | None
    max: int


class MissingStage(Part):
    """Why stages of n packets or instants are not known."""

    id: str
    n: int
    reason: str


class Entry(Part):
    """How interrupts came into a guest, as its VM host's kernel reports. told: of how many packets or instants."""

    told: int
    uncertainty_ns: int | None
    interrupted: list[CameTo]
    ran: list[CameTo] = []


class FlightRecord(Part):
    """What a flight recorder kept of a host's trace. judged: by its listener, of which late were late, or may have been
    as the clocks were known then; typical: others, kept to be compared with; unjudged: the clocks were not known then.
    overran: windows of which events were no longer held.
    """

    trigger: str
    judged: int
    late: int
    typical: int
    unjudged: int
    windows: int
    overran: int


class TracedOn(Part):
    """Where it was traced. events, lost: of the host's trace. flight: if a flight recorder kept little of it."""

    host: str
    events: int | None
    lost: int | None
    flight: FlightRecord | None = None


class Breakdown(Part):
    """The path of packets or instants from the interrupt to the thread (docs/explanation/where-the-time-went.md).

    told: the wake-up is known; awake: the thread did not sleep; untold: neither. whole: every stage is known; missing:
    why not of the others. shared: woken for an earlier packet.
    """

    n: int
    told: int
    awake: int
    untold: int
    shared: int
    intervals: list[TraceStage]
    interrupted: list[CameTo]
    raised_by: list[CameTo]
    whole: int | None = None
    missing: list[MissingStage] = []
    chain: Chain | None = None
    entry: Entry | None = None


class Trace(Breakdown, TracedOn):
    """The path of packets or instants from the interrupt to the thread, and where it was traced."""


class LostAt(Part):
    """Lost packets that one kernel dropped at one place for one reason.

    place: in words, as "at tap0 of vmhost". host: in whose network namespace; device: at which interface. reason: as
    the kernel names it. function: the kernel's that dropped them. None of these: the kernel does not say.
    """

    place: str
    host: str | None
    device: str | None
    reason: str | None
    function: str | None
    packets: int


class Losses(Part):
    """Where lost packets were dropped, warm-up left out. unplaced: no kernel that was watched dropped them."""

    lost: int
    unplaced: int
    places: list[LostAt]


class Stream(Part):
    """A stream, a probe or one of its legs, a timer, or what a tool measured.

    clock: where the offset of the two hosts' clocks is known from. counts: packets, warm-up included. anomalies: by
    class; None: not looked for. flow: whose watched packets it is: talker and listener are hosts with the clocks of
    the two points. trace: the path of packets from interrupt to thread (docs/explanation/where-the-time-went.md).
    """

    talker: str
    listener: str
    clock: str | None
    sent_as: str | None = None
    start_tai_ns: int | None
    probe: ProbeOf | None = None
    flow: str | None = None
    counts: dict[str, int | None]
    send_errnos: dict[str, int] | None = None
    silent: Silent | None
    losses: Losses | None = None
    unstamped: list[Unstamped] = []
    gates: Gates | None
    anomalies: dict[str, Anomaly] | None = None
    late_limits: LateLimits | None = None
    windows: Windows | None = None
    timer: Timer | None = None
    metrics: dict[str, Metric]
    trace: Trace | None = None
    lead_ns: int | None = None
    early_ns: int | None = None


class Talker(Part):
    """What sending cost a talker: CPU time, and how often its thread woke."""

    host: str
    packets: int
    cpu_ns: int
    wakeups: int


class StampsCompared(Part):
    """By how much eBPF's timestamps are later than the socket's of the same packets, ns."""

    stamp: str
    n: int
    min_ns: int
    p1_ns: int
    p50_ns: int
    p99_ns: int
    max_ns: int


class StampsTaken(Part):
    """Who took the kernel's timestamps for an agent: `ebpf`, `socket` or `both`; None: not asked for.

    clock: of the BPF programs. missing: what they should have taken and did not, and why. lost: records for which their
    ring had no room.
    """

    agent: str
    tx_sched: str | None
    tx_soft: str | None
    rx_soft: str | None
    clock: str | None
    missing: list[str]
    lost: int | None
    compared: list[StampsCompared] = []


class DropsWatched(Part):
    """A kernel, and whether it was recorded where it drops packets. host: where it was watched; hosts: that share it.

    drops: of packets of ours, which need not be lost: copies are dropped, too. unrecorded: drops for which a ring had
    no room. missing: what is not known of this kernel's drops, and why.
    """

    host: str
    hosts: list[str]
    watched: bool
    reasons: bool
    drops: int | None
    unrecorded: int | None
    missing: list[str]


class Spread(Part):
    """A figure of a clock over the readings."""

    n: int
    min: int | float
    p50: float
    mean: float
    max: int | float
    stddev: float


class Unlocked(Part):
    """A time in which a port was not locked, ns from the first reading; to_ns: None until the end."""

    from_ns: int
    to_ns: int | None
    why: str


class PtpCheck(Part):
    """PTP's offset against our own readings of both clocks."""

    n: int
    ours_p50_ns: float
    half_p50_ns: float
    coarse: bool
    outside_max_ns: int
    apart: int


class PtpPort(Part):
    """A port of ptp4l over the time of the streams."""

    port: str
    role: str
    profile: str | None
    timestamps: str | None
    free_running: bool
    limit_ns: int
    master: str | None
    absent: str | None
    acts_as: str | None
    readings: int
    unanswered: int
    states: dict[str, int]
    grandmasters: list[str]
    offset_ns: Spread | None
    path_delay_ns: Spread | None
    frequency_ppb: Spread | None
    unlocked: list[Unlocked]
    checked: PtpCheck | None


class Imported(Part):
    """Where an imported cell's figures come from. latency: what the tool's latency is, in one sentence. by_latlab: it
    was watched, and no other program measured it."""

    format: str
    tool: str
    version: str
    files: list[str]
    latency: str
    clock_bound_ns: int | None
    notes: list[str]
    left_out: list[LeftOut]
    facts: dict[str, Any]
    by_latlab: bool = False


class FlowWatched(Part):
    """A flow whose packets were watched. flow: which, as the scenario has it. hosts: of each kernel the one whose agent
    watched. packets: seen at each point, by direction; None: the recordings were not read.
    """

    name: str
    flow: str
    hosts: list[str]
    packets: dict[str, int] | None
    notes: list[str]
    left_out: list[LeftOut]


class Cell(Part):
    """One repetition of a cell. cell: the matrix' keys; instructions_per_ns: of a board in virtual time."""

    cell: Keys
    slug: str
    repeat: int
    order: int | None
    status: Status
    reason: Failure | None
    label: str | None
    instructions_per_ns: int | float | None
    qemu: str | None
    start_tai_ns: int | None
    verdict: Verdict
    loads: list[Load]
    refused: dict[str, dict[str, int]]
    talkers: list[Talker] = []
    streams: dict[str, Stream]
    bridges: list[Bridge] = []
    guests: list[Guest] = []
    stamps_by: list[StampsTaken] = []
    drops_watched: list[DropsWatched] = []
    flows: list[FlowWatched] = []
    ptp: list[PtpPort] = []
    imported: Imported | None = None

    @property
    def key(self) -> str:
        """The cell as results name it: `SLUG/rN`."""
        return f"{self.slug}/r{self.repeat}"

    def figures(self, stream: str, metric: str) -> Metric | None:
        """A stream's figures of a metric; None where it has none."""
        return self.streams[stream].metrics.get(metric) if stream in self.streams else None


class Published(Part):
    """A published row to compare with, ns."""

    source: str
    row: str
    metric: str
    n: int | None
    min: int | float | None
    mean: int | float | None
    max: int | float | None
    stddev: int | float | None
    pk_pk: int | float | None
    p50: int | float | None
    p99: int | float | None


class Repeats(Part):
    """How far the repetitions of a cell are apart (`--check-repeat`): the timestamp that differs most."""

    slug: str
    repetitions: int
    packets: int
    only_in_one: int
    largest_ns: int
    repeat: int | None
    stream: str | None
    sequence: int | None
    timestamp: str | None


class Result(Part):
    """A run's result, as result.json has it."""

    format: str
    run: str
    scenario: str
    label: str | None
    verdict: Verdict
    reasons: list[Reason]
    cells: list[Cell]
    accept: list[Limit]
    waived: list[Reason] = []
    comparisons: list[Comparison] = []
    scenario_changed: bool | None = None
    thresholds: dict[str, Threshold] = {}
    turned_off: list[TurnedOff] = []
    headline: str | None = None
    published: list[Published] = []
    repeats: list[Repeats] | None = None
