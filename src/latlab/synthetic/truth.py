"""The anomaly of each packet of a synthetic run, and whether it can be told from its noise at all.

The rule of what is plain. For what happens to single packets (`packet_limit_ns`): four times as far out as one packet
in ten thousand lies by noise alone. For what moves all of them (`level_limit_ns`): the noise's own spread, or eight
times the scatter of its medians over a second where that is more; for what lasts for a second or less
(`shift_limit_ns`) twice the spread, or eight times the scatter of medians over 50 ms. All come from the same run
without its ingredients.
What was done to a packet and is less than that may be found or not: it is `excused`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.classes import CODE
from latlab.analysis.gates import slots_late
from latlab.model.units import SECOND_NS
from latlab.synthetic.clocks import drift_ns, step_ns, swing_ns
from latlab.synthetic.description import (
    Description,
    Drift,
    Ingredient,
    LateWakes,
    Losses,
    MissedSlots,
    Oscillation,
    PathChange,
    Periodic,
    PeriodicStalls,
    Spikes,
    Stall,
    Step,
    Swing,
    Throttling,
    WarmUp,
)
from latlab.synthetic.way import GUARD_NS, Int64, Way, path_change, schedule_of
from latlab.synthetic.way import UNTOUCHED as NOBODY

Codes = NDArray[np.uint8]

PACKET_FACTOR: Final = 4.0
PACKET_QUANTILE: Final = 1 - 1e-4
PACKET_LEAST_NS: Final = 4_000
LATTICE_STEPS: Final = 4
LATTICE_LEVEL: Final = 2
LEVEL_FACTOR: Final = 8.0
LEVEL_WINDOW_NS: Final = SECOND_NS
LEVEL_LEAST_NS: Final = 2_000
SHIFT_FACTOR: Final = 2.0
SHIFT_WINDOW_NS: Final = 50_000_000
SHIFT_PACKETS: Final = 16
SHIFT_LONGEST_NS: Final = SECOND_NS
AFFECTED: Final = 0.25
"""Of the limit: what is less was hardly touched, and what is between this and 1 may be found or not."""
UNTOUCHED: Final = 0.05
HELD: Final = 0.1
"""Of a period: who waited so long for the one ahead of it came at once with it, and plainly not in its own time."""
BURST_LEAST: Final = 3
"""Packets lost one after the other that are a burst."""
BURST_CHANCE: Final = 1e-3
"""A burst is plain where single losses make fewer like it than this."""
REPEATS_LEAST: Final = 5
"""Times that something must come to be called periodic; throttling, whose period is known, THROTTLED_LEAST."""
THROTTLED_LEAST: Final = 3
WARM_UP_LEAST: Final = 5
"""Packets that are plainly late at the beginning, to be a warm-up."""

_SINGLE = ("stall", "throttled", "missed_slot", "late_sender", "periodic", "unexplained")
"""Classes of single packets: of what was done to one and is not plain, any of them may be said."""
_ALONE = ("late_sender", "periodic", "unexplained")
BESIDE: Final = 2
"""So many packets that arrived on either side."""


@dataclass(frozen=True)
class TrueEpisode:
    """What happened from one packet to another, both included. packets: plainly. where: as far as timestamps show."""

    class_: str
    from_sequence: int
    to_sequence: int
    packets: int
    size_ns: int
    where: str = ""


@dataclass
class Truth:
    """Per packet, and in episodes, what is the matter.

    class_of uint8 [packets]: codes of `classes.CODE`, 0 for nothing. excused uint32 [packets]: bit c is set where the
    class with code c may be said, or not. periods: (class of what is periodic, period in ns).
    """

    class_of: Codes
    excused: NDArray[np.uint32]
    packet_limit_ns: int
    level_limit_ns: int
    shift_limit_ns: int
    episodes: list[TrueEpisode] = field(default_factory=list)
    periods: list[tuple[str, int]] = field(default_factory=list)


def limits(description: Description, clean: Way) -> tuple[int, int, int]:
    """packet_limit_ns, level_limit_ns and shift_limit_ns, from the run without its ingredients."""
    total = clean.total_ns[description.warmup :]
    middle, far = np.quantile(total, [0.5, PACKET_QUANTILE])
    packet = max(PACKET_FACTOR * (far - middle), PACKET_LEAST_NS)
    path = (clean.arrive - clean.dequeued)[description.warmup :]
    low, high = np.quantile(path, [0.16, 0.84])
    seconds = _scatter(path, max(20, LEVEL_WINDOW_NS // description.period_ns))
    moments = _scatter(path, max(SHIFT_PACKETS, SHIFT_WINDOW_NS // description.period_ns))
    level = max((high - low) / 2, LEVEL_FACTOR * seconds, LEVEL_LEAST_NS)
    shift = max(SHIFT_FACTOR * (high - low) / 2, LEVEL_FACTOR * moments, LEVEL_LEAST_NS)
    lattice = description.noise.lattice_ns
    steps = LATTICE_STEPS * lattice, LATTICE_LEVEL * lattice, LATTICE_STEPS * lattice
    packet_limit, level_limit, shift_limit = (max(pair) for pair in zip((packet, level, shift), steps, strict=True))
    return int(packet_limit), int(level_limit), int(shift_limit)


def _scatter(values: Int64, per: int) -> float:
    """That of the medians of so many values each, as a standard deviation."""
    per = min(per, max(1, len(values) // 4))
    medians = np.median(values[: len(values) // per * per].reshape(-1, per), axis=1)
    return float(1.4826 * np.median(np.abs(medians - np.median(medians))))


def find_truth(description: Description, way: Way, clean: Way, lost: NDArray[np.bool_]) -> Truth:
    """The truth of a run: `way` with its ingredients, `clean` without. lost: bool [packets]."""
    packet_limit, level_limit, shift_limit = limits(description, clean)
    n = description.packets
    truth = Truth(np.zeros(n, np.uint8), np.zeros(n, np.uint32), packet_limit, level_limit, shift_limit)
    _held_by_noise(truth, description, clean)
    _levels(truth, description, way)
    _warm_ups(truth, description, way, clean)
    _single_packets(truth, description, way, clean, lost)
    _missed(truth, description, way, lost)
    _reordered(truth, way, lost)
    _either(truth, lost)
    truth.class_of[lost] = 0
    _loss_bursts(truth, description, lost)
    truth.class_of[: description.warmup] = 0
    truth.excused[: description.warmup] = 0
    return truth


def _excuse(truth: Truth, where: NDArray[np.bool_] | Int64, *names: str) -> None:
    for name in names:
        truth.excused[where] |= np.uint32(1 << CODE[name])


def _say(truth: Truth, where: Int64, name: str) -> None:
    truth.class_of[where] = CODE[name]
    truth.excused[where] = 0


def _episode(truth: Truth, whose: Int64, name: str, size_ns: int, where: str = "") -> None:
    truth.episodes.append(TrueEpisode(name, int(whose[0]), int(whose[-1]), len(whose), size_ns, where))


def runs_of(positions: Int64) -> Iterator[Int64]:
    """Ascending numbers, cut where one is left out."""
    if len(positions):
        yield from np.split(positions, np.flatnonzero(np.diff(positions) > 1) + 1)


def _levels(truth: Truth, description: Description, way: Way) -> None:
    """Clock swings, drifts and steps, and changes of the path. A clock that no record reports cannot be found."""
    since = way.arrive - description.start_tai_ns
    for one in description.ingredients:
        if isinstance(one, Swing):
            _level(truth, description, swing_ns(one, since), _recorded(description, one, "clock_swing"))
        elif isinstance(one, PathChange):
            limit = truth.shift_limit_ns if one.length_ns <= SHIFT_LONGEST_NS else truth.level_limit_ns
            _level(truth, description, path_change(one, since), "path_change", limit=limit)
        elif isinstance(one, Step):
            name = _recorded(description, one, "clock_step")
            _level(truth, description, _from_majority(step_ns(one, since)), name)
        elif isinstance(one, Oscillation):
            plain = one.pk_pk_ns >= 2 * truth.level_limit_ns
            whole = np.full(len(since), truth.level_limit_ns if plain else 1, np.int64)
            _level(truth, description, whole, "oscillation", one.pk_pk_ns)
        elif isinstance(one, Drift):
            drift = drift_ns(one, since)
            plain = abs(int(drift[-1] - drift[0])) >= 2 * truth.level_limit_ns
            whole = np.full(len(drift), truth.level_limit_ns if plain else 1, np.int64)
            name = "clock_swing" if one.compared else "drift"
            _level(truth, description, whole, name, int(drift[-1] - drift[0]))


def _recorded(description: Description, one: Swing | Step | Drift, name: str) -> str:
    """The class: the clock's where PTP or our own comparison reports it, else clock or path is not known."""
    by_ptp = description.ptp and isinstance(one, Swing | Step) and one.ptp
    read = isinstance(one, Step) and one.read
    return name if by_ptp or one.compared or read else "unexplained"


