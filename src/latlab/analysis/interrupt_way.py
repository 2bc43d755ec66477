"""The way of packets and instants from the interrupt to the thread: contiguous intervals, and what was interrupted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis import way
from latlab.analysis.interrupts import AWAKE, EVENTS_LOST, NO_WAKING, handler_threads, wakings
from latlab.analysis.statistics import statistics
from latlab.result.types import Breakdown, CameTo, MissingStage, TraceStage

PACKET_WAY: Final = ("irq", "softirq", "rx_soft", "backlog", "waking", "run", "rx_user")
"""Where a received packet passes. The kernel's stamp is made in the softirq that polls the card, or before it: what a
program of this host sends to itself, or another CPU has polled, waits in a backlog for a softirq: this stop then.
"""

ENTRY_WAY: Final = ("asked", "accepted", "injected", "entered")
"""Where an interrupt passes on its path into a guest, on the guest's VM host (analysis/entry.py)."""

HOST_WAY: Final = ("host_irq", "host_softirq", "host_waking", "host_run")
"""Where it passes before that, to the thread of the VM host that sends it on (analysis/entry.py)."""

WAY_IN: Final = (*HOST_WAY, *ENTRY_WAY)
"""All of it that is on the VM host."""

GUEST_WAY: Final = (*WAY_IN, *PACKET_WAY)
"""Where a packet passes that a guest receives, from the interrupt of its VM host on."""

TIMER_WAY: Final = ("wake_due", "irq", "waking", "run", "wake")
"""Where an instant that a thread waits for passes."""

GUEST_TIMER_WAY: Final = ("wake_due", *HOST_WAY, *ENTRY_WAY[1:], *TIMER_WAY[1:])
"""Where an instant passes that a guest waits for by its APIC's timer, which no thread requests."""

STOPS: Final = {
    "host_irq": "on a guest's VM host: the handler of the interrupt that brought the packet, or of its timer, began",
    "host_softirq": "on the VM host: the softirq that passed the packet to the guest's tap began",
    "host_waking": (
        "the thread that forwards the guest's interrupt was woken: vhost's or QEMU's; for a timer the halted vCPU's own"
    ),
    "host_run": "that thread began to run",
    "asked": (
        "into a guest: a thread of its VM host, such as vhost, requested the interrupt (`kvm_msi_set_irq`, "
        "`kvm_set_irq`)"
    ),
    "accepted": (
        "the vCPU's APIC took it (`kvm_apic_accept_irq`); on arm64 it is pending for the vCPU "
        "(`vgic_update_irq_pending`)"
    ),
    "injected": "KVM injected it while the guest was stopped (`kvm_inj_virq`)",
    "entered": "the guest was entered (`kvm_entry`)",
    "irq": "the handler of the interrupt that raised the softirq began",
    "softirq": "the softirq that polled the card began",
    "rx_soft": "the kernel's timestamp",
    "backlog": (
        "the softirq that took the packet out of a CPU's backlog began: between namespaces, on loopback, after receive "
        "packet steering. Its `softirq` and `irq` are then not known"
    ),
    "waking": "the thread was woken (`sched_waking`)",
    "run": "the thread began to run (`sched_switch`)",
    "rx_user": "the application got it",
}
"""{stop: what it is}, as docs/explanation/where-the-time-went.md has it too."""

