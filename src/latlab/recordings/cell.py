"""The types of cell.json (docs/reference/run-folder.md). Durations are ns, instants TAI ns; None: not known.

What earlier versions did not write has a default; what later ones add is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from latlab.model.part import Failure, Keys, Recorded
from latlab.model.reasons import Reason

Leg = Literal["up", "down"]

# What is measured


class RecordedLaunchTime(Recorded):
    """How packets have launch times (SO_TXTIME)."""

    lead_ns: int
    clock: str = "tai"
    deadline: bool = False
    late: str = "report"
    allowed_lateness_ns: int = 0
    margin_ns: int = 0


class TimerSettings(Recorded):
    """How a timer waits, and what is recorded of it."""

    how: str = ""
    threshold_ns: int
    window_ns: int


class LostPlace(Recorded):
    """Packets of a watched flow that a kernel dropped at one place for one reason; as LostAt of the result."""

    place: str
    host: str | None = None
    device: str | None = None
    reason: str | None = None
    function: str | None = None
    packets: int


class WatchedLosses(Recorded):
    """Where lost packets of a watched flow were dropped. unplaced: no kernel that was watched dropped them."""

    lost: int
    unplaced: int
    places: list[LostPlace] = []


class RecordedStream(Recorded):
    """A stream, a leg of a probe, a timer, or what a tool measured.

    interface: where it leaves; port: the same, or of a VLAN interface the one below. stream: its number, 0 without
    packets. period_ns: None of a closed loop. metrics, counts, send_errnos, two_clocks, described: of what was imported
    or measured by a tool. flow: of which flow's packets it is, where these were watched. pair: of a PRP pair the
    numbers of its streams by LAN A and by LAN B. losses: of packets that were watched; None: their drops were not.
    points: of packets that were watched from where to where, or where alone.
    """

    name: str
    stream: int
    talker: str
    listener: str
    interface: str | None = None
    port: str | None = None
    period_ns: Annotated[int, Field(gt=0, strict=True)] | None
    offset_ns: int = 0
    size: int | None = None
    count: int | None = None
    priority: int | None = None
    transport: str | None = None
    to_port: int | None = None
    vlan: int | None = None
    launch_time: RecordedLaunchTime | None = None
    start_tai_ns: int | None = None
    probe: str | None = None
    leg: Leg | None = None
    flow: str | None = None
    pair: tuple[int, int] | None = None
    frames: int | None = None
    timer: TimerSettings | None = None
    tool: str | None = None
    described: str = ""
    metrics: list[str] = []
    counts: dict[str, int | None] = {}
    two_clocks: bool = False
    losses: WatchedLosses | None = None
    points: list[str] = []

    @property
    def queue(self) -> str:
        """The interface whose qdiscs queue its packets."""
        return str(self.port if "port" in self.model_fields_set else self.interface)

    @property
    def has_packets(self) -> bool:
        """Whether our agents send and receive it: a tool's is not, and a timer has none."""
        return not self.tool and self.timer is None

    @property
    def lead_ns(self) -> int:
        """How long before its launch time a packet may rightly leave, ns: ETF sends at txtime − delta."""
        return self.launch_time.lead_ns if self.launch_time else 0

    @property
    def asked(self) -> TimerSettings:
        """Of a timer: how it waits."""
        assert self.timer, f"{self.name} is not a timer"
        return self.timer


@dataclass(frozen=True)
class ToolInterval:
    """What a tool reported for one interval of time, ns; percentiles None where it reports none."""

    start_ns: int
    n: int
    min: int
    mean: float
    max: int
    p50: int | None = None
    p90: int | None = None
    p99: int | None = None


class ToolFigures(Recorded):
    """One metric's figures, as another program kept them. between: its two timestamps."""

    stream: str
    metric: str
    kept: Literal["histogram", "intervals", "summary"]
    between: tuple[str, str]
    resolution_ns: int
    n: int | None
    min: int | None
    mean: int | float | None
    max: int | None
    stddev: int | float | None
    percentiles: dict[str, int | None] | None = None
    binned: bool = False
    min_sequence: int | None
    max_sequence: int | None
    lost: int | None
    two_clocks: bool
    below: int | None
    above: int | None
    intervals: list[ToolInterval] = []


