"""How an interrupt came into a guest: how the VM host sent it on, when the guest was entered, what it came to there.

The VM host's tracepoints show it in four steps (virt/kvm, arch/x86/kvm): somebody asks for an MSI or a line
(`kvm_msi_set_irq`, `kvm_set_irq`), the vCPU's APIC takes it as a vector (`kvm_apic_accept_irq`), KVM injects that
vector while the guest is left (`kvm_inj_virq`), and the guest is entered (`kvm_entry`). The guest's own trace shows
when the handler of an interrupt began, and on which CPU: there the guest's number of it is joined with a vector.

What the VM host's kernel lost meanwhile may have been the step that was looked for: nothing is reported then.

Each step is joined with the next by what both name, the vector, the vCPU, or the thread that made both; none by time
alone. Where the machine delivers interrupts without KVM's help (AVIC, APICv) none is injected, and nothing is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.interrupt_way import (
    ENTERED_LATER,
    ENTRY_WAY,
    HOST_WAY,
    NO_ACCEPTANCE,
    NO_INJECTION,
    NO_VCPU,
    NO_VCPU_NUMBERS,
    NO_VECTOR,
    VM_HOST_EVENTS_LOST,
    WAY_IN,
    Passage,
)
from latlab.analysis.interrupts import ACCEPT, ENTRY, EXIT, GSI, INJECT, MSI, TIMER_ENTRY, WAKING, lost_between, wakings

_VECTOR: Final = 0xFF
"""Of an MSI's data (Intel SDM 3A, 11.11.2; AMD's manual 24593, 16.11 the same)."""
_UNKNOWN: Final = -1

Instants = NDArray[np.int64]
_Places = NDArray[np.intp]


@dataclass(frozen=True)
class KernelEvents:
    """Events in the order of time: when, which, by which thread, on which CPU, of what, and what more of it; −1 where
    the kernel does not report it.
    """

    tai_ns: Instants
    event: NDArray[np.uint8]
    pid: NDArray[np.int32]
    cpu: NDArray[np.uint16]
    subject: NDArray[np.int64]
    detail: NDArray[np.int64]

    @classmethod
    def of(cls, trace: pl.DataFrame, *events: int) -> KernelEvents:
        """Those of these kinds."""
        found = trace.filter(pl.col("event").is_in(events)).sort("tai_ns", maintain_order=True)
        filled = found.with_columns(pl.col("subject", "detail").fill_null(_UNKNOWN))
        return cls(**{one.name: filled[one.name].to_numpy() for one in fields(cls)})

    def where(self, chosen: NDArray[np.bool_]) -> KernelEvents:
        """Those of them."""
        return KernelEvents(**{one.name: getattr(self, one.name)[chosen] for one in fields(self)})


def interrupt_entries(
    at_ns: Instants,
    slack_ns: Instants,
    irq: NDArray[np.int64],
    vcpu: NDArray[np.int64],
    trace: pl.DataFrame,
    *,
    injects: bool = True,
) -> tuple[NDArray[np.int64], list[str | None]]:
    """int64 [n, 4]: when each interrupt was asked for, taken, injected, and its guest entered, by the CLOCK_TAI of the
    trace; −1 where that is unknown. And why it is unknown whether it was taken, or what follows (`REASONS`); else None.

    at_ns: when its handler began in the guest, by that clock, to ±slack_ns. irq: its number in the guest; vcpu: the CPU
    there, which KVM calls by the same number. All int64 [n]. trace: the VM host's. injects: whether KVM reports what it
    injects; if not, what a vCPU has taken comes with the next entry, and only the commonest interrupt is followed.
    """
    found = np.full((len(at_ns), len(ENTRY_WAY)), _UNKNOWN, np.int64)
    entered, injected = KernelEvents.of(trace, ENTRY), KernelEvents.of(trace, INJECT)
    unnumbered = len(entered.subject) > 0 and bool((entered.subject == _UNKNOWN).all())
    why = np.full(len(at_ns), NO_VCPU_NUMBERS if unnumbered else NO_VCPU, object)
    accepted, asked = KernelEvents.of(trace, ACCEPT), KernelEvents.of(trace, MSI, GSI)
    followed = np.unique(irq) if injects else _commonest(irq)
    for cpu in np.unique(vcpu).tolist():
        own = entered.where(entered.subject == cpu)
        threads = np.unique(own.pid)
        if len(threads) != 1:
            continue  # not run by KVM, or several guests have a vCPU of that number
        why[vcpu == cpu] = NO_VECTOR if injects else NO_VCPU_NUMBERS
        taken = accepted.where(accepted.detail == cpu)
        here = injected.where(injected.pid == threads[0]) if injects else taken
        for number in np.intersect1d(irq[vcpu == cpu], followed).tolist():
            rows = np.flatnonzero((vcpu == cpu) & (irq == number))
            # Packets of one batch have one interrupt.
            instants, first, back = np.unique(at_ns[rows], return_index=True, return_inverse=True)
            until_ns = instants + slack_ns[rows][first]
            vector = _vector(until_ns, here)
            if vector is not None:
                of_vector = here.where(here.subject == vector), taken.where(taken.subject == vector)
                ways, of_ways = _ways(until_ns, own, *of_vector, asked, vector)
                found[rows], why[rows] = ways[back], of_ways[back]
    first_ns = np.where(found >= 0, found, np.iinfo(np.int64).max).min(axis=1)
    lost = lost_between(trace, first_ns, at_ns + slack_ns)
    found[lost], why[lost] = _UNKNOWN, VM_HOST_EVENTS_LOST
    if not injects:
        found[:, ENTRY_WAY.index("injected")] = _UNKNOWN
    return found, why.tolist()


def _commonest(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The value that most have; none where there are no values."""
    found, counts = np.unique(values, return_counts=True)
    return found[np.argmax(counts)][None] if len(found) else found