def _from_majority(offset: Int64) -> Int64:
    """The offset from the level that most packets have: which of two levels was right is not known."""
    return offset if np.count_nonzero(offset) * 2 <= len(offset) else offset - offset[np.flatnonzero(offset)[0]]


def _level(
    truth: Truth,
    description: Description,
    offset: Int64,
    name: str,
    size_ns: int | None = None,
    limit: int | None = None,
) -> None:
    touched = np.flatnonzero(offset != 0)
    touched = touched[touched >= description.warmup]
    if not len(touched):
        return
    plain = touched[np.abs(offset[touched]) >= (truth.level_limit_ns if limit is None else limit)]
    # For events that are not clear it is not known whether they were sudden.
    either = ("clock_step", "clock_swing", "unexplained", "oscillation", "drift")
    _excuse(truth, touched, *({name} if len(plain) or name == "path_change" else either))
    if len(plain):
        _say(truth, plain, name)
        _episode(truth, plain, name, int(np.abs(offset).max()) if size_ns is None else size_ns, "path")


def _warm_ups(truth: Truth, description: Description, way: Way, clean: Way) -> None:
    for one in description.ingredients:
        if not isinstance(one, WarmUp):
            continue
        since = np.maximum(way.launch - way.launch[description.warmup], 0)
        level = one.extra_ns * np.exp(-since / one.decay_ns)
        touched = np.flatnonzero(level >= UNTOUCHED * truth.level_limit_ns)
        _excuse(truth, touched, "warm_up", *_SINGLE)
        plain = np.flatnonzero(level >= truth.level_limit_ns)
        plain = plain[plain >= description.warmup]
        late = np.count_nonzero((way.total_ns - clean.total_ns)[plain] >= truth.packet_limit_ns)
        if late >= WARM_UP_LEAST and len(touched) <= description.packets // 4:
            _say(truth, plain, "warm_up")
            _episode(truth, plain, "warm_up", one.extra_ns, one.where)
            # Where a packet took longer than a period it held up the next ones: that may be called a stall as well.
            close = np.diff(way.rx_user) < description.period_ns // 2
            crowd = np.union1d(np.flatnonzero(close), np.flatnonzero(close) + 1)
            crowd = np.intersect1d(crowd, plain)
            truth.class_of[crowd] = 0
            _excuse(truth, crowd, "warm_up", *_SINGLE)