@dataclass(frozen=True)
class LeftOut:
    """What was in the files and is not in the figures: how many of what, and why."""

    what: str
    count: int
    why: str


class ToolFound(Recorded):
    """What another program measured. latency: what its latency is, in one sentence. problems: reasons not to trust it.

    facts: of its machine, as the program prints them.
    """

    latency: str
    notes: list[str]
    left_out: list[LeftOut]
    problems: list[Reason]
    facts: dict[str, Any]
    figures: list[ToolFigures]


class JudgedPackets(Recorded):
    """What a listener found of its packets by a trigger. typical: not late, and kept to be compared with."""

    judged: int
    late: int
    typical: int
    unjudged: int


class KeptTotals(Recorded):
    """What a trace kept of windows. overran: those of which events were no longer held."""

    windows: int
    overran: int
    overwritten: int


class ThreadTime(Recorded):
    """How long a thread did something, ns. comm: its name; None: unknown."""

    comm: str | None
    ns: int


class FlightWindow(Recorded):
    """What a kernel did around late packets. whole: none of its events were lost. ran: threads that ran for longest;
    waited: those that were ready for longest and did not run. interrupts_ns, softirqs_ns: of all CPUs together.
    """

    from_tai_ns: int
    to_tai_ns: int
    whole: bool
    events: int
    ran: list[ThreadTime]
    waited: list[ThreadTime]
    interrupts_ns: int
    softirqs_ns: int


class KeptAround(Recorded):
    """What a flight recorder kept of a kernel while packets were watched. judged: None where another kernel judged
    them. kept: None: its agent did not come to its end. windows: the longest.
    """

    host: str
    trigger: str
    judged: JudgedPackets | None
    kept: KeptTotals | None
    windows: list[FlightWindow]


class ImportedFound(ToolFound):
    """Where an imported cell's figures come from. by_latlab: no other program measured it."""

    format: str
    tool: str
    version: str
    files: list[str]
    clock_bound_ns: int | None
    by_latlab: bool = False
    flights: list[KeptAround] = []


class AskedOfProbe(Recorded):
    """What the scenario asks of a probe."""

    transport: str | None = None
    test: str | None = None
    timestamps: str = "kernel"
    how: str = ""
    domain: int | None = None
    reliable: bool = False
    take: str = ""


class RecordedProbe(Recorded):
    """A probe. probe: its kind; period_ns: None of a closed loop. tool: what measured it, if none of our agents."""

    name: str
    probe: str
    from_: str
    to: str
    period_ns: int | None = None
    timeout_ns: int | None = None
    asked: AskedOfProbe = AskedOfProbe()
    version: str | None = None
    commands: list[str] = []
    cyclone: str | None = None
    tool: ToolFound | None = None


# What agents say


class ClockWindow(Recorded):
    """Bounds of the offset at one instant, and of its drift away from it."""

    reference_tai_ns: int
    lower_ns: int
    upper_ns: int
    drift_lower_ppb: int | float | None
    drift_upper_ppb: int | float | None
    span_ns: int


class Said(Recorded):
    """What an agent said; false where that is nothing."""

    def __bool__(self) -> bool:
        return bool(self.model_fields_set)


class RecordedRealtime(Recorded):
    """What an agent's measuring thread found of its settings."""

    tid: int | None = None
    cpus: list[int] | None = None
    priority: int | None = None
    memory_locked: bool | None = None
    problems: list[str] = []


class TimerReady(Recorded):
    """How a timer waits on its machine."""

    clock: str | None = None
    event_device: str | None = None
    tick_ns: int | float | None = None
    traced: bool = False


class DropsReady(Recorded):
    """Whether drops are watched, and whether the kernel gives reasons. missing: what is not known, and why."""

    watched: bool = False
    reasons: bool = False
    missing: list[str] = []


