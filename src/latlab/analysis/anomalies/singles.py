"""Single late packets: of the talker, of a gate that was missed, or of nothing that is known."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.found import Found, Seen, consecutive, packets
from latlab.analysis.anomalies.signals import Signals
from latlab.analysis.anomalies.stages import DRIVER, PATH, PLACES, QDISC, SOCKET, TALKER
from latlab.analysis.gates import slots_late
from latlab.analysis.promise import promise
from latlab.analysis.slots import slots_of
from latlab.analysis.words import duration

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]


def find_missed_slots(seen: Seen) -> Iterator[Found]:
    """Packets that left in a later window than their own; where only the cycle is known, whole cycles late."""
    context = seen.signals.context
    if context.port is not None and context.flow is not None:
        yield from _missed_windows(seen)
    elif context.cycle_ns:
        yield from _whole_cycles(seen, context.cycle_ns)


def _missed_windows(seen: Seen) -> Iterator[Found]:
    context, rows = seen.signals.context, seen.signals.rows
    assert context.port is not None and context.flow is not None
    slots, missed = slots_of(rows, context.port, context.flow)
    if not slots.missed:
        return
    which = np.flatnonzero(missed.to_numpy())
    which = which[seen.class_of[which] == 0]
    flow, port = context.flow, context.port
    chosen = rows[which]
    departure = chosen[f"{slots.from_}_tai_ns"].to_numpy()
    launch = chosen["launch_tai_ns"].to_numpy()
    guard = promise(port.schedule, port.mode, port.speed_bps, flow).guard_ns
    late = slots_late(
        departure, launch + flow.handover.ready_ns, port.schedule, flow.traffic_class, guard, flow.handover.early_ns
    )
    submitted = chosen["submit_tai_ns"].fill_null(0).to_numpy() - launch
    for whose in consecutive(which):
        here = np.searchsorted(which, whose)
        windows, waited = int(late[here].max()), int((departure - launch)[here].max())
        evidence = {
            "windows_late": windows,
            "waited_ns": waited,
            "submitted_after_ns": int(submitted[here].max()),
            "from": slots.from_,
        }
        text = _missed_text(len(whose), windows, waited, "window")
        yield Found("missed_slot", int(whose[0]), int(whose[-1]), whose, float(waited), evidence, text)


def _whole_cycles(seen: Seen, cycle_ns: int) -> Iterator[Found]:
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
    which, cycles, before = signals.row[late[taken]], cycles[taken], before[taken]
    for whose in consecutive(which):
        here = np.searchsorted(which, whose)
        most = int(cycles[here].max())
        evidence = {"cycles_late": most, "waited_ns": round(float(before[here].max())), "cycle_ns": cycle_ns}
        text = _missed_text(len(whose), most, float(before[here].max()), "cycle")
        yield Found("missed_slot", int(whose[0]), int(whose[-1]), whose, float(before[here].max()), evidence, text)


def _missed_text(count: int, windows: int, waited_ns: float, word: str) -> str:
    late = f"1 {word}" if windows == 1 else f"{windows} {word}s"
    whose, up_to = ("its slot", "") if count == 1 else ("their slots", "up to ")
    return f"{packets(count)} missed {whose} and left {up_to}{late} later, after {up_to}{duration(waited_ns)}"


def find_late_senders(seen: Seen) -> Iterator[Found]:
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
    limit, mostly = signals.limit_ns[late].astype(np.float64), at_talker >= share * signals.late_ns[late]
    taken = mostly & (at_talker > share * limit) & (signals.late_ns[late] > limit)
    if TALKER in signals.parts:
        talker = signals.parts[TALKER]
        elsewhere = [part.late[late] for place, part in signals.parts.items() if place != TALKER]
        taken &= ~np.any(elsewhere, axis=0)
        own = talker.late[late]
        taken |= own & (at_talker >= share * signals.late_ns[late])
        limit = np.where(own, np.minimum(limit, talker.limit_ns[late]), limit)
    which = signals.row[late]
    for whose in consecutive(which[taken]):
        here = np.searchsorted(which, whose)
        wake = float(by_stamp["wake"][here].max()) if "wake" in by_stamp else 0.0
        submit = float(by_stamp["submit"][here].max()) if "submit" in by_stamp else 0.0
        evidence = {
            "late_ns": round(float(signals.late_ns[late[here]].max())),
            "wake_ns": round(wake),
            "submit_ns": round(submit),
            "limit_ns": round(float(limit[here].max())),
        }
        what = "woke" if wake >= submit else "submitted"
        text = f"the talker {what} {duration(max(wake, submit))} later than usual for {packets(len(whose))}"
        yield Found("late_sender", int(whose[0]), int(whose[-1]), whose, max(wake, submit), evidence, text)


def late_where(signals: Signals, late: Int64) -> tuple[list[str], Int64, Float64, Float64]:
    """Where late packets [m] were late: places, and of each packet which, by how much, and from where on that is late.

    The place that was longer than its own noise makes it, by most; of a packet that is late in all only, the place with
    most of it, its whole lateness and the whole path's limit.
    """
    excess = signals.stages.by_place(signals.excess_ns(late))
    names = list(excess)
    table = np.array([excess[name] for name in names])
    most = table.argmax(axis=0)
    by, limit = signals.late_ns[late].copy(), signals.limit_ns[late].astype(np.float64)
    if signals.parts:
        own = np.array(
            [np.where(signals.parts[name].late[late], signals.parts[name].late_ns[late], 0) for name in names]
        )
        limits = np.array([signals.parts[name].limit_ns[late] for name in names])
        found = own.max(axis=0) > 0
        most = np.where(found, own.argmax(axis=0), most)
        here = np.arange(len(late))
        only = found & (by <= limit)
        by = np.where(only, own[most, here], by)
        limit = np.where(found, np.minimum(limit, limits[most, here]), limit)
    return names, most, by, limit


def find_unexplained(seen: Seen) -> Iterator[Found]:
    """Late packets that are left. Where on the way they were is told; why is not known."""
    signals = seen.signals
    late = seen.late
    if not len(late):
        return
    names, places, by, limit = late_where(signals, late)
    rows = signals.row[late]
    ends = [*(np.flatnonzero(np.diff(late) > 1) + 1).tolist(), len(late)]
    for begin, end in zip([0, *ends], ends, strict=False):
        worst = begin + int(np.argmax(by[begin:end])) if end - begin > 1 else begin
        where, most, noise = names[int(places[worst])], float(by[worst]), float(limit[worst])
        which = rows[begin:end]
        evidence = {"late_ns": round(most), "where": where, "limit_ns": round(noise)}
        up_to = "" if end - begin == 1 else "up to "
        text = (
            f"{packets(end - begin)} {up_to}{duration(most)} later than usual, in {PLACES[where]}: noise makes them "
            f"{duration(noise)} late at most"
        )
        yield Found("unexplained", int(which[0]), int(which[-1]), which, most, evidence, text)