def _vector(until_ns: Instants, injected: KernelEvents) -> int | None:
    """The vector that was injected last before most of these instants; None where that is not one and the same for more
    than half of them.
    """
    last = np.searchsorted(injected.tai_ns, until_ns, side="right") - 1
    vectors, counts = np.unique(injected.subject[last[last >= 0]], return_counts=True)
    if not len(vectors) or 2 * counts.max() <= len(until_ns):
        return None
    return int(vectors[np.argmax(counts)])


def _ways(
    until_ns: Instants,
    entered: KernelEvents,
    injected: KernelEvents,
    accepted: KernelEvents,
    asked: KernelEvents,
    vector: int,
) -> tuple[NDArray[np.int64], NDArray[np.object_]]:
    """As `interrupt_entries`, of one interrupt of one vCPU, whose handlers had begun by these instants, ascending;
    injected and accepted are of its vector alone.
    """
    inject = _latest(injected.tai_ns, until_ns)
    # Each is one interrupt's: of two handlers after one injection the first is it.
    inject[1:][np.diff(inject) == 0] = -1
    why = np.where(inject < 0, NO_INJECTION, ENTERED_LATER)
    inject_ns = _at(injected.tai_ns, inject)
    entry = np.searchsorted(entered.tai_ns, inject_ns)
    entry_ns = _at(entered.tai_ns, np.where((inject >= 0) & (entry < len(entered.tai_ns)), entry, -1))
    # The guest was entered after its handler had begun: that was another one.
    wrong = (entry_ns < 0) | (entry_ns > until_ns)
    inject_ns, entry_ns = np.where(wrong, _UNKNOWN, inject_ns), np.where(wrong, _UNKNOWN, entry_ns)
    accept = np.where(wrong, -1, _latest(accepted.tai_ns, inject_ns))
    accept_ns = _at(accepted.tai_ns, accept)
    # What was taken before the injection before had been injected then; one that no entry followed was taken back.
    entries = np.searchsorted(entered.tai_ns, injected.tai_ns)
    earlier = np.searchsorted(entries, entries[np.where(inject >= 0, inject, 0)]) - 1 if len(entries) else inject
    earlier_ns = _at(injected.tai_ns, np.where(inject >= 0, earlier, -1))
    accept_ns = np.where(accept_ns > earlier_ns, accept_ns, _UNKNOWN)
    ask_ns = _asked(accepted, np.where(accept_ns < 0, -1, accept), asked, vector)
    reasons = np.where(wrong, why, NO_ACCEPTANCE).astype(object)
    reasons[~wrong & (accept_ns >= 0)] = None
    return np.column_stack((ask_ns, accept_ns, inject_ns, entry_ns)), reasons