class WatchReady(Recorded):
    """How packets are watched. reads_pages: also what of a packet lies in pages apart from its headers. missing: what
    of sockets the kernel does not show, and why.
    """

    clock: str | None = None
    snap: int | None = None
    reads_pages: bool = True
    missing: list[str] = []


class OtherFlow(Recorded):
    """Packets that no rule fitted at a point. out: they left there; tag: VLAN and priority; protocol: of IP."""

    packets: int
    point: int
    out: bool
    ether_type: int
    tag: tuple[int, int] | None = None
    protocol: int | None = None
    dscp: int | None = None
    source: str | None = None
    destination: str | None = None
    ports: tuple[int, int] | None = None


class Ready(Said):
    """What an agent said as it was ready.

    clock: of those that ask a ptp4l, why they cannot read the one that it turns; of those that trace, the events'.
    """

    version: str | None = None
    netns: int | None = None
    tai_ns: int = 0
    tai_offset_s: int | None = None
    realtime: RecordedRealtime | None = None
    bound: ClockWindow | None = None
    cyclone: str | None = None
    stamps_by: dict[str, str | list[str] | None] | None = None
    drops: DropsReady | None = None
    watch: WatchReady | None = None
    timer: TimerReady | None = None
    trace_problem: Failure | None = None
    clock: Failure | str | None = None


class StreamTotals(Said):
    """What an agent counted of one stream."""

    stream: int | None = None
    sent: int | None = None
    send_errors: int | None = None
    unsent_late: int | None = None
    launch_late: int | None = None
    launch_moved: int | None = None
    received: int | None = None
    reordered: int | None = None
    rejected: int = 0
    rejected_errno: int | None = None
    repeated: int = 0
    out_of_range: int = 0
    untagged: int = 0
    tx_sched: int = 0
    tx_soft: int = 0
    tx_hard: int = 0
    launch_invalid: int = 0
    launch_missed: int = 0

    @property
    def stamped(self) -> int:
        """The rows of its `stamps`: what its error queue gave."""
        return self.tx_sched + self.tx_soft + self.tx_hard + self.launch_invalid + self.launch_missed


class Programs(Recorded):
    """What BPF programs took. lost: records for which their ring had no room; compared: with the socket's."""

    lost: int | None = None
    compared: list[dict[str, int | str]] = []


class PointTotals(Recorded):
    """Packets of the flow that came in at a point, and that left there, recorded or not. unread: of sockets, received
    before they could be read.
    """

    passed_in: int = 0
    passed_out: int = 0
    unread: int = 0


class Totals(StreamTotals):
    """What an agent said at its end. recorded: rows of all its tables; ring_full: rows that it dropped."""

    streams: list[StreamTotals] | None = None
    answered: int | None = None
    recorded: int | None = None
    ring_full: int = 0
    foreign: int = 0
    truncated: int = 0
    other_run: int = 0
    unknown_stream: int = 0
    socket_drops: int = 0
    empty_wakeups: int = 0
    cpu_ns: int | None = None
    wakeups: int | None = None
    events: int = 0
    lost: int | None = None
    drops: int | None = None
    end_tai_ns: int | None = None
    points: list[PointTotals] = []
    others: list[OtherFlow] = []
    exchanges: int | None = None
    bound: ClockWindow | None = None
    windows: list[ClockWindow] = []
    stages: Programs | None = None
    trace_lost: int | None = None
    overdue: int = 0
    held_up_ns: int = 0
    judged: JudgedPackets | None = None
    kept: KeptTotals | None = None
    above: int | None = None
    threshold_ns: int | None = None
    mean_ns: int | float | None = None
    stddev_ns: int | float | None = None
    min_ns: int | None = None
    max_ns: int | None = None

    @property
    def each(self) -> Sequence[StreamTotals]:
        """Of each stream; of an agent of a probe, which has one, its own."""
        return [self] if self.streams is None else self.streams


