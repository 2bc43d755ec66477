"""What is said of packets, or instants of a timer, of which it was traced how they woke their thread: their way from
the interrupt to it, typical ones against the latest, and what was interrupted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import compress, pairwise
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis import arm_host
from latlab.analysis.chain import WORST_TOLD, Places, Ways, chain_of
from latlab.analysis.entry import HostWays, guest_states, host_ways, interrupt_entries, with_entries
from latlab.analysis.guest_clock import guest_clock
from latlab.analysis.interrupt_way import (
    EARLIER_TIMER,
    ENTRY_WAY,
    HOST_WAY,
    NO_CLOCK,
    NO_REQUEST,
    NO_VCPU_NUMBERS,
    WAY_IN,
    Passage,
    breakdown,
    counted,
    interrupted,
    missing_of,
    missing_stages,
    packets_passage,
    timers_passage,
)
from latlab.analysis.interrupts import ENTRY, handler_threads
from latlab.analysis.way import ONE_CLOCK, TWO_HOSTS, Split
from latlab.result.types import Breakdown, CameTo, Chain, Entry

RECEPTION: Final = "reception"
"""The name of these values among those that have a chain: from the first stop that is known to the application."""

_UNKNOWN: Final = -1
ADVANCE_NS: Final = 5000
"""So early at most KVM sets the VM host's timer for a guest's: LAPIC_TIMER_ADVANCE_NS_MAX (arch/x86/kvm/lapic.c)."""
_TASKS: Final = {"pid": pl.Int32, "comm": pl.String, "kernel": pl.Boolean}


Instants = NDArray[np.int64]


@dataclass(frozen=True)
class VmHost:
    """What the trace of a guest's VM host has. trace, tasks: as recorded there.

    ahead: at instants of the guest's clock, int64 [n], by how much it is ahead of the VM host's, within which ±, both
    int64 [n], and bool [n] where anything bounds it.
    """

    trace: pl.DataFrame
    ahead: Callable[[Instants], tuple[Instants, Instants, NDArray[np.bool_]]]
    tasks: pl.DataFrame | None = None


def receptions(
    received: pl.DataFrame,
    trace: pl.DataFrame,
    tasks: pl.DataFrame,
    thread: int,
    vm_host: VmHost | None = None,
    not_entered: str | None = None,
) -> dict[int, Breakdown]:
    """{stream: its breakdown}, of all that have packets.

    received: `stream`, `sequence`, `rx_soft_tai_ns` and `rx_user_tai_ns` of what the thread received, in that order, by
    the CLOCK_TAI of the trace's host; `counted`, whether it is past the warm-up. A packet without `rx_soft_tai_ns` is
    left out, as nothing says when it came. The thread's wakings are found of all packets together, as one may have been
    for packets of several streams. vm_host: of a guest whose VM host was traced; its breakdowns have `entry`.
    not_entered: of another guest, why its VM host's trace has nothing (`REASONS`).
    """
    timed = received.filter(pl.col("rx_soft_tai_ns").is_not_null())
    passage, told = packets_passage(timed, trace, thread, tasks)
    entered = _Entered.nothing(timed.height, not_entered)
    if vm_host:
        passage, entered = _entered(passage, told, trace, vm_host)
    return _breakdowns(timed, passage, told, tasks, entered, is_entered=vm_host is not None)


def timer_wakings(
    instants: pl.DataFrame,
    trace: pl.DataFrame,
    tasks: pl.DataFrame,
    thread: int,
    vm_host: VmHost | None = None,
    not_entered: str | None = None,
) -> dict[int, Breakdown]:
    """As `receptions`, of a timer's instants.

    instants: `stream`, `sequence`, `wake_due_tai_ns` and `wake_tai_ns` in their order, by the CLOCK_TAI of the trace's
    host, without those that were overdue; `counted`, whether it is past the warm-up.
    """
    passage, told = timers_passage(instants, trace, thread)
    entered = _Entered.nothing(instants.height, not_entered)
    if vm_host:
        due_ns = instants["wake_due_tai_ns"].to_numpy()
        passage, entered = _entered(passage, told, trace, vm_host, due_ns)
    return _breakdowns(instants, passage, told, tasks, entered, is_entered=vm_host is not None)


def _breakdowns(
    waits: pl.DataFrame,
    passage: Passage,
    told: pl.DataFrame,
    tasks: pl.DataFrame,
    entered: _Entered,
    *,
    is_entered: bool,
) -> dict[int, Breakdown]:
    """waits: `stream`, `sequence` and `counted` of each row of the others. is_entered: of a guest whose VM host was
    traced.
    """
    vcpus = _vcpus(tasks)
    whom = interrupted(told, tasks, vcpus).with_columns(vcpu=pl.Series(entered.states, dtype=pl.String))
    missing = missing_stages(passage, told, entered.missing)
    found = {}
    for stream in waits.filter("counted")["stream"].unique().sort().to_list():
        rows = waits.select((pl.col("stream") == stream) & pl.col("counted")).to_series()
        of_stream, own = passage.of(rows.to_numpy()), told.filter(rows)
        sequence = waits["sequence"].filter(rows).to_numpy()
        whole, why = missing_of(compress(missing, rows))
        more = {"whole": whole, "missing": why, "chain": _chain(of_stream, sequence, whom.filter(rows))}
        more |= {"entry": entered.of(rows.to_numpy()).summed_up()} if is_entered else {}
        found[stream] = breakdown(of_stream, own, tasks, vcpus).model_copy(update=more)
    return found


@dataclass(frozen=True)
class _Entered:
    """Of each packet by how much its interrupt's times on the path into the guest may be off by the clocks, ± ns, int64
    [n], −1 where they are unknown; what the vCPU was at, as `guest_states`; why a stage of it is unknown (one of
    `REASONS`); and what the VM host's interrupt interrupted: `what` and `comm`.
    """

    half_ns: Instants
    states: list[str | None]
    missing: list[str | None]
    whom: pl.DataFrame

    @classmethod
    def nothing(cls, n: int, why: str | None) -> _Entered:
        """Nothing is known of any of them, for this reason."""
        whom = pl.DataFrame({"what": [None] * n, "comm": [None] * n}, schema={"what": pl.String, "comm": pl.String})
        return cls(np.full(n, _UNKNOWN, np.int64), [None] * n, [why] * n, whom)

    def of(self, chosen: NDArray[np.bool_]) -> _Entered:
        """Those of them."""
        states, missing = (list(compress(of, chosen)) for of in (self.states, self.missing))
        return _Entered(self.half_ns[chosen], states, missing, self.whom.filter(pl.Series(chosen)))

    def summed_up(self) -> Entry:
        """For how many it is known, ± of the clocks at most, what the vCPU was at, and what the VM host's interrupt
        interrupted, the most first.
        """
        told = self.half_ns[self.half_ns >= 0]
        counts = Counter(state for state in self.states if state)
        ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
        return Entry(
            told=len(told),
            uncertainty_ns=int(told.max()) if len(told) else None,
            interrupted=[CameTo(what=what, n=n) for what, n in ordered],
            ran=counted(self.whom.drop_nulls("what"), ("what", "comm")),
        )


def _entered(
    passage: Passage, told: pl.DataFrame, trace: pl.DataFrame, vm_host: VmHost, due_ns: Instants | None = None
) -> tuple[Passage, _Entered]:
    """The way with how the interrupts came into the guest, and what else is known of that.

    due_ns: of a vCPU's own timer, whose interrupt no thread requests, when each instant was due, by the guest's clock.
    """
    asked = due_ns is None
    as_on_x86 = None if vm_host.tasks is None else arm_host.as_on_x86(vm_host.trace, vm_host.tasks)
    if as_on_x86 is not None:
        if asked:
            return passage, _Entered.nothing(told.height, NO_VCPU_NUMBERS)
        vm_host = replace(vm_host, trace=as_on_x86)
    at_ns = told["irq_tai_ns"].fill_null(0).to_numpy()
    injects = as_on_x86 is None
    ahead_ns, half_ns, known = _ahead(at_ns, trace, vm_host, injects=injects)
    rows = np.flatnonzero(known & told["irq_tai_ns"].is_not_null().to_numpy())
    irq, cpu = (told[name].cast(pl.Int64).fill_null(_UNKNOWN).to_numpy()[rows] for name in ("irq", "irq_cpu"))
    found, why = interrupt_entries((at_ns - ahead_ns)[rows], half_ns[rows], irq, cpu, vm_host.trace, injects=injects)
    if not asked:
        found[:, ENTRY_WAY.index("asked")] = _UNKNOWN
    asked_ns, accepted_ns = found[:, ENTRY_WAY.index("asked")], found[:, ENTRY_WAY.index("accepted")]
    nobody = np.full(len(found), _UNKNOWN, np.int64)
    handlers = None if vm_host.tasks is None else handler_threads(vm_host.tasks)
    ways = host_ways(asked_ns, nobody if asked else accepted_ns, vm_host.trace, handlers)
    found = np.column_stack((ways.at_ns, found))
    entries = np.full((told.height, len(WAY_IN)), _UNKNOWN, np.int64)
    entries[rows] = np.where(found >= 0, found + ahead_ns[rows, None], _UNKNOWN)
    early: NDArray[np.bool_] = np.zeros(told.height, bool)
    if due_ns is not None:
        too_early = (entries >= 0) & (entries < (due_ns - half_ns - ADVANCE_NS)[:, None])
        early = np.asarray(too_early.any(axis=1))
        # The last such stop and all before it are of another timer, and so is a thread that its interrupt woke.
        last = np.maximum(len(WAY_IN) - 1 - np.argmax(too_early[:, ::-1], axis=1), len(HOST_WAY) - 1)
        entries[early[:, None] & (np.arange(len(WAY_IN)) <= last[:, None])] = _UNKNOWN
    # Once it is injected the guest has been left for it.
    states: list[str | None] = [None] * told.height
    for row, state in zip(
        rows.tolist(), guest_states(np.where(asked_ns >= 0, asked_ns, accepted_ns), cpu, vm_host.trace), strict=True
    ):
        states[row] = state
    is_told = (entries >= 0).any(axis=1)
    missing: list[str | None] = [NO_CLOCK] * told.height
    for row, reason, ask in zip(rows.tolist(), why, asked_ns.tolist(), strict=True):
        missing[row] = reason or (NO_REQUEST if asked and ask < 0 else EARLIER_TIMER if early[row] else None)
    entered = _Entered(np.where(is_told, half_ns, _UNKNOWN), states, missing, _ran(ways, rows, told.height, vm_host))
    return with_entries(passage, entries), entered


def _ahead(
    at_ns: Instants, trace: pl.DataFrame, vm_host: VmHost, *, injects: bool
) -> tuple[Instants, Instants, NDArray[np.bool_]]:
    """As `VmHost.ahead`: by what compared the clocks, or by the two traces where these bound it better."""
    compared = vm_host.ahead(at_ns)
    estimate_ns, off_ns, bounded = compared
    least_ns, most_ns = ((estimate_ns + sign * off_ns)[bounded] for sign in (-1, 1))
    within_ns = (int(least_ns.min()), int(most_ns.max())) if bounded.any() else None
    clock = guest_clock(trace, vm_host.trace, within_ns, injects=injects)
    if clock is None:
        return compared
    traced = clock.ahead(at_ns)
    better = traced[2] & (~compared[2] | (traced[1] < compared[1]))
    ahead_ns, half_ns, known = (np.where(better, a, b) for a, b in zip(traced, compared, strict=True))
    return ahead_ns, half_ns, known


def _ran(ways: HostWays, rows: NDArray[np.intp], n: int, vm_host: VmHost) -> pl.DataFrame:
    """`what` and `comm` of what the VM host's interrupt interrupted, of each of n; null where that is unknown."""
    whom = {"interrupted": ways.interrupted, "interrupted_flags": ways.flags}
    placed = pl.DataFrame({name: np.full(n, _UNKNOWN, np.int64) for name in whom}).with_columns(
        pl.Series(name, _placed(values, rows, n)).replace(_UNKNOWN, None) for name, values in whom.items()
    )
    tasks = vm_host.tasks if vm_host.tasks is not None else pl.DataFrame(schema=_TASKS)
    own = vm_host.trace.filter(pl.col("event") == ENTRY)["pid"].unique().to_list()
    others = [thread for thread in _vcpus(tasks) if thread not in own]
    return interrupted(placed, tasks, own, others)