def _single_packets(truth: Truth, description: Description, way: Way, clean: Way, lost: NDArray[np.bool_]) -> None:
    """What was done to single packets, and to those behind them."""
    extra = way.total_ns - clean.total_ns
    label = _with_those_behind(way, way.waited_ns - clean.waited_ns >= UNTOUCHED * truth.packet_limit_ns)
    counted = ~lost
    counted[: description.warmup] = False
    position = np.cumsum(counted) - 1
    for number, one in enumerate(description.ingredients):
        if not isinstance(one, Stall | PeriodicStalls | Throttling | Spikes | Periodic | LateWakes):
            continue
        touched = np.flatnonzero((label == number) & counted)
        _excuse(truth, touched[extra[touched] > UNTOUCHED * truth.packet_limit_ns], *_SINGLE)
        affected = touched[extra[touched] >= AFFECTED * truth.packet_limit_ns]
        found: list[tuple[str, Int64]] = []
        for places in runs_of(position[affected]):
            whose = affected[np.searchsorted(position[affected], places)]
            plain = whose[extra[whose] >= truth.packet_limit_ns]
            if len(plain) >= 2:
                found.append(("stall", plain))
            elif len(plain) == 1 and len(whose) == 1:
                found.append((_alone(one), plain))
        _tell(truth, description, one, found, extra)