INTERVALS: Final = {
    ("host_irq", "host_softirq"): "VM host's handler",
    ("host_irq", "host_waking"): "VM host's handler",
    ("host_softirq", "host_waking"): "VM host's stack",
    ("host_waking", "host_run"): "VM host's scheduling",
    ("host_waking", "asked"): "carrying",
    ("host_run", "asked"): "carrying",
    ("host_waking", "accepted"): "KVM's timer",
    ("host_run", "accepted"): "KVM's timer",
    ("wake_due", "host_irq"): "VM host's timer",
    ("wake_due", "host_waking"): "VM host's timer",
    ("asked", "accepted"): "routing",
    ("accepted", "injected"): "pending",
    ("accepted", "entered"): "pending",
    ("injected", "entered"): "entry",
    ("entered", "irq"): "guest's entry code",
    ("wake_due", "irq"): "interrupt",
    ("wake_due", "accepted"): "VM host's timer",
    ("host_irq", "accepted"): "KVM's timer",
    ("irq", "softirq"): "handler",
    ("softirq", "rx_soft"): "poll",
    ("rx_soft", "backlog"): "backlog",
    ("softirq", "waking"): "stack",
    ("rx_soft", "waking"): "stack",
    ("backlog", "waking"): "stack",
    ("irq", "waking"): "handler",
    ("waking", "run"): "scheduling",
    ("run", "rx_user"): "return",
    ("run", "wake"): "return",
}
"""What happens between two stops, in a word."""

HAPPENS: Final = {
    "VM host's handler": "the VM host's handler, until softirqs run; of a timer: until KVM's timer function runs",
    "VM host's stack": "the VM host's network stack and bridge, up to the tap; other packets of the batch",
    "VM host's scheduling": "the VM host: an idle CPU wakes up, or another thread keeps running",
    "carrying": "vhost, or QEMU, puts the packet, and others before it, into the guest's ring",
    "KVM's timer": "the vCPU's thread picks up its expired timer",
    "routing": "from the MSI or interrupt line to the vCPU",
    "pending": "the vCPU exits its guest, or is woken and scheduled on the VM host; or it has interrupts disabled",
    "entry": "the rest of KVM's guest entry",
    "guest's entry code": "the guest's entry code, until its handler begins; this stage subtracts two clocks",
    "handler": (
        "the driver's handler, on PREEMPT_RT until its thread has run it; other interrupts, until softirqs run"
    ),
    "poll": "the driver takes packets off the ring, including those before this one",
    "backlog": "it waits for its softirq",
    "stack": "IP, UDP, the socket; other packets of the batch",
    "scheduling": "an idle CPU wakes up, or another thread keeps running",
    "return": "the thread leaves the kernel with the packet",
}
"""{name of an interval: what happens in it}, as the same page has it."""

# include/linux/trace_events.h, enum trace_flag_type: a softirq was being served.
_SOFTIRQ: Final = 0x10

IDLE: Final = "idle"
VCPU: Final = "vCPU"
OTHER_GUEST: Final = "another guest's vCPU"
USER_THREAD: Final = "thread"
KERNEL_THREAD: Final = "kernel thread"
SOFTIRQ: Final = "softirq"
UNKNOWN: Final = "unknown"
"""What can be interrupted. Tracepoints do not show whether a program's thread was in the kernel, nor these whether a
vCPU's was in its guest.
"""


@dataclass(frozen=True)
class Passage:
    """What n packets or instants passed.

    stops: the way's k stops. passed: bool [n, k], whether it is known when it passed that one; the last always. at_ns:
    int64 [n, k], when, CLOCK_TAI; of a stop that is not known the one before it, or the first that is.
    interval_ns: int64 [n, k − 1], column j to stop j + 1 from the last known stop before it; 0 where either is not
    known. Each row adds up to the last stop less the first known one, exactly.
    """

    stops: tuple[str, ...]
    passed: NDArray[np.bool_]
    at_ns: NDArray[np.int64]

    def of(self, rows: NDArray[np.bool_]) -> Passage:
        """That of these alone: bool [n]."""
        return Passage(self.stops, self.passed[rows], self.at_ns[rows])

    @property
    def interval_ns(self) -> NDArray[np.int64]:
        """As above."""
        return np.diff(self.at_ns, axis=1)

    @property
    def whole_ns(self) -> NDArray[np.int64]:
        """int64 [n]: from the first known stop to the last."""
        whole_ns: NDArray[np.int64] = self.at_ns[:, -1] - self.at_ns[:, 0]
        return whole_ns

    def between(self, start: str, end: str) -> NDArray[np.int64]:
        """int64 [m]: this interval of those that know both of its ends, and nothing in between."""
        first, last = self.stops.index(start), self.stops.index(end)
        there = self.passed[:, first] & self.passed[:, last] & ~self.passed[:, first + 1 : last].any(axis=1)
        found: NDArray[np.int64] = self.at_ns[there, last] - self.at_ns[there, first]
        return found