def _asked(accepted: KernelEvents, accept: _Places, asked: KernelEvents, vector: int) -> Instants:
    """When what the APIC took had been asked for: by the same thread, on the same CPU, as the last thing it asked."""
    found = np.full(len(accept), _UNKNOWN, np.int64)
    # What vector a line has is the I/O APIC's to say.
    fits = (asked.event == GSI) | ((asked.detail & _VECTOR) == vector)
    for row, place in enumerate(accept.tolist()):
        if place < 0:
            continue
        last = int(np.searchsorted(asked.tai_ns, accepted.tai_ns[place], side="right")) - 1
        while last >= 0 and (asked.pid[last], asked.cpu[last]) != (accepted.pid[place], accepted.cpu[place]):
            last -= 1
        if last >= 0 and fits[last]:
            found[row] = asked.tai_ns[last]
    return found


def _latest(at_ns: Instants, until_ns: Instants) -> _Places:
    """Of ascending instants for each of the others the last that is not after it; −1: there is none."""
    return np.searchsorted(at_ns, until_ns, side="right") - 1


def _at(at_ns: Instants, places: _Places) -> Instants:
    """The instants at these places, −1 where the place is −1."""
    there = places >= 0
    found = at_ns[np.where(there, places, 0)] if len(at_ns) else np.zeros(len(places), np.int64)
    return np.where(there, found, _UNKNOWN)


def with_entries(passage: Passage, entries: NDArray[np.int64]) -> Passage:
    """The way of packets or instants in a guest with how their interrupts came into it: before their handlers.

    entries: int64 [n, 8], of each stop of `WAY_IN`, by the guest's clock, −1 where that is unknown.
    """
    place = passage.stops.index("irq")
    passed = np.column_stack((passage.passed[:, :place], entries >= 0, passage.passed[:, place:]))
    # Of a stop that is not known there is the one before it, or the first that is.
    at_ns = np.column_stack((passage.at_ns[:, :place], entries, passage.at_ns[:, place:]))
    first = at_ns[np.arange(len(at_ns)), np.argmax(passed, axis=1)] if len(at_ns) else at_ns[:, 0]
    latest_ns = first
    for number in range(at_ns.shape[1]):
        latest_ns = np.where(passed[:, number], at_ns[:, number], latest_ns)
        at_ns[:, number] = latest_ns
    return Passage((*passage.stops[:place], *WAY_IN, *passage.stops[place:]), passed, at_ns)


# What an interrupt into a guest interrupted: a program in it, its kernel, the hypervisor, or an idle vCPU.
#
# The VM host's tracepoints show when a vCPU enters its guest and when, why and where it leaves it (`kvm_entry`,
# `kvm_exit`, arch/x86/kvm). A vCPU that was in its guest as the interrupt was asked for is made to leave it, and leaves
# it where it was interrupted: in the upper half of the addresses, which is the kernel's (Linux,
# Documentation/arch/x86/x86_64/mm.rst), or in the lower one. One that had left it was idle if it left it to halt; if
# for anything else, KVM or QEMU was at work for it, or it waited for a CPU of the host's.


GUEST_USER: Final = "guest user"
GUEST_KERNEL: Final = "guest kernel"
HYPERVISOR: Final = "hypervisor"
GUEST_IDLE: Final = "guest idle"

