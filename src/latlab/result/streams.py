"""Of result.json: one stream of one cell."""

from __future__ import annotations

from typing import TypedDict

from latlab.model.part import DocumentPart, Failure
from latlab.result.anomalies import Anomaly, LateLimits, Windows
from latlab.result.metrics import CameTo, Chain, Metric, Statistics


class Silent(DocumentPart):
    """Packets with launch times that the kernel dropped silently."""

    count: int
    first_sequence: int
    last_sequence: int


class Unstamped(DocumentPart):
    """Packets without a timestamp. later: how many of them are among the latest by `until`; late: chance does not
    explain that.
    """

    stamp: str
    n: int
    of: int
    until: str | None
    later: int
    share: float | None
    late: bool


class Bound(DocumentPart):
    """What a gate schedule guarantees."""

    earliest_ns: int
    latest_ns: int
    worst_wait_ns: int
    frame_ns: int
    guard_ns: int


class Gates(DocumentPart):
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


class ProbeOf(DocumentPart):
    """Of which probe these figures are. leg: `up`, `down`, or None of the whole; period_ns: None of a closed loop."""

    name: str
    kind: str
    from_: str
    to: str
    leg: str | None
    period_ns: int | None
    frames: int
    told: str


class TimerWindow(DocumentPart):
    """A timer's figures in one window, ns from its start."""

    from_ns: int
    n: int
    mean: float | None
    stddev: float | None
    min: int | None
    max: int | None
    above: int


class TimerHandler(DocumentPart):
    """The interrupt's handler of a timer. above: later than the threshold."""

    n: int
    above: int
    windows: list[TimerWindow] | None


class TimerLimits(DocumentPart):
    """What a timer's instants are held against, and the windows that they are counted in."""

    threshold_ns: int
    window_ns: int


class Timer(TimerHandler, TimerLimits):
    """A timer's thread, and its interrupt's handler. traced: the kernel reports its interrupts."""

    interrupt: TimerHandler | None
    traced: bool
    trace_problem: Failure | None


class TraceStage(DocumentPart):
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


class MissingStage(DocumentPart):
    """Why stages of n packets or instants are not known."""

    id: str
    n: int
    reason: str


class Entry(DocumentPart):
    """How interrupts came into a guest, as its VM host's kernel reports. told: of how many packets or instants."""

    told: int
    uncertainty_ns: int | None
    interrupted: list[CameTo]
    ran: list[CameTo] = []


class FlightRecord(DocumentPart):
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


class TracedOn(DocumentPart):
    """Where it was traced. events, lost: of the host's trace. flight: if a flight recorder kept little of it."""

    host: str
    events: int | None
    lost: int | None
    flight: FlightRecord | None = None


class Breakdown(DocumentPart):
    """The path of packets or instants from the interrupt to the thread (docs/explanation/where-the-time-went.md).

    told: the wake-up is known; awake: the thread did not sleep; untold: unknown. whole: every stage is known; missing:
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


class LostAt(DocumentPart):
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


class Losses(DocumentPart):
    """Where lost packets were dropped, warm-up left out. unplaced: no kernel that was watched dropped them."""

    lost: int
    unplaced: int
    places: list[LostAt]


class StreamFound(TypedDict, total=False):
    """What of a stream only some kinds have: what is not given is not in the result."""

    send_errnos: dict[str, int] | None
    losses: Losses | None
    unstamped: list[Unstamped]
    anomalies: dict[str, Anomaly] | None
    late_limits: LateLimits | None
    windows: Windows | None
    timer: Timer | None
    trace: Trace | None
    lead_ns: int | None
    early_ns: int | None


class Stream(DocumentPart):
    """A stream, a probe or one of its legs, a timer, or what a tool measured.

    clock: where the offset of the two hosts' clocks is known from. counts: packets, warm-up included. anomalies: by
    class; None: not looked for. flow: whose watched packets it is: talker and listener are hosts with the clocks of
    the two points. points: of watched packets from where to where, or where alone. trace: the path of packets from
    interrupt to thread (docs/explanation/where-the-time-went.md).
    """

    talker: str
    listener: str
    clock: str | None
    sent_as: str | None = None
    start_tai_ns: int | None
    probe: ProbeOf | None = None
    flow: str | None = None
    points: list[str] = []
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

    def with_found(self, found: StreamFound) -> Stream:
        """The stream with what was found in addition."""
        return self.model_copy(update=dict(found))

    @property
    def waits(self) -> bool:
        """Whether it is of one host that waits for instants: a timer, ours or a tool's."""
        return self.probe is not None and self.talker == self.listener