def packets_passage(
    packets: pl.DataFrame, trace: pl.DataFrame, thread: int, tasks: pl.DataFrame | None = None
) -> tuple[Passage, pl.DataFrame]:
    """The way of packets to the thread that received them, and how it was woken for each (`wakings`).

    packets: `rx_soft_tai_ns` and `rx_user_tai_ns`, neither null, in the order in which they were received.
    tasks: of the threads in the trace; those in which handlers run are known by their names.
    """
    waits = packets.select(from_tai_ns="rx_soft_tai_ns", to_tai_ns="rx_user_tai_ns")
    told = wakings(waits, trace, thread, None if tasks is None else handler_threads(tasks))
    stamp, softirq, irq = (pl.col(f"{name}_tai_ns") for name in ("rx_soft", "softirq", "irq"))
    placed = pl.concat((packets.select("rx_soft_tai_ns", "rx_user_tai_ns"), told), how="horizontal").with_columns(
        irq_tai_ns=pl.when(irq <= stamp).then(irq),
        softirq_tai_ns=pl.when(softirq <= stamp).then(softirq),
        backlog_tai_ns=pl.when(softirq > stamp).then(softirq),
    )
    return _passage(PACKET_WAY, placed), told


def timers_passage(instants: pl.DataFrame, trace: pl.DataFrame, thread: int) -> tuple[Passage, pl.DataFrame]:
    """The way of instants to the thread that waited for them, and how it was woken for each (`wakings`).

    instants: `wake_due_tai_ns` and `wake_tai_ns`, neither null, in order.
    """
    told = wakings(instants.select(from_tai_ns="wake_due_tai_ns", to_tai_ns="wake_tai_ns"), trace, thread)
    due, irq = pl.col("wake_due_tai_ns"), pl.col("irq_tai_ns")
    ends = instants.select("wake_due_tai_ns", "wake_tai_ns")
    # A handler that began before the instant reached it later: there is no interval to it.
    placed = pl.concat((ends, told), how="horizontal").with_columns(irq_tai_ns=pl.when(irq >= due).then(irq))
    return _passage(TIMER_WAY, placed), told


def _passage(stops: tuple[str, ...], placed: pl.DataFrame) -> Passage:
    columns = [placed[f"{name}_tai_ns"] for name in stops]
    passed = np.column_stack([column.is_not_null().to_numpy() for column in columns])
    at_ns = np.empty(passed.shape, np.int64)
    latest_ns = placed.select(pl.coalesce(columns)).to_series().to_numpy()
    for number, column in enumerate(columns):
        latest_ns = np.where(passed[:, number], column.fill_null(0).to_numpy(), latest_ns)
        at_ns[:, number] = latest_ns
    return Passage(stops, passed, at_ns)