class RecordedAgent(Recorded):
    """An agent. probe: whose it is. ready, done: what it said as it was ready, and at its end; None: it did not.

    cores: how many rows of its recordings its thread made on each CPU; empty where that may run on one kind only.
    """

    host: str
    verb: str = "drops"
    probe: str | None = None
    ready: Ready | None = None
    cores: dict[int, int] = {}
    done: Totals | None = None
    error: Failure | None = None

    @property
    def said(self) -> Ready:
        """What it said as it was ready; nothing of one that did not come to it."""
        return self.ready or Ready()

    @property
    def totals(self) -> Totals:
        """What it said at its end; nothing of one that did not come to it."""
        return self.done or Totals()

    @property
    def name(self) -> str:
        """As `talk on sensor`; of a probe's agents also whose, as `ping rr on sensor`."""
        return " ".join(filter(None, (self.verb, self.probe, "on", self.host)))

    @property
    def realtime(self) -> RecordedRealtime:
        """What it found of its settings."""
        return self.said.realtime or RecordedRealtime()


class WatchedKernel(RecordedAgent):
    """A kernel, and the agent that watches where it drops packets. why_not: why none was started."""

    hosts: list[str]
    why_not: str | None = None


# Packets that are watched

GRACE_NS = 500_000_000
"""A packet that one point saw has so long to come to another one before it counts as lost."""


class WatchedPoint(Recorded):
    """An interface, or sockets. kernel: its place in `kernels`; number: its own among the points of that one.
    directions: `in`, `out`, or `read` alone. became: what was the matter with it at the end; empty: nothing. netns: the
    inode of its network namespace; None: unknown. host: whose that is; of a guest's tap the VM host's. is_sockets: what
    programs send and receive there.
    """

    name: str
    kernel: int
    number: int
    directions: list[str]
    became: str = ""
    netns: int | None = None
    host: str = ""
    is_sockets: bool = False

    @property
    def each(self) -> list[str]:
        """Its name with each of its directions."""
        return [f"{self.name}:{direction}" for direction in self.directions]


class WatchedBy(RecordedAgent):
    """A kernel, and the agent that watched it. recording: its file's name without the end that all such files have.

    from_tai_ns, until_tai_ns: by its clock; between them every kernel was watched, and what was seen had time to come
    to any other point. trace: the agent that kept the kernel's events around late packets; None: none was started.
    """

    verb: str = "watch"
    recording: str
    from_tai_ns: int | None = None
    until_tai_ns: int | None = None
    trace: RecordedAgent | None = None


class Watched(Recorded):
    """Packets that were watched: `watch` of run.json. flow: the expression as it was written; filter: as agents have
    it. for_ns: None: until it was ended. snap: bytes of each packet that are kept. sample: of so many packets one was
    recorded, chosen by its digest. clock_bound_ns: how far the
    clocks of two kernels differ at most, where that is stated. trigger: which packets are late. grace_ns: as GRACE_NS.
    """

    flow: str
    filter: dict[str, Any]
    for_ns: int | None = None
    snap: int
    sample: int = 1
    clock_bound_ns: int | None = None
    run_id: str
    points: list[WatchedPoint]
    kernels: list[WatchedBy]
    notes: list[str] = []
    trigger: str | None = None
    grace_ns: int = GRACE_NS


class WatchedFlow(Watched):
    """A flow of a scenario, watched in its cell. problems: reasons not to trust its figures. packets: of each point and
    direction; None: the recordings were not read. flights: of each kernel what was kept around late packets.
    """

    name: str
    left_out: list[LeftOut] = []
    problems: list[Reason] = []
    packets: dict[str, int] | None = None
    flights: list[KeptAround] = []


# Clocks


class ClockEdge(Recorded):
    """`to`'s clock − `from`'s, through the whole cell. bound: a line through all exchanges."""

    from_: str
    to: str
    source: str | None = None
    lower_ns: int | None = None
    upper_ns: int | None = None
    windows: list[ClockWindow] = []
    exchanges: int | None = None
    lost: int | None = None
    bound: ClockWindow | None = None


