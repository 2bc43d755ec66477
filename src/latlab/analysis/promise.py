"""What a gate schedule guarantees a stream: when its packets depart, how long they wait, how many have no window.

It holds for packets that are alone in their class's queue, on a port that is free, as the gates open to the
nanosecond; `Interference` is what other traffic may add, apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.frames import FrameSize
from latlab.analysis.gates import GateWindow, Int64, Lattice, Openings, Schedule

Mode = Literal["software", "txtime-assist", "offload"]
"""Who keeps the gates: taprio as it hands packets over; an etf beneath, by launch times it is given; the NIC."""


@dataclass(frozen=True)
class Launch:
    """What a stream asks of SO_TXTIME. deadline: the launch time is one. lead_ns: handed over this much before."""

    lead_ns: int
    deadline: bool = False


@dataclass(frozen=True)
class LaunchQueue:
    """The etf beneath a class's queue (tc-etf(8)). delta_ns: how long before its launch it hands a packet on."""

    delta_ns: int
    offload: bool = False
    deadline: bool = False


@dataclass(frozen=True)
class Handover:
    """How packets come to their gate.

    ready_ns: from a packet's launch to when its gate begins to matter, below zero if before. early_ns: this much
    before the instant the schedule gives it, it leaves. gated: it waits for its gate. checked: a launch time outside
    its windows has it dropped silently.
    """

    ready_ns: int = 0
    early_ns: int = 0
    gated: bool = True
    checked: bool = False

    @classmethod
    def of(cls, mode: Mode, delay_ns: int, beneath: LaunchQueue | None, launch: Launch | None) -> Handover:
        """That of a stream. delay_ns: txtime-delay, of txtime-assist. launch: None for a stream without launch times.

        Sources: taprio_enqueue_one, get_packet_txtime and taprio_dequeue in net/sched/sch_taprio.c;
        etf_dequeue_timesortedlist in net/sched/sch_etf.c: an etf hands a packet on delta before its launch; nothing
        but a NIC holds it until then.
        """
        if launch is None:
            if mode != "txtime-assist":
                return cls()
            if beneath is None or beneath.deadline:
                return cls(gated=False)
            return cls(ready_ns=delay_ns, early_ns=0 if beneath.offload else beneath.delta_ns)
        if beneath is not None and beneath.offload and not beneath.deadline:
            return cls(gated=False, checked=True)
        ahead = launch.lead_ns if beneath is None or beneath.deadline else beneath.delta_ns
        if mode == "txtime-assist":  # its root hands on what the etf does, whatever the gates are
            return cls(early_ns=ahead, gated=False, checked=True)
        return cls(ready_ns=-ahead, checked=True)


@dataclass(frozen=True)
class GatedStream:
    """A stream as the schedule meets it: packet n is launched at start + offset + n × period.

    start is a multiple of the cycle in TAI: as a cycle begins, shift_ns before that where the schedule has one.
    """

    name: str
    traffic_class: int
    offset_ns: int
    period_ns: int
    frame: FrameSize
    handover: Handover = Handover()


@dataclass(frozen=True)
class Share:
    """How many of the phases at which a stream's packets are launched leave in a window of its class."""

    window: GateWindow
    phases: int


@dataclass(frozen=True)
class Promise:
    """What the schedule guarantees a stream that is alone. All durations in ns.

    phases: how many different phases its launches have; step_ns: how far apart they are. dropped: how many of these
    phases no packet survives, launched outside its windows. earliest_ns, latest_ns: departure after launch, below
    zero if before; None if no packet ever departs. least_wait_ns, worst_wait_ns: at the gate alone. frame_ns: from
    first to last bit. guard_ns: in this time before a window's end its packets do not start any more. windows: those
    of its class, and which phases leave in each (none of a stream whose launch times decide).
    """

    stream: str
    traffic_class: int
    frame: FrameSize
    frame_ns: int
    guard_ns: int
    phases: int
    step_ns: int
    dropped: int
    earliest_ns: int | None
    latest_ns: int | None
    least_wait_ns: int | None
    worst_wait_ns: int | None
    windows: tuple[Share, ...]

    @property
    def departs(self) -> bool:
        """True if any packet does."""
        return self.latest_ns is not None


def lattice_of(schedule: Schedule, flow: GatedStream) -> Lattice:
    """The phases at which the flow's packets are launched."""
    return Lattice.of(schedule.launch_phase(flow.offset_ns), flow.period_ns, schedule.cycle_ns)


def openings_of(schedule: Schedule, mode: Mode, flow: GatedStream, speed_bps: int) -> tuple[Openings, Openings]:
    """When the flow's packets may start: at the earliest, and at the latest, where kernels differ.

    A NIC, and a kernel from 6.3 on in software, hold a packet back if it would not end before its class's gate closes
    (802.1Q 8.6.8.4; commit a1e6ad30fa19, "calculate guard band against actual TC gate close time"). txtime-assist,
    and older kernels, look no further than the entry of the schedule, though the class be open in the next one too.
    """
    kernel_ns = flow.frame.kernel_ns(speed_bps)
    guard_ns = flow.frame.guard_ns(speed_bps)
    windows = schedule.windows(flow.traffic_class)
    entries = schedule.entry_windows(flow.traffic_class)
    if mode == "offload":
        whole = Openings.of(schedule.cycle_ns, windows, flow.frame.serialisation_ns(speed_bps))
        return whole, whole
    earliest = entries if mode == "txtime-assist" else windows
    return Openings.of(schedule.cycle_ns, earliest, kernel_ns), Openings.of(schedule.cycle_ns, entries, guard_ns)


