"""How far a guest's clock is ahead of its VM host's, by the traces of both.

A guest's kernel records an event only while a vCPU runs its guest: between `kvm_entry` and `kvm_exit` of the VM host's
trace (arch/x86/kvm). So every event of the guest bounds the offset of the two clocks, from both sides. Thousands of
events leave an interval of about the shortest time between an entry and an event of the guest.

Where to look is found by the interrupts: KVM enters a guest with each one that it injects, and the guest's handler
begins a nearly constant time later. The offset that most pairs of an entry and a handler have is near the true one.
It is taken only if every event of the guest then is where its vCPU ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.entry import Instants, KernelEvents
from latlab.analysis.interrupts import ACCEPT, ENTRY, EXIT, INJECT, IRQ_ENTRY, TIMER_ENTRY

_FEWEST: Final = 20
"""With fewer events of a guest nothing is concluded."""
_HANDLERS: Final = 200
"""So many handlers, one after the other, are compared with every entry with an interrupt."""
_PAIRS: Final = 8_000_000
"""No more pairs than that at once."""
_REACH_NS: Final = 60_000_000_000
"""The clocks are taken to differ by less: TAI − UTC is 37 s, which may be missing in one of them."""
_ALIKE_NS: Final = 2_000
"""Offsets of two pairs that differ by less are alike."""
_ABOUT_NS: Final = 50_000
"""The true offset lies so near to the one that most pairs have."""
_CANDIDATES: Final = 50
"""With more offsets of which each may be it nothing is concluded."""
_PIECE_NS: Final = 500_000_000
"""Where the clocks drift, each interval of this length is bounded separately."""
_NONE: Final = (1, 0)
"""No offset at all."""


@dataclass(frozen=True)
class GuestClock:
    """The guest's clock − the VM host's: between lower_ns and upper_ns from begins_ns on, by the guest's clock; int64
    [k], k ≥ 1. until_ns: the guest's last event that bounds it.
    """

    begins_ns: Instants
    lower_ns: Instants
    upper_ns: Instants
    until_ns: int

    def ahead(self, at_ns: Instants) -> tuple[Instants, Instants, NDArray[np.bool_]]:
        """At instants of the guest's clock, int64 [n]: the offset, within which ±, and where it is known."""
        place = np.clip(np.searchsorted(self.begins_ns, at_ns, side="right") - 1, 0, None)
        lower, upper = self.lower_ns[place], self.upper_ns[place]
        known = (lower <= upper) & (at_ns >= self.begins_ns[0]) & (at_ns <= self.until_ns)
        middle = lower + (upper - lower) // 2
        return np.where(known, middle, 0), np.where(known, upper - middle, 0), known


@dataclass(frozen=True)
class _Vcpu:
    """at_ns: the guest's events on it, ascending, by the guest's clock; handlers_ns: of these where handlers begin.
    enters_ns, leaves_ns: when it ran its guest, by the VM host's; injects_ns: the entries with an interrupt.
    """

    at_ns: Instants
    handlers_ns: Instants
    enters_ns: Instants
    leaves_ns: Instants
    injects_ns: Instants


def guest_clock(
    trace: pl.DataFrame, entries: pl.DataFrame, within_ns: tuple[int, int] | None = None, *, injects: bool = True
) -> GuestClock | None:
    """The offset by the guest's trace and the VM host's; None: too few events, or not one offset that they allow.

    within_ns: (least, most) that it may be by what else is known of it. injects: whether KVM reports what it injects;
    if not, what a vCPU has taken comes with the next entry (analysis/arm_host.py).
    """
    vcpus = list(_vcpus(trace, entries, INJECT if injects else ACCEPT))
    if sum(len(one.at_ns) for one in vcpus) < _FEWEST:
        return None
    found = [clock for about in _candidates(vcpus, within_ns) if (clock := _at(vcpus, about))]
    # Two that lie near to each other may find the same.
    return found[0] if found and all(_meet(found[0], other) for other in found[1:]) else None


def _meet(one: GuestClock, other: GuestClock) -> bool:
    """Whether some offset is in both."""
    ends = [
        (each.lower_ns[bounded].min(), each.upper_ns[bounded].max())
        for each in (one, other)
        if (bounded := each.lower_ns <= each.upper_ns).any()
    ]
    return bool(max(lower for lower, _ in ends) <= min(upper for _, upper in ends))


def _at(vcpus: Sequence[_Vcpu], about: int) -> GuestClock | None:
    """The offset near to this one; None where no event, or no offset near to it, allows one."""
    inside = [_within(one, about) for one in vcpus]
    at_ns = np.sort(np.concatenate([one.at_ns for one in inside]))
    if len(at_ns) < _FEWEST:
        return None
    whole = _bounds(inside, about)
    if whole:
        return GuestClock(at_ns[:1], np.array([whole[0]]), np.array([whole[1]]), int(at_ns[-1]))
    begins = np.arange(at_ns[0], at_ns[-1] + 1, _PIECE_NS)
    pieces = [_bounds([_piece(one, int(begin)) for one in inside], about) or _NONE for begin in begins]
    if 2 * pieces.count(_NONE) > len(pieces):
        return None
    lower, upper = (np.array(ends, np.int64) for ends in zip(*pieces, strict=True))
    return GuestClock(begins, lower, upper, int(at_ns[-1]))