def _with_those_behind(way: Way, waited: NDArray[np.bool_]) -> NDArray[np.int16]:
    """The labels, int16 [packets]; who waited for those ahead to pass, and no more, has the label of the one ahead.

    What a hold lets go passes drain_ns apart: packets that are launched meanwhile stand behind, though nothing was
    done to them. waited: bool [packets].
    """
    behind = (way.label == NOBODY) & waited
    behind[:1] = False
    whose = np.maximum.accumulate(np.where(behind, 0, np.arange(len(behind))))
    labels: NDArray[np.int16] = way.label[whose]
    return labels


def _held_by_noise(truth: Truth, description: Description, clean: Way) -> None:
    """Where noise alone made a packet later than a period, it held those behind it: that may be called a stall."""
    held = np.flatnonzero(clean.waited_ns >= HELD * description.period_ns)
    _excuse(truth, np.union1d(held, np.maximum(held - 1, 0)), "stall")


def _alone(one: Ingredient) -> str:
    where = "talker" if isinstance(one, LateWakes) else getattr(one, "where", "path")
    if where == "talker":
        return "late_sender"
    return "periodic" if isinstance(one, Periodic) else "unexplained"


def _tell(
    truth: Truth, description: Description, one: Ingredient, found: list[tuple[str, Int64]], extra: Int64
) -> None:
    """Write down what one ingredient did; what is periodic only if it came often enough."""
    names = [name for name, _ in found]
    if isinstance(one, Throttling) and names.count("stall") >= THROTTLED_LEAST:
        found = [("throttled" if name == "stall" else name, whose) for name, whose in found]
    if isinstance(one, Periodic | PeriodicStalls):
        every = (
            one.every_ns
            if isinstance(one, PeriodicStalls) or one.every_ns
            else one.every_packets * description.period_ns
        )
        # Of two that came as often, the first by name: a set has no order.
        most = max(sorted(set(names)), key=names.count, default="")
        times = description.packets * description.period_ns / every
        if names.count(most) >= max(REPEATS_LEAST, 0.8 * times - 1):
            truth.periods.append((most, every))
        else:
            found = [("" if name == "periodic" else name, whose) for name, whose in found]
    where = "talker" if isinstance(one, LateWakes) else getattr(one, "where", "path")
    if where == "kernel" and not description.hardware:
        where = "path"
    for name, whose in found:
        if name:
            _say(truth, whose, name)
            _episode(truth, whose, name, int(extra[whose].max()), where)


