"""The types of result.json (docs/reference/result.md). Durations are ns, instants TAI ns, shares of one; None: not
known.

A key of JSON that is a word of Python's has an underscore here: `from` is `from_`, `class` is `class_`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from latlab.model.part import DocumentPart, Failure, Keys, Status, Verdict
from latlab.model.reasons import Reason
from latlab.recordings.cell import Bridge, Guest, KeptAround, LeftOut, Load
from latlab.result.anomalies import (
    Anomaly,
    Beside,
    Bursts,
    Chosen,
    ChosenWindow,
    CleanStatistics,
    Cut,
    Episode,
    Evidence,
    Gap,
    KeptWindow,
    LateLimits,
    PacketsKept,
    PassedOver,
    Range,
    Windows,
)
from latlab.result.comparison import Comparison
from latlab.result.metrics import (
    Buckets,
    CameTo,
    Chain,
    Confidence,
    Counted,
    Growth,
    Interval,
    LargestValue,
    LowPercentiles,
    Metric,
    Peaks,
    Series,
    Stage,
    StagesOfGroup,
    StagesOfPacket,
    Statistics,
    Tail,
    TailFit,
    TailLevel,
    Variation,
    WorstPacket,
    WorstStages,
)
from latlab.result.streams import (
    Bound,
    Breakdown,
    Entry,
    FlightRecord,
    Gates,
    Losses,
    LostAt,
    MissingStage,
    ProbeOf,
    Silent,
    Stream,
    StreamFound,
    Timer,
    TimerHandler,
    TimerLimits,
    TimerWindow,
    Trace,
    TracedOn,
    TraceStage,
    Unstamped,
)

__all__ = [
    "Anomaly",
    "Beside",
    "Bound",
    "Breakdown",
    "Buckets",
    "Bursts",
    "CameTo",
    "Cell",
    "Chain",
    "Chosen",
    "ChosenWindow",
    "CleanStatistics",
    "Confidence",
    "Counted",
    "Cut",
    "DropsWatched",
    "Entry",
    "Episode",
    "Evidence",
    "FlightRecord",
    "FlowWatched",
    "Gap",
    "Gates",
    "Growth",
    "Imported",
    "Interval",
    "KeptWindow",
    "LargestValue",
    "LateLimits",
    "Limit",
    "Losses",
    "LostAt",
    "LowPercentiles",
    "Metric",
    "MissingStage",
    "PacketsKept",
    "PassedOver",
    "Peaks",
    "ProbeOf",
    "PtpCheck",
    "PtpPort",
    "Published",
    "Range",
    "Reason",
    "Repeats",
    "Result",
    "Series",
    "Silent",
    "Spread",
    "Stage",
    "StagesOfGroup",
    "StagesOfPacket",
    "StampsCompared",
    "StampsTaken",
    "Statistics",
    "Stream",
    "StreamFound",
    "Tail",
    "TailFit",
    "TailLevel",
    "Talker",
    "Threshold",
    "Timer",
    "TimerHandler",
    "TimerLimits",
    "TimerWindow",
    "Trace",
    "TraceStage",
    "TracedOn",
    "TurnedOff",
    "Unlocked",
    "Unstamped",
    "Variation",
    "Windows",
    "WorstPacket",
    "WorstStages",
]


class TurnedOff(DocumentPart):
    """A rule that the scenario turns off. found: the number of reasons that it would have given."""

    id: str
    check: str
    why: str
    found: int


class Threshold(DocumentPart):
    """A threshold of trust. value, default: ns, or a share. given: the scenario says it."""

    value: int | float
    default: int | float
    given: bool


class Limit(DocumentPart):
    """A limit of `accept` in one cell. limit, actual: ns, or packets. reason: None where it was kept."""

    cell: str
    repeat: int
    path: str
    limit: int
    actual: int | float | None
    ok: bool
    reason: Literal["over the limit", "not measured"] | None


class Talker(DocumentPart):
    """What sending cost a talker: CPU time, and how often its thread woke."""

    host: str
    packets: int
    cpu_ns: int
    wakeups: int


class StampsCompared(DocumentPart):
    """By how much eBPF's timestamps are later than the socket's of the same packets, ns."""

    stamp: str
    n: int
    min_ns: int
    p1_ns: int
    p50_ns: int
    p99_ns: int
    max_ns: int


class StampsTaken(DocumentPart):
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


class DropsWatched(DocumentPart):
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


class Spread(DocumentPart):
    """A figure of a clock over the readings."""

    n: int
    min: int | float
    p50: float
    mean: float
    max: int | float
    stddev: float


class Unlocked(DocumentPart):
    """A time in which a port was not locked, ns from the first reading; to_ns: None until the end."""

    from_ns: int
    to_ns: int | None
    why: str


class PtpCheck(DocumentPart):
    """PTP's offset against our own readings of both clocks."""

    n: int
    ours_p50_ns: float
    half_p50_ns: float
    coarse: bool
    outside_max_ns: int
    apart: int