def _placed(values: NDArray[np.int64], rows: NDArray[np.intp], n: int) -> NDArray[np.int64]:
    found = np.full(n, _UNKNOWN, np.int64)
    found[rows] = values
    return found


def _vcpus(tasks: pl.DataFrame) -> list[int]:
    """Threads that are vCPUs, by the names that QEMU gives them (accel/*, `CPU n/KVM`)."""
    return tasks.filter(pl.col("comm").str.contains(r"^CPU \d+/(KVM|TCG)$"))["pid"].to_list()


def _chain(passage: Passage, sequence: NDArray[np.uint64], whom: pl.DataFrame) -> Chain | None:
    """Where the time went, of the packets whose first known stop is that of most, so that their values are of one kind;
    as `chain.chain_of_metric` has it, and with what was interrupted for each of the latest.
    """
    if not len(sequence):
        return None
    first = np.argmax(passage.passed, axis=1)
    alike = first == np.argmax(np.bincount(first))
    shown, numbers = passage.of(alike), sequence[alike]
    stops = shown.stops
    ways = Ways(
        metric=RECEPTION,
        from_=stops[int(first[alike][0])],
        to=stops[-1],
        sequence=numbers,
        value_ns=shown.whole_ns,
        split_at=lambda places: _split(shown, places),
    )
    found = chain_of(ways)
    assert found is not None and found.worst is not None
    known = whom.filter(pl.Series(alike))
    each = [
        one.model_copy(update={"interrupted": _whom(known, int(np.argmax(numbers == one.sequence)))})
        for one in found.worst.each[:WORST_TOLD]
    ]
    clocks = [TWO_HOSTS if (a in WAY_IN) != (b in WAY_IN) else ONE_CLOCK for a, b in pairwise(found.stops)]
    left_out = len(sequence) - len(numbers)
    worst = found.worst.model_copy(update={"each": each})
    return found.model_copy(update={"clocks": clocks, "left_out": left_out, "worst": worst})


def _whom(known: pl.DataFrame, place: int) -> CameTo | None:
    found = known.row(place, named=True)
    return (
        CameTo(**{name: value for name, value in found.items() if name != "vcpu" or value}) if found["what"] else None
    )


def _split(passage: Passage, places: Places) -> Split:
    return Split(passage.stops, passage.passed[places], np.diff(passage.at_ns[places], axis=1))
