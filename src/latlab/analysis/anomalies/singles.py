"""Single late packets: of the talker, of a gate that was missed, or of nothing that is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.blocks import first_largest, run_starts
from latlab.analysis.anomalies.found import Claimed, Several, Told, packets
from latlab.analysis.anomalies.signals import Signals
from latlab.analysis.gate_port import slots_of
from latlab.analysis.gates import slots_late
from latlab.analysis.promise import promise
from latlab.analysis.words import duration
from latlab.model.timestamps import DRIVER, PATH, PLACES, QDISC, SOCKET, TALKER

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]


def find_missed_slots(seen: Claimed) -> Iterator[Several]:
    """Packets that left in a later window than their own; where only the cycle is known, whole cycles late."""
    context = seen.signals.context
    if context.port is not None and context.flow is not None:
        yield from _missed_windows(seen)
    elif context.cycle_ns:
        yield from _whole_cycles(seen, context.cycle_ns)


def _missed_windows(seen: Claimed) -> Iterator[Several]:
    context, rows = seen.signals.context, seen.signals.rows
    assert context.port is not None and context.flow is not None
    slots, missed = slots_of(rows, context.port, context.flow)
    if not slots.missed:
        return
    which = np.flatnonzero(missed.to_numpy())
    which = which[seen.class_of[which] == 0]
    flow, port = context.flow, context.port
    chosen = rows.select(*dict.fromkeys((f"{slots.from_}_tai_ns", "launch_tai_ns", "submit_tai_ns")))[which]
    departure = chosen[f"{slots.from_}_tai_ns"].to_numpy()
    launch = chosen["launch_tai_ns"].to_numpy()
    guard = promise(port.schedule, port.mode, port.speed_bps, flow).guard_ns
    late = slots_late(
        departure, launch + flow.handover.ready_ns, port.schedule, flow.traffic_class, guard, flow.handover.early_ns
    )
    submitted = chosen["submit_tai_ns"].fill_null(0).to_numpy() - launch
    starts = run_starts(which)
    if not len(starts):
        return
    windows, waited, after = (np.maximum.reduceat(one, starts) for one in (late, departure - launch, submitted))

    def tell(one: int) -> Told:
        evidence = {
            "windows_late": int(windows[one]),
            "waited_ns": int(waited[one]),
            "submitted_after_ns": int(after[one]),
            "from": slots.from_,
        }
        return evidence, _missed_text(int(found.sizes[one]), int(windows[one]), int(waited[one]), "window")

    found = _missed(which, starts, waited, tell)
    yield found


def _missed(which: Int64, starts: Int64, waited_ns: NDArray[Any], tell: Callable[[int], Told]) -> Several:
    nowhere_else = np.zeros(len(starts), np.int64)
    return Several("missed_slot", which, starts, waited_ns.astype(np.float64), tell, (QDISC,), nowhere_else)


def _whole_cycles(seen: Claimed, cycle_ns: int) -> Iterator[Several]:
    """Late packets that waited before they left for as long as one or more cycles, as well as noise lets one see."""
    signals = seen.signals
    late = seen.late
    if not len(late):
        return
    places = signals.stages.by_place(signals.excess_ns(late))
    before = next((places[place] for place in (QDISC, DRIVER, SOCKET, PATH) if place in places), None)
    if before is None:
        return
    cycles = np.rint(before / cycle_ns)
    tolerance = min(signals.thresholds.slot_tolerance * cycle_ns, max(6 * signals.spread_ns, 0.02 * cycle_ns))
    taken = (cycles >= 1) & (np.abs(before - cycles * cycle_ns) <= tolerance)
    which = signals.row[late[taken]]
    starts = run_starts(which)
    if not len(starts):
        return
    most, waited = (np.maximum.reduceat(one[taken], starts) for one in (cycles, before))

    def tell(one: int) -> Told:
        cycles_late, waited_ns = int(most[one]), float(waited[one])
        evidence = {"cycles_late": cycles_late, "waited_ns": round(waited_ns), "cycle_ns": cycle_ns}
        return evidence, _missed_text(int(found.sizes[one]), cycles_late, waited_ns, "cycle")

    found = _missed(which, starts, waited, tell)
    yield found


def _missed_text(count: int, windows: int, waited_ns: float, word: str) -> str:
    late = f"1 {word}" if windows == 1 else f"{windows} {word}s"
    whose, up_to = ("its slot", "") if count == 1 else ("their slots", "up to ")
    return f"{packets(count)} missed {whose} and left {up_to}{late} later, after {up_to}{duration(waited_ns)}"


def find_late_senders(seen: Claimed) -> Iterator[Several]:
    """Packets that were late, most of it before they were submitted; or later there than the talker's noise makes
    them."""
    signals, share = seen.signals, seen.signals.thresholds.sender
    late = seen.late
    if not len(late):
        return
    by_stamp = signals.excess_ns(late)
    at_talker = signals.stages.by_place(by_stamp).get(TALKER)
    if at_talker is None:
        return
    late_ns, limit = signals.late_ns[late], signals.limits_ns(late)
    mostly = at_talker >= share * late_ns
    taken = mostly & (at_talker > share * limit) & (late_ns > limit)
    if TALKER in signals.parts:
        parts = {place: part.at(late) for place, part in signals.parts.items()}
        taken &= ~np.any([part.late for place, part in parts.items() if place != TALKER], axis=0)
        own = parts[TALKER].late
        taken |= own & mostly
        limit = np.where(own, np.minimum(limit, parts[TALKER].limit_ns), limit)
    which = signals.row[late[taken]]
    starts = run_starts(which)
    if not len(starts):
        return
    nothing = np.zeros(len(which))
    woke, submitted, lateness, beyond = (
        np.maximum.reduceat(one, starts)
        for one in (
            by_stamp["wake"][taken] if "wake" in by_stamp else nothing,
            by_stamp["submit"][taken] if "submit" in by_stamp else nothing,
            late_ns[taken],
            limit[taken],
        )
    )

    def tell(one: int) -> Told:
        wake, submit = float(woke[one]), float(submitted[one])
        evidence = {
            "late_ns": round(float(lateness[one])),
            "wake_ns": round(wake),
            "submit_ns": round(submit),
            "limit_ns": round(float(beyond[one])),
        }
        what = "woke" if wake >= submit else "submitted"
        count = int(found.sizes[one])
        return evidence, f"the talker {what} {duration(max(wake, submit))} later than usual for {packets(count)}"

    nowhere_else = np.zeros(len(starts), np.int64)
    severity = np.maximum(woke, submitted)
    found = Several("late_sender", which, starts, severity, tell, (TALKER,), nowhere_else, np.rint(lateness))
    yield found


def late_where(signals: Signals, late: Int64) -> tuple[list[str], Int64, Float64, Float64]:
    """Where late packets [m] were late: places, and of each packet which, by how much, and from where on that is late.

    The place that was longer than its own noise makes it, by most; of a packet that is late in all only, the place with
    most of it, its whole lateness and the whole path's limit.
    """
    excess = signals.stages.by_place(signals.excess_ns(late))
    names = list(excess)
    table = np.array([excess[name] for name in names])
    most = table.argmax(axis=0)
    by, limit = signals.late_ns[late].copy(), signals.limits_ns(late)
    if signals.parts:
        parts = [signals.parts[name].at(late) for name in names]
        own = np.array([np.where(part.late, part.late_ns, 0) for part in parts])
        limits = np.array([part.limit_ns for part in parts])
        found = own.max(axis=0) > 0
        most = np.where(found, own.argmax(axis=0), most)
        here = np.arange(len(late))
        only = found & (by <= limit)
        by = np.where(only, own[most, here], by)
        limit = np.where(found, np.minimum(limit, limits[most, here]), limit)
    return names, most, by, limit


def find_unexplained(seen: Claimed) -> Iterator[Several]:
    """Late packets that are left. Where on the way they were late is known; why is not."""
    signals = seen.signals
    late = seen.late
    if not len(late):
        return
    names, places, by, limit = late_where(signals, late)
    starts = run_starts(late)
    worst = first_largest(by, starts)
    where, most, noise = places[worst], by[worst], limit[worst]

    def tell(one: int) -> Told:
        place, late_ns, limit_ns = names[int(where[one])], float(most[one]), float(noise[one])
        evidence = {"late_ns": round(late_ns), "where": place, "limit_ns": round(limit_ns)}
        count = int(found.sizes[one])
        text = (
            f"{packets(count)} {'' if count == 1 else 'up to '}{duration(late_ns)} later than usual, in "
            f"{PLACES[place]}: noise explains at most {duration(limit_ns)}"
        )
        return evidence, text

    found = Several("unexplained", signals.row[late], starts, most, tell, tuple(names), where)
    yield found
