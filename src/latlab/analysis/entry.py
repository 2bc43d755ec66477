"""How an interrupt came into a guest: when it was asked for on the VM host, taken, injected, and the guest entered.

The VM host's tracepoints show it in four steps (virt/kvm, arch/x86/kvm): somebody asks for an MSI or a line
(`kvm_msi_set_irq`, `kvm_set_irq`), the vCPU's APIC takes it as a vector (`kvm_apic_accept_irq`), KVM injects that
vector while the guest is left (`kvm_inj_virq`), and the guest is entered (`kvm_entry`). The guest's own trace shows
when the handler of an interrupt began, and on which CPU: there the guest's number of it is joined with a vector.

What the VM host's kernel lost meanwhile may have been the step that was looked for: nothing is reported then.

Each step is joined with the next by what both name, the vector, the vCPU, or the thread that made both; none by time
alone. Where the machine delivers interrupts without KVM's help (AVIC, APICv) none is injected, and nothing is reported.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.interrupt_way import ENTRY_WAY, WAY_IN, Passage
from latlab.analysis.interrupts import ACCEPT, ENTRY, GSI, INJECT, MSI, lost_between
from latlab.analysis.missing_stages import (
    ENTERED_LATER,
    NO_ACCEPTANCE,
    NO_INJECTION,
    NO_VCPU,
    NO_VCPU_NUMBERS,
    NO_VECTOR,
    VM_HOST_EVENTS_LOST,
)

_VECTOR: Final = 0xFF
"""Of an MSI's data (Intel SDM 3A, 11.11.2; AMD's manual 24593, 16.11 the same)."""
_UNKNOWN: Final = -1

Instants = NDArray[np.int64]
_Places = NDArray[np.intp]


@dataclass(frozen=True)
class Events:
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
    def of(cls, trace: pl.DataFrame, *events: int) -> Events:
        """Those of these kinds."""
        found = trace.filter(pl.col("event").is_in(events)).sort("tai_ns", maintain_order=True)
        filled = found.with_columns(pl.col("subject", "detail").fill_null(_UNKNOWN))
        return cls(**{one.name: filled[one.name].to_numpy() for one in fields(cls)})

    def where(self, chosen: NDArray[np.bool_]) -> Events:
        """Those of them."""
        return Events(**{one.name: getattr(self, one.name)[chosen] for one in fields(self)})


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
    entered, injected = Events.of(trace, ENTRY), Events.of(trace, INJECT)
    unnumbered = len(entered.subject) > 0 and bool((entered.subject == _UNKNOWN).all())
    why = np.full(len(at_ns), NO_VCPU_NUMBERS if unnumbered else NO_VCPU, object)
    accepted, asked = Events.of(trace, ACCEPT), Events.of(trace, MSI, GSI)
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


def _vector(until_ns: Instants, injected: Events) -> int | None:
    """The vector that was injected last before most of these instants; None where that is not one and the same for more
    than half of them.
    """
    last = np.searchsorted(injected.tai_ns, until_ns, side="right") - 1
    vectors, counts = np.unique(injected.subject[last[last >= 0]], return_counts=True)
    if not len(vectors) or 2 * counts.max() <= len(until_ns):
        return None
    return int(vectors[np.argmax(counts)])


def _ways(
    until_ns: Instants, entered: Events, injected: Events, accepted: Events, asked: Events, vector: int
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


def _asked(accepted: Events, accept: _Places, asked: Events, vector: int) -> Instants:
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