def _missed(truth: Truth, description: Description, way: Way, lost: NDArray[np.bool_]) -> None:
    """Packets that left in a later window than their own; held ones are stalled anyway."""
    if description.gates is None:
        return
    late = slots_late(way.dequeued, way.launch, schedule_of(description.gates), 0, GUARD_NS) > 0
    late[: description.warmup] = False
    held = np.isin(truth.class_of, [CODE["stall"], CODE["throttled"]])
    numbers = [n for n, one in enumerate(description.ingredients) if isinstance(one, MissedSlots)]
    by_ingredient = np.isin(way.label, numbers)
    if description.gates.schedule_known:
        missed = np.flatnonzero(late & ~held)
        behind = np.flatnonzero(by_ingredient & ~late)
    else:
        missed, behind = np.flatnonzero(late & by_ingredient & ~held), np.flatnonzero(late | by_ingredient)
        if description.gates.cycle_ns < truth.packet_limit_ns:
            missed = missed[:0]
    _excuse(truth, behind, *_SINGLE)
    # Those that hold others up, and the others, came at once: a stall, as far as it is plain.
    crowded = np.flatnonzero(np.diff(way.dequeued) < description.period_ns // 2)
    crowd = np.union1d(crowded, crowded + 1)
    crowd = crowd[by_ingredient[crowd]]
    _excuse(truth, crowd, *_SINGLE)
    missed = np.setdiff1d(missed, crowd)
    for whose in runs_of(missed[~lost[missed]]):
        _say(truth, whose, "missed_slot")
        _episode(truth, whose, "missed_slot", int((way.dequeued - way.launch)[whose].max()), "qdisc")


def _reordered(truth: Truth, way: Way, lost: NDArray[np.bool_]) -> None:
    """RFC 4737 §3.3: smaller than one that arrived before."""
    order = way.arrival_order[~lost[way.arrival_order]]
    behind = np.sort(order[order < np.maximum.accumulate(order)]) if len(order) else order
    for whose in runs_of(behind):
        _say(truth, whose, "reorder")
        _episode(truth, whose, "reorder", 0, "path")


def _either(truth: Truth, lost: NDArray[np.bool_]) -> None:
    """Where two things happen close together either may be found: of one or two packets right next to another episode.

    And of single packets within a slow beginning, which belong to it whatever made them later still.
    """
    single = np.isin(truth.class_of, [CODE[name] for name in _SINGLE])
    arrived = np.flatnonzero(~lost)
    whose = np.full(len(lost), -1, np.int64)
    for number, one in enumerate(truth.episodes):
        if one.class_ in (*_SINGLE, "reorder"):
            whose[one.from_sequence : one.to_sequence + 1] = number
    near = whose[arrived]
    for number, one in enumerate(truth.episodes):
        if one.class_ not in _SINGLE or one.packets > 2:
            continue
        first, last = np.searchsorted(arrived, [one.from_sequence, one.to_sequence])
        around = near[max(0, first - BESIDE) : last + BESIDE + 1]
        if ((around >= 0) & (around != number)).any():
            here = np.arange(one.from_sequence, one.to_sequence + 1)
            here = here[single[here]]
            truth.class_of[here] = 0
            _excuse(truth, here, "warm_up", *_SINGLE)
    for one in truth.episodes:
        if one.class_ == "warm_up":
            here = np.arange(one.from_sequence, one.to_sequence + 1)
            here = here[np.isin(truth.class_of[here], [CODE[name] for name in _ALONE])]
            truth.class_of[here] = 0
            _excuse(truth, here, "warm_up", *_SINGLE)


def _loss_bursts(truth: Truth, description: Description, lost: NDArray[np.bool_]) -> None:
    """Runs of lost packets in which a burst lies; a run that single losses make by chance may be called one."""
    meant = np.zeros(len(lost), np.bool_)
    share = sum(one.share for one in description.ingredients if isinstance(one, Losses))
    for one in description.ingredients:
        if isinstance(one, Losses):
            for first, packets in one.bursts:
                if packets >= BURST_LEAST:
                    meant[first : first + packets] = True
    for whose in runs_of(np.flatnonzero(lost)):
        whose = whose[whose >= description.warmup]
        if len(whose) < BURST_LEAST:
            continue
        if meant[whose].any() and len(lost) * share ** len(whose) < BURST_CHANCE:
            _say(truth, whose, "loss_burst")
            _episode(truth, whose, "loss_burst", len(whose) * description.period_ns, "path")
        else:
            _excuse(truth, whose, "loss_burst")