def _vcpus(trace: pl.DataFrame, entries: pl.DataFrame, injection: int) -> Sequence[_Vcpu]:
    """Those that one thread of the VM host runs, and that the guest reports. injection: what is in the next entry."""
    turns, injected = KernelEvents.of(entries, ENTRY, EXIT), KernelEvents.of(entries, injection)
    found = []
    for cpu in trace["cpu"].unique().sort().to_list():
        threads = np.unique(turns.pid[(turns.event == ENTRY) & (turns.subject == cpu)])
        if len(threads) != 1:
            continue
        own = turns.where(turns.pid == threads[0])
        turn = np.flatnonzero((own.event[:-1] == ENTRY) & (own.event[1:] == EXIT))
        enters_ns, leaves_ns = own.tai_ns[turn], own.tai_ns[turn + 1]
        entry = np.searchsorted(enters_ns, injected.tai_ns[injected.pid == threads[0]])
        if len(turn):
            of_cpu = trace.filter(pl.col("cpu") == cpu).sort("tai_ns")
            begun = of_cpu.filter(pl.col("event").is_in([IRQ_ENTRY, TIMER_ENTRY]))
            injects_ns = enters_ns[np.unique(entry[entry < len(enters_ns)])]
            at_ns, handlers_ns = (rows["tai_ns"].to_numpy() for rows in (of_cpu, begun))
            found.append(_Vcpu(at_ns, handlers_ns, enters_ns, leaves_ns, injects_ns))
    return found


def _candidates(vcpus: Sequence[_Vcpu], within_ns: tuple[int, int] | None) -> list[int]:
    """The offsets, ns, that most pairs of an entry with an interrupt and a handler have, or at least half as many.

    None where there are too many of them, as where nothing but a timer of one period interrupts the guest.
    """
    offsets_ns = []
    for one in vcpus:
        middle = len(one.handlers_ns) // 2
        about_ns = one.handlers_ns[middle] if len(one.handlers_ns) else 0
        near = one.injects_ns[np.abs(one.injects_ns - about_ns) < _REACH_NS]
        if len(near):
            half = max(min(_HANDLERS, _PAIRS // len(near)) // 2, 1)
            some_ns = one.handlers_ns[max(middle - half, 0) : middle + half]
            offsets_ns.append((some_ns[:, None] - near[None, :]).ravel())
    every_ns = np.concatenate([np.empty(0, np.int64), *offsets_ns])
    if within_ns:
        # The pairs' offsets are longer by what KVM's entry and the guest's own take.
        every_ns = every_ns[(every_ns >= within_ns[0] - _ABOUT_NS) & (every_ns <= within_ns[1] + _ABOUT_NS)]
    if not len(every_ns):
        return []
    alike, counts = np.unique(every_ns // _ALIKE_NS, return_counts=True)
    found: list[int] = []
    for place in np.argsort(-counts, kind="stable").tolist():
        if 2 * counts[place] < counts.max() or len(found) > _CANDIDATES:
            break
        offset = int(alike[place]) * _ALIKE_NS
        if all(abs(offset - other) > _ABOUT_NS for other in found):
            found.append(offset)
    return found if len(found) <= _CANDIDATES else []


def _within(one: _Vcpu, about: int) -> _Vcpu:
    """It with those of the guest's events alone that are of the time that the VM host reports."""
    begin, end = one.enters_ns[0] + about + 2 * _ABOUT_NS, one.leaves_ns[-1] + about - 2 * _ABOUT_NS
    return _cut(one, int(begin), int(end))


def _piece(one: _Vcpu, begin: int) -> _Vcpu:
    return _cut(one, begin, begin + _PIECE_NS)


def _cut(one: _Vcpu, begin: int, end: int) -> _Vcpu:
    chosen = one.at_ns[slice(*np.searchsorted(one.at_ns, (begin, end)))]
    return _Vcpu(chosen, one.handlers_ns, one.enters_ns, one.leaves_ns, one.injects_ns)


def _bounds(vcpus: Sequence[_Vcpu], about: int) -> tuple[int, int] | None:
    """(lower, upper): the offsets with which every event of the guest is where its vCPU ran; None: there are none.

    Each event allows an interval of offsets for each of its vCPU's turns near to it. Where as many intervals lie over
    each other as there are events, all of them allow it.
    """
    ends: list[Instants] = []
    steps: list[NDArray[np.int64]] = []
    for one in vcpus:
        at_host = one.at_ns - about
        first = np.searchsorted(one.leaves_ns, at_host - _ABOUT_NS)
        count = np.maximum(np.searchsorted(one.enters_ns, at_host + _ABOUT_NS, side="right") - first, 0)
        event = np.repeat(np.arange(len(at_host)), count)
        turn = np.arange(len(event)) + np.repeat(first - np.cumsum(count) + count, count)
        lower = np.maximum(one.at_ns[event] - one.leaves_ns[turn], about - _ABOUT_NS)
        upper = np.minimum(one.at_ns[event] - one.enters_ns[turn], about + _ABOUT_NS)
        ends += [lower, upper]
        steps += [np.ones(len(lower), np.int64), -np.ones(len(upper), np.int64)]
    n = sum(len(one.at_ns) for one in vcpus)
    if not n:
        return None
    at, step = np.concatenate(ends), np.concatenate(steps)
    order = np.lexsort((-step, at))
    all_allow = np.flatnonzero(np.cumsum(step[order]) == n)
    if not len(all_allow):
        return None
    # From the first such interval to the last: the true one is in one of them.
    return int(at[order[all_allow[0]]]), int(at[order[all_allow[-1] + 1]])