_HALTED: Final = (12, 0x78)
"""Exit reasons: EXIT_REASON_HLT of Intel, SVM_EXIT_HLT of AMD (arch/x86/include/uapi/asm). Each is none of the other's
that KVM lets a guest of its own leave by: 0x78 is beyond Intel's last, and 12 would be a read of AMD's CR12.
"""


def guest_states(at_ns: Instants, vcpu: NDArray[np.int64], trace: pl.DataFrame) -> list[str | None]:
    """What each vCPU was at: GUEST_USER, GUEST_KERNEL, HYPERVISOR, GUEST_IDLE; None where that is unknown.

    at_ns: when the interrupt was asked for or taken, by the CLOCK_TAI of the VM host's trace, −1 if unknown.
    vcpu: KVM's number of it. Both int64 [n].
    """
    found: list[str | None] = [None] * len(at_ns)
    turns = KernelEvents.of(trace, ENTRY, EXIT)
    for number in np.unique(vcpu).tolist():
        threads = np.unique(turns.pid[(turns.event == ENTRY) & (turns.subject == number)])
        if len(threads) != 1:
            continue  # not run by KVM, or several guests have a vCPU of that number
        own = turns.where(turns.pid == threads[0])
        rows = np.flatnonzero((vcpu == number) & (at_ns >= 0))
        before = np.searchsorted(own.tai_ns, at_ns[rows], side="right") - 1
        # Between its first turn that is known and its last one.
        there = (before >= 0) & (before + 1 < len(own.tai_ns))
        rows, before = rows[there], before[there]
        lost = lost_between(trace, own.tai_ns[before], own.tai_ns[before + 1])
        for row, place in zip(rows[~lost].tolist(), before[~lost].tolist(), strict=True):
            found[row] = _state(own, place)
    return found


def _state(own: KernelEvents, place: int) -> str | None:
    """What a vCPU was at from one of its turns on until the next."""
    if own.event[place] == EXIT:
        if own.subject[place] == _UNKNOWN:
            return None
        return GUEST_IDLE if own.subject[place] in _HALTED else HYPERVISOR
    left = place + 1
    if own.event[left] != EXIT or own.detail[left] == _UNKNOWN:
        return None
    return GUEST_KERNEL if own.detail[left] < 0 else GUEST_USER


# How an interrupt got to the VM host's thread that forwards it into a guest: from the VM host's own interrupt on.
#
# Of a packet that is the thread which asked for the guest's interrupt: vhost's, or QEMU's. Of a vCPU's own timer it is
# the vCPU's, which takes the interrupt itself. It had gone to sleep, and the VM host's tracepoints show how it was
# woken, as those of any host show it of who receives there (analysis/interrupts.py).
#
# A thread that had sent another interrupt on since it was woken, or had run its guest, was not woken for this one; nor
# one that the guest itself had woken, as it does to send: nothing is reported then.


_TOLD: Final = tuple(f"{stop.removeprefix('host_')}_tai_ns" for stop in HOST_WAY)
"""What `wakings` calls them."""
_WHOM: Final = ("interrupted", "interrupted_flags")


@dataclass(frozen=True)
class HostWays:
    """at_ns: int64 [n, 4], when the interrupt's handler and its softirq began on the VM host, and when the thread that
    sent the guest's interrupt on was woken and ran, by the CLOCK_TAI of the trace. interrupted, flags: int64 [n], the
    thread that this handler interrupted, and the state of the CPU. −1 where that is unknown.
    """

    at_ns: NDArray[np.int64]
    interrupted: NDArray[np.int64]
    flags: NDArray[np.int64]