class PtpPort(DocumentPart):
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


class Imported(DocumentPart):
    """Where an imported cell's figures come from. latency: what the tool's latency is, in one sentence. by_latlab: it
    was watched, and no other program measured it. flights: of each kernel what was kept around late packets.
    """

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
    flights: list[KeptAround] = []


class FlowWatched(DocumentPart):
    """A flow whose packets were watched. flow: which, as the scenario has it. hosts: of each kernel the one whose agent
    watched. packets: seen at each point, by direction; None: the recordings were not read. flights: of each kernel what
    was kept around late packets.
    """

    name: str
    flow: str
    hosts: list[str]
    packets: dict[str, int] | None
    notes: list[str]
    left_out: list[LeftOut]
    flights: list[KeptAround] = []


class CoreUse(DocumentPart):
    """CPUs of one kind that a thread ran on. core: its name; share: what part of the thread's records it made there."""

    core: str | None
    capacity: int | None
    cpus: list[int]
    share: float | None


class CoresUsed(DocumentPart):
    """A measured thread, or a virtual CPU, on a machine with several kinds of CPUs. may: the CPUs it may run on."""

    thread: str
    host: str
    may: list[int]
    cores: list[CoreUse]


class Cell(DocumentPart):
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
    cores: list[CoresUsed] = []
    flows: list[FlowWatched] = []
    ptp: list[PtpPort] = []
    imported: Imported | None = None

    @property
    def key(self) -> str:
        """The cell as results name it: `SLUG/rN`."""
        return f"{self.slug}/r{self.repeat}"

    def judged(self, verdict: Verdict) -> Cell:
        """The cell with this verdict."""
        return self.model_copy(update={"verdict": verdict})

    def figures(self, stream: str, metric: str) -> Metric | None:
        """A stream's figures of a metric; None where it has none."""
        return self.streams[stream].metrics.get(metric) if stream in self.streams else None


class Published(DocumentPart):
    """A published row, ns; it is compared with `stream`, a stream, leg or probe, in `cells`, slugs; null: the scenario
    does not say.
    """

    source: str
    row: str
    metric: str
    stream: str | None = None
    cells: list[str] | None = None
    n: int | None
    min: int | float | None
    mean: int | float | None
    max: int | float | None
    stddev: int | float | None
    pk_pk: int | float | None
    p50: int | float | None
    p99: int | float | None


class Repeats(DocumentPart):
    """How far the repetitions of a cell are apart (`--check-repeat`), and the first timestamp that differs, if any."""

    slug: str
    repetitions: int
    packets: int
    only_in_one: int
    largest_ns: int
    repeat: int | None
    stream: str | None
    sequence: int | None
    timestamp: str | None


class Result(DocumentPart):
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

    @property
    def any_waits(self) -> bool:
        """Whether any of its cells has a timer, ours or a tool's."""
        return any(stream.waits for cell in self.cells for stream in cell.streams.values())

    def metric_names(self, order: Sequence[str] = ()) -> tuple[str, ...]:
        """Every metric that any stream has, in `order`, then the others as they come."""
        found = dict.fromkeys(
            name for cell in self.cells for stream in cell.streams.values() for name in stream.metrics
        )
        return (*(name for name in order if name in found), *(name for name in found if name not in order))