def interrupted(
    told: pl.DataFrame, tasks: pl.DataFrame, vcpus: Collection[int] = (), others: Collection[int] = ()
) -> pl.DataFrame:
    """`what` and `comm` of what each interrupt of `wakings` interrupted; null where no interrupt is reported.

    vcpus: the numbers of threads that are vCPUs; others: of such as are other guests'. comm: the thread's name, as it
    was when it was first seen.
    """
    known = tasks.unique("pid", keep="first", maintain_order=True).select(
        interrupted="pid", comm="comm", kernel="kernel"
    )
    pid, kernel = pl.col("interrupted"), pl.col("kernel")
    what = (
        pl.when(pid.is_null())
        .then(None)
        .when(pl.col("interrupted_flags").and_(_SOFTIRQ) != 0)
        .then(pl.lit(SOFTIRQ))
        .when(pid == 0)
        .then(pl.lit(IDLE))
        .when(pid.is_in(list(vcpus)))
        .then(pl.lit(VCPU))
        .when(pid.is_in(list(others)))
        .then(pl.lit(OTHER_GUEST))
        .when(kernel.is_null())
        .then(pl.lit(UNKNOWN))
        .otherwise(pl.when(kernel).then(pl.lit(KERNEL_THREAD)).otherwise(pl.lit(USER_THREAD)))
    )
    joined = told.select("interrupted", "interrupted_flags").join(
        known, on="interrupted", how="left", maintain_order="left"
    )
    return joined.select(what=what, comm="comm")


def breakdown(passage: Passage, told: pl.DataFrame, tasks: pl.DataFrame, vcpus: Collection[int] = ()) -> Breakdown:
    """The way of all packets or instants together (docs/explanation/where-the-time-went.md).

    Its intervals are in the order of the way, of those whose stops are known.
    """
    counts = told.group_by("why").len()
    of = dict(zip(counts["why"].to_list(), counts["len"].to_list(), strict=True))
    return Breakdown(
        n=told.height,
        told=of.get(None, 0),
        awake=of.get(AWAKE, 0),
        untold=told.height - of.get(None, 0) - of.get(AWAKE, 0),
        shared=int((told["shared"].fill_null(0) > 0).sum()),
        intervals=list(_intervals(passage)),
        interrupted=counted(interrupted(told, tasks, vcpus).drop_nulls("what"), ("what", "comm")),
        raised_by=counted(_raisers(told, tasks), ("comm",)),
    )


def interval_name(start: str, end: str) -> str:
    """What happens between two stops, of these ways or of a packet's timestamps, in a word; the stops where one between
    them is not known.
    """
    return INTERVALS.get((start, end)) or way.interval_name(start, end)


def _intervals(passage: Passage) -> Iterator[TraceStage]:
    """Each pair of stops that follow each other on some packet's way."""
    for start, end in combinations(passage.stops, 2):
        found_ns = passage.between(start, end)
        if len(found_ns):
            row = vars(statistics(found_ns, np.arange(len(found_ns), dtype=np.uint64)))
            figures = {name: row[name] for name in ("n", "min", "mean", "p50", "p99", "max")}
            yield TraceStage(from_=start, to=end, name=interval_name(start, end), **figures)


def _raisers(told: pl.DataFrame, tasks: pl.DataFrame) -> pl.DataFrame:
    """`comm` of the threads that asked for the softirqs, those in which an interrupt's handler runs among them."""
    known = tasks.unique("pid", keep="first", maintain_order=True).select(raised_by="pid", comm="comm")
    asked = told.filter(pl.col("raised_by").is_not_null())
    return asked.select("raised_by").join(known, on="raised_by", how="left").select("comm")


def counted(rows: pl.DataFrame, names: Sequence[str]) -> list[CameTo]:
    """How many rows are alike, the most first."""
    found = rows.group_by(*names).agg(n=pl.len()).sort(["n", *names], descending=[True, *(False for _ in names)])
    return [CameTo(**one) for one in found.to_dicts()]


# Why the breakdown of a packet or an instant is incomplete: one reason for each, with a short id that stays.


EMULATED: Final = "emulated"
NOT_TRACED: Final = "vm-host-not-traced"
NO_CLOCK: Final = "no-clock"
NO_VCPU: Final = "no-vcpu"
NO_VCPU_NUMBERS: Final = "no-vcpu-numbers"
NO_VECTOR: Final = "no-vector"
NO_INJECTION: Final = "no-injection"
ENTERED_LATER: Final = "entered-later"
NO_ACCEPTANCE: Final = "no-acceptance"
NO_REQUEST: Final = "no-request"
EARLIER_TIMER: Final = "earlier-timer"
VM_HOST_EVENTS_LOST: Final = "vm-host-events-lost"