def host_ways(
    asked_ns: Instants, accepted_ns: Instants, trace: pl.DataFrame, handlers: Mapping[int, int] | None = None
) -> HostWays:
    """How each of a guest's interrupts got to the thread of the VM host that forwarded it.

    asked_ns, accepted_ns: when the guest's interrupt was asked for and taken, int64 [n], −1 if it was not asked for, or
    is unknown. trace: the VM host's. handlers: its `handler_threads`.
    """
    at_ns = np.where(asked_ns >= 0, asked_ns, accepted_ns)
    sent, taken, entered = (
        KernelEvents.of(trace, MSI, GSI),
        KernelEvents.of(trace, ACCEPT),
        KernelEvents.of(trace, ENTRY),
    )
    threads = np.where(asked_ns >= 0, _threads(asked_ns, sent), _threads(accepted_ns, taken))
    found = np.full((len(at_ns), len(HOST_WAY)), _UNKNOWN, np.int64)
    whom = np.full((len(at_ns), len(_WHOM)), _UNKNOWN, np.int64)
    woken = KernelEvents.of(trace, WAKING)
    for thread in np.unique(threads[threads >= 0]).tolist():
        own = woken.where(woken.subject == thread)
        deeds = np.sort(np.concatenate([events.tai_ns[events.pid == thread] for events in (sent, taken, entered)]))
        rows = np.flatnonzero(threads == thread)
        last = np.searchsorted(own.tai_ns, at_ns[rows], side="right") - 1
        rows, last = rows[last >= 0], last[last >= 0]
        from_ns, to_ns = own.tai_ns[last], at_ns[rows]
        first = np.searchsorted(deeds, from_ns) == np.searchsorted(deeds, to_ns)
        rows, last = rows[first], last[first]
        waits = pl.DataFrame({"from_tai_ns": from_ns[first], "to_tai_ns": to_ns[first]})
        every = wakings(waits, trace, thread, handlers).select(
            pl.col(*_TOLD, *_WHOM).cast(pl.Int64).fill_null(_UNKNOWN)
        )
        told = every.select(_TOLD).to_numpy()
        # In no interrupt and no softirq, by a vCPU: the guest's own kick.
        kicked = np.isin(own.pid[last], entered.pid) & (told[:, :2] < 0).all(axis=1)
        found[rows] = np.where(kicked[:, None], _UNKNOWN, told)
        whom[rows] = np.where(kicked[:, None], _UNKNOWN, every.select(_WHOM).to_numpy())
    _own_timers(found, whom, threads, np.where(asked_ns < 0, accepted_ns, _UNKNOWN), trace)
    return HostWays(found, *whom.T)


def _own_timers(
    found: NDArray[np.int64],
    whom: NDArray[np.int64],
    threads: NDArray[np.int64],
    accepted_ns: Instants,
    trace: pl.DataFrame,
) -> None:
    """Put into found and whom the VM host's timer interrupt that made a vCPU leave its guest, which then took its own.

    It is the only one that interrupted the vCPU's thread since it had last entered its guest. accepted_ns: of guests'
    timers; −1 elsewhere.
    """
    turns = KernelEvents.of(trace, ENTRY, TIMER_ENTRY)
    rows = np.flatnonzero((found < 0).all(axis=1) & (accepted_ns >= 0) & (threads >= 0))
    for thread in np.unique(threads[rows]).tolist():
        own = turns.where(turns.pid == thread)
        timers = np.flatnonzero(own.event == TIMER_ENTRY)
        of_thread = rows[threads[rows] == thread]
        last = np.searchsorted(own.tai_ns, accepted_ns[of_thread], side="right") - 1
        alone = (last >= 1) & np.isin(last, timers) & ~np.isin(last - 1, timers)
        found[of_thread[alone], 0] = own.tai_ns[last[alone]]
        whom[of_thread[alone], 0] = thread
        whom[of_thread[alone], 1] = 0


def _threads(at_ns: Instants, events: KernelEvents) -> NDArray[np.int64]:
    """Whose each of these events is, by its instant; −1 where it is none's, or two have the same."""
    begin, end = (np.searchsorted(events.tai_ns, at_ns, side=side) for side in ("left", "right"))
    alone = end == begin + 1
    pids = events.pid[np.where(alone, begin, 0)].astype(np.int64) if len(events.pid) else np.full(len(at_ns), -1)
    return np.where(alone, pids, _UNKNOWN)