class RecordedPort(Recorded):
    """A port of PTP. clock: the card's, where that is adjusted. absent: why no ptp4l was started."""

    port: str
    role: Literal["master", "slave", "observed"]
    absent: str | None = None
    profile: str | None = None
    timestamps: str | None = None
    clock: str | None = None
    free_running: bool = False
    limit_ns: int = 0
    sync_interval_ns: int | None = None
    master: str | None = None
    start_tai_ns: int | None = None


# The test bed


class RecordedWork(Recorded):
    """What keeps a host busy. size: bytes of memory, or of file, of each worker; path: the folder of its files."""

    what: str
    size: int | None = None
    path: str | None = None
    workers: int


class Load(Recorded):
    """A load, and what it achieved. asked_bps, sent_bps, received_bps: bit/s; sent_pps: packets a second."""

    name: str
    kind: str
    from_: str | None
    to: str | None
    on: str | None = None
    work: RecordedWork | None = None
    version: str | None = None
    commands: list[Any] = []
    asked_bps: int | float | None
    sent_bps: int | float | None
    received_bps: int | float | None
    sent_pps: int | float | None
    work_per_s: dict[str, int | float] = {}
    detail: Any = None


class Bridge(Recorded):
    """A virtual bridge as it was made."""

    kind: str
    title: str
    host: str
    uplink: str | None
    guests: list[str]
    detail: str


class Guest(Recorded):
    """A virtual machine as it ran. memory: bytes, or as it was written. vcpu_threads: vCPU → thread id.

    Of a domain that was running before, acceleration, vCPUs and memory are not known.
    """

    name: str
    host: str
    image: str | None
    kernel: str | None
    acceleration: str | None
    vcpus: int | None
    memory: int | str | None
    started: str
    vcpu_threads: dict[int, int] | None = None


class RecordedStep(Recorded):
    """A step of the test bed, or a setting that was read again. why: the error, where the run continues without it."""

    host: str
    title: str
    command: str
    seconds: int | float | None = None
    expected: str | None = None
    actual: str | None = None
    ok: bool
    why: str | None = None


class RecordedCell(Recorded):
    """One repetition of a cell. cell: the matrix' keys; instructions_per_ns: of a board in virtual time.

    trigger: which packets are late for the flight recorder.
    """

    format: str = "latlab.cell/1"
    cell: Keys = {}
    slug: str
    repeat: int
    order: int | None = None
    status: str
    reason: Failure | None = None
    label: str | None = None
    instructions_per_ns: int | float | None = None
    seed: int | None = None
    qemu: str | None = None
    shared_bed: bool = False
    trigger: str | None = None
    run_id: str = ""
    start_tai_ns: int | None = None
    warmup_ns: int = 0
    duration_ns: int = 0
    streams: list[RecordedStream]
    probes: list[RecordedProbe] = []
    agents: list[RecordedAgent] = []
    loads: list[Load] = []
    clocks: list[ClockEdge] = []
    ptp: list[RecordedPort] | None = None
    drops: list[WatchedKernel] | None = None
    flows: list[WatchedFlow] = []
    bridges: list[Bridge] = []
    guests: list[Guest] = []
    steps: list[RecordedStep] = []
    rechecks: list[RecordedStep] = []
    imported: ImportedFound | None = None

    @field_validator("streams")
    @classmethod
    def _told_apart(cls, streams: list[RecordedStream]) -> list[RecordedStream]:
        names = Counter(stream.name for stream in streams)
        numbers = Counter(stream.stream for stream in streams if stream.stream)
        for which, found in (("name", names), ("number", numbers)):
            if twice := [one for one, times in found.items() if times > 1]:
                raise ValueError(f"two have the {which} {twice[0]}")
        return streams

    def only(self, names: Container[str]) -> RecordedCell:
        """The cell with these streams alone."""
        return self.model_copy(update={"streams": [one for one in self.streams if one.name in names]})

    def start_of(self, stream: RecordedStream | RecordedPort) -> int:
        """When the streams started, by the talker's, or the port's, TAI; 0: they did not."""
        return stream.start_tai_ns or self.start_tai_ns or 0