REASONS: Final = {
    AWAKE: "the thread was not asleep, so there was no wake-up",
    EVENTS_LOST: "the kernel lost events of that time",
    NO_WAKING: "the thread was asleep, but the kernel did not report its wake-up",
    "no-switch": "the kernel did not report that the thread began to run",
    "by-thread": "another thread woke it, not an interrupt or softirq",
    "softirq-by-thread": "a thread that is not an interrupt handler raised the softirq that woke it",
    "no-raise": "the kernel did not report what raised the softirq that woke it",
    "backlog": "the packet waited in a CPU's backlog: its interrupt is not known",
    "earlier-handler": "the handler that woke it had already begun, for another timer or packet",
    EMULATED: "the guest is emulated, without KVM: the stages begin at the guest's interrupt",
    NOT_TRACED: "the guest's VM host was not traced: the stages begin at the guest's interrupt",
    NO_CLOCK: "the offset of the guest's clock from its VM host's is not bounded",
    NO_VCPU: (
        "no single thread of the VM host runs this vCPU: KVM does not run it, or two guests have a vCPU of this number"
    ),
    NO_VCPU_NUMBERS: "this KVM reports the injection of the vCPU's own timer only (arm64)",
    NO_VECTOR: "KVM injected no vector before most of these handlers: the hardware may deliver it (AVIC, APICv)",
    NO_INJECTION: "no injection by KVM can be assigned to this handler alone",
    ENTERED_LATER: "KVM entered the guest after this handler had begun",
    NO_ACCEPTANCE: "the kernel did not report that the vCPU's APIC took the interrupt",
    NO_REQUEST: "the kernel did not report what raised the guest's interrupt",
    EARLIER_TIMER: "the VM host's interrupt began before the timer was due: it belongs to an earlier timer",
    VM_HOST_EVENTS_LOST: "the VM host's kernel lost events of that time",
}
"""{id: what it means}. A packet or an instant has the first that applies, from its thread back to its interrupt."""


def missing_stages(passage: Passage, told: pl.DataFrame, entry: Sequence[str | None]) -> list[str | None]:
    """The reason of each packet or instant; None: its breakdown is whole.

    told: `wakings` of them. entry: of each why the stages on a guest's VM host are not known.
    """
    run, irq = (passage.passed[:, passage.stops.index(stop)].tolist() for stop in ("run", "irq"))
    backlog = passage.passed[:, passage.stops.index("backlog")].tolist() if "backlog" in passage.stops else None
    found: list[str | None] = []
    for number, row in enumerate(told.select("why", "irq_tai_ns", "softirq_tai_ns", "raised_by").iter_rows(named=True)):
        if row["why"] or not run[number]:
            found.append(row["why"] or "no-switch")
        elif backlog and backlog[number]:
            found.append("backlog")
        elif not irq[number]:
            found.append(_no_interrupt(row))
        else:
            found.append(entry[number])
    return found


def missing_of(reasons: Iterable[str | None]) -> tuple[int, list[MissingStage]]:
    """How many breakdowns are whole, and why the others are not."""
    counts = Counter(reasons)
    whole = counts.pop(None, 0)
    ordered = sorted(((one, n) for one, n in counts.items() if one), key=lambda item: (-item[1], item[0]))
    return whole, [MissingStage(id=one, n=n, reason=REASONS[one]) for one, n in ordered]


def _no_interrupt(row: Mapping[str, int | None]) -> str:
    if row["irq_tai_ns"] is not None:
        return "earlier-handler"
    if row["softirq_tai_ns"] is None:
        return "by-thread"
    return "no-raise" if row["raised_by"] is None else "softirq-by-thread"