def promise(schedule: Schedule, mode: Mode, speed_bps: int, flow: GatedStream) -> Promise:
    """The schedule's bounds for the flow, over every phase its launches can have; exact, without walking through them.

    The wait is a sawtooth over the phase: it jumps up where a window has no room any more, falls to 0 at the next
    one's start and stays there. So of the phases that come about only those next to these edges can be extremes.
    """
    early, late = openings_of(schedule, mode, flow, speed_bps)
    lattice = lattice_of(schedule, flow)
    windows = schedule.windows(flow.traffic_class)
    accepted = accepted_launches(schedule, flow, speed_bps)
    phases = schedule.cycle_ns // lattice.step_ns
    survivors = phases if accepted is None else int(lattice.count(*accepted).sum())
    handover = flow.handover
    waits = (
        _waits(schedule, lattice, accepted, handover.ready_ns, early, late) if survivors and (late or early) else None
    )
    if not handover.gated and survivors:
        waits = 0, 0
    settled = handover.ready_ns - handover.early_ns
    guard = flow.frame.serialisation_ns(speed_bps) if mode == "offload" else flow.frame.guard_ns(speed_bps)
    shares = (
        _shares(schedule, lattice, windows, handover.ready_ns, guard) if handover.gated and not handover.checked else ()
    )
    return Promise(
        stream=flow.name,
        traffic_class=flow.traffic_class,
        frame=flow.frame,
        frame_ns=flow.frame.serialisation_ns(speed_bps),
        guard_ns=guard,
        phases=phases,
        step_ns=lattice.step_ns,
        dropped=phases - survivors,
        earliest_ns=None if waits is None else settled + waits[0],
        latest_ns=None if waits is None else settled + waits[1],
        least_wait_ns=None if waits is None else waits[0],
        worst_wait_ns=None if waits is None else waits[1],
        windows=shares,
    )


def accepted_launches(schedule: Schedule, flow: GatedStream, speed_bps: int) -> tuple[Int64, Int64] | None:
    """The first and last phases at which a launch time is taken, window by window; None if any is.

    taprio takes one that is after its entry's start and whose packet ends before its entry does: neither at that
    instant itself (find_entry_to_transmit in net/sched/sch_taprio.c).
    """
    if not flow.handover.checked:
        return None
    entries = schedule.entry_windows(flow.traffic_class)
    taken_ns = flow.frame.kernel_ns(speed_bps)
    starts = np.array([one.start_ns for one in entries], dtype=np.int64)
    lengths = np.array([one.length_ns for one in entries], dtype=np.int64)
    return starts + 1, starts + lengths - taken_ns - 1


def survive(accepted: tuple[Int64, Int64] | None, phases: Int64) -> NDArray[np.bool_]:
    """Which of the launches at these phases are taken. accepted: see `accepted_launches`."""
    if accepted is None:
        return np.ones(phases.shape, dtype=np.bool_)
    first, last = (ends[:, np.newaxis] for ends in accepted)
    taken: NDArray[np.bool_] = np.any((first <= phases) & (phases <= last), axis=0)
    return taken


def _waits(
    schedule: Schedule,
    lattice: Lattice,
    accepted: tuple[Int64, Int64] | None,
    ready_ns: int,
    early: Openings,
    late: Openings,
) -> tuple[int, int] | None:
    """The least and the largest wait of the packets that are not dropped; None if none ever departs."""
    edges = [np.array([0, schedule.cycle_ns - 1], dtype=np.int64)]
    for openings in (early, late):
        edges += [openings.start_ns - ready_ns, openings.last_ns - ready_ns, openings.last_ns + 1 - ready_ns]
    edges += list(accepted or ())
    all_edges = np.mod(np.concatenate(edges), schedule.cycle_ns)
    launches = np.mod(
        np.concatenate([lattice.at_or_after(all_edges), lattice.at_or_before(all_edges)]), schedule.cycle_ns
    )
    launches = launches[survive(accepted, launches)]
    ready = launches + ready_ns
    if not late:
        return None
    return int((early.departs(ready) - ready).min()), int((late.departs(ready) - ready).max())


def _shares(
    schedule: Schedule, lattice: Lattice, windows: tuple[GateWindow, ...], ready_ns: int, guard_ns: int
) -> tuple[Share, ...]:
    """How many phases leave in each window, by when they are over: those after the window before, until its own end."""
    openings = Openings.of(schedule.cycle_ns, windows, guard_ns)
    if openings.always:
        return (Share(windows[0], schedule.cycle_ns // lattice.step_ns),)
    if not openings:
        return tuple(Share(window, 0) for window in windows)
    before = np.roll(openings.last_ns, 1)
    before[0] -= schedule.cycle_ns
    counted = dict(
        zip(
            openings.start_ns.tolist(),
            lattice.count(before + 1 - ready_ns, openings.last_ns - ready_ns).tolist(),
            strict=True,
        )
    )
    return tuple(Share(window, counted.get(window.start_ns, 0)) for window in windows)
