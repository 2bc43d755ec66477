"""Descriptions drawn at random, broadly: of every kind of thing that may happen, and of several at once.

Nothing here depends on how anomalies are found. What is drawn may be too small to tell from its noise: see `truth`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from latlab.model.units import MICROSECOND_NS, MILLISECOND_NS, SECOND_NS
from latlab.synthetic.description import (
    NOISE_SHARES,
    Description,
    Drift,
    Duplicates,
    Ingredient,
    LateWakes,
    Losses,
    MissedSlots,
    Noise,
    PathChange,
    Periodic,
    PeriodicStalls,
    Reorders,
    Spikes,
    Stall,
    Step,
    Swing,
    SyntheticGates,
    Throttling,
    WarmUp,
    Where,
)

# What things are drawn at random with: a run without any yet, and where and how large they may be in it.


@dataclass(frozen=True)
class Draw:
    """What ingredients are drawn with: a description without any yet, and how long it is."""

    rng: np.random.Generator
    base: Description

    @property
    def span_ns(self) -> int:
        """From the first launch to the last."""
        return (self.base.packets - 1) * self.base.period_ns

    def log(self, least: float, most: float) -> int:
        """A whole number between the two, its logarithm evenly."""
        return int(np.exp(self.rng.uniform(np.log(least), np.log(max(most, least * 1.0001)))))

    def within(self, low: float, high: float) -> int:
        """An instant between these shares of the run."""
        return int(self.rng.uniform(low, high) * self.span_ns)

    def sequences(self, count: int, apart: int) -> tuple[int, ...]:
        """So many packets at most, at least so far apart, none at the ends."""
        rng, n = self.rng, self.base.packets
        chosen = np.sort(rng.integers(n // 20, n - n // 20, count))
        kept = [int(chosen[0])]
        for one in chosen[1:].tolist():
            if one - kept[-1] >= apart:
                kept.append(one)
        return tuple(kept)

    def where(self, *, talker: bool = True) -> Where:
        """A place."""
        places: list[Where] = ["qdisc", "path", "kernel", "application"]
        if talker:
            places.append("talker")
        return places[self.rng.integers(len(places))]

    def noise_ns(self) -> float:
        """Roughly how far out the noise goes."""
        noise = self.base.noise
        far = {
            "gaussian": 5.0,
            "lognormal": np.exp(4 * noise.sigma),
            "heavy": 15.0,
            "modes": 5.0,
            "exponential": 9.0,
            "uniform": 1.0,
        }[noise.shape]
        widest = max((offset for _, offset in noise.modes), default=0)
        return float(far * noise.spread_ns + 5 * noise.slow_ns + widest)


# Stalls drawn at random: a few, regular ones, ones that hold many packets, ones of seconds; and throttling.


STALL_NS: Final = (2 * MILLISECOND_NS, 200 * MILLISECOND_NS)
LONG_STALL_NS: Final = (200 * MILLISECOND_NS, 5 * SECOND_NS)
SHARE_HELD: Final = (0.05, 0.4)
"""Of a run's time, where packets are held often."""
STALLS_MOST: Final = 150


def stalls(draw: Draw) -> tuple[Ingredient, ...]:
    """A few, far apart, of up to 200 ms."""
    count = int(draw.rng.integers(1, 6))
    each = draw.span_ns / (count + 1)
    found: list[Ingredient] = []
    for n in range(count):
        length = draw.log(STALL_NS[0], min(STALL_NS[1], 0.3 * each))
        at = int((n + 0.6 + 0.4 * draw.rng.random()) * each)
        found.append(Stall(at, length, draw.where()))
    return tuple(found)


def periodic_stalls(draw: Draw) -> tuple[Ingredient, ...]:
    """Alike and at regular intervals, seldom."""
    every = draw.log(2 * SECOND_NS, draw.span_ns / 8)
    length = draw.log(max(STALL_NS[0], 3 * draw.base.period_ns), min(STALL_NS[1], 0.05 * every))
    first = int(draw.rng.uniform(0, 0.05) * draw.span_ns) + SECOND_NS
    return (PeriodicStalls(length, every, first, where=draw.where()),)


def frequent_stalls(draw: Draw) -> tuple[Ingredient, ...]:
    """Stalls that hold a share of all packets, at regular intervals or whenever it is, of any length or alike."""
    share = draw.rng.uniform(*SHARE_HELD)
    least = max(STALL_NS[0], 3 * draw.base.period_ns, share * draw.span_ns / STALLS_MOST)
    length = draw.log(least, min(STALL_NS[1], 0.04 * draw.span_ns))
    every, where = int(length / share), draw.where()
    if draw.rng.random() < 0.4:
        return (PeriodicStalls(length, every, every, where=where),)
    found: list[Ingredient] = []
    at = float(every)
    while at < draw.span_ns - 2 * every:
        # A third to five thirds of the usual length; then nothing is held for a quarter of the usual gap at least.
        one, gap = length * draw.rng.uniform(0.35, 1.65), (every - length) * draw.rng.uniform(0.25, 1.75)
        found.append(Stall(int(at), int(one), where))
        at += one + gap
    return tuple(found)


def long_stalls(draw: Draw) -> tuple[Ingredient, ...]:
    """Stalls of up to seconds, longer than the intervals that say what is usual."""
    count = int(draw.rng.integers(1, 5))
    each = draw.span_ns / count
    found: list[Ingredient] = []
    for n in range(count):
        length = draw.log(LONG_STALL_NS[0], min(LONG_STALL_NS[1], SHARE_HELD[1] * each))
        found.append(Stall(int((n + draw.rng.uniform(0.1, 0.5)) * each), length, draw.where()))
    return tuple(found)


def throttling(draw: Draw) -> tuple[Ingredient, ...]:
    """What real-time throttling does, all the time or for a while."""
    where: tuple[Where, ...] = ("talker", "path", "application")
    first = int(draw.rng.uniform(0.05, 0.4) * draw.span_ns)
    active = None if draw.rng.random() < 0.5 else int(draw.rng.uniform(4, 30) * SECOND_NS)
    return (Throttling(first, where[draw.rng.integers(3)], active_ns=active),)


# Descriptions drawn at random, broadly: of every kind of thing that may happen, and of several at once.


PERIOD_NS: Final = (250_000, 10 * MILLISECOND_NS)
SPREAD_NS: Final = (1_000, 50_000)
MODES_APART: Final = (2.0, 6.0)
"""In spreads of one."""
SWING_NS: Final = (5_000, 200_000)
SWING_LENGTH_NS: Final = (10 * SECOND_NS, 300 * SECOND_NS)
SHIFT_LENGTH_NS: Final = (100 * MILLISECOND_NS, SECOND_NS)
SHIFT_PACKETS: Final = 64
PACKETS_LEAST: Final = 2_000
RECORDED: Final = 0.75
"""In so many runs a record reports the clocks' step or drift: in the others it cannot be distinguished from the
path's.
"""
SHARE_MOVED: Final = 0.4
"""The clocks are off for at most this share of a run: what most of it is like decides which level is right."""


def random_noise(rng: np.random.Generator, kind: str | None = None) -> Noise:
    """Noise at random: gaussian, lognormal, heavy, modes, slow (correlated) or lattice, or `kind` of these."""
    kinds = ("gaussian", "lognormal", "heavy", "modes", "slow", "lattice")
    kind = kind or kinds[rng.integers(len(kinds))]
    spread = int(np.exp(rng.uniform(*np.log(SPREAD_NS))))
    if kind == "lognormal":
        return Noise(spread, "lognormal", sigma=float(rng.uniform(0.2, 0.8)))
    if kind == "heavy":
        return Noise(spread, "heavy", degrees=float(rng.uniform(4, 10)))
    if kind == "modes":
        weights = rng.uniform(0.05, 0.3, rng.integers(1, 4))
        # Farther apart, the packets of the rarer ones would be late.
        offsets = np.sort(rng.uniform(*MODES_APART, len(weights))) * spread
        modes = tuple((float(w), int(o)) for w, o in zip(weights, offsets, strict=True))
        return Noise(spread, "modes", modes=modes)
    if kind == "slow":
        correlation = int(np.exp(rng.uniform(np.log(1 * MILLISECOND_NS), np.log(1 * SECOND_NS))))
        return Noise(max(1_000, spread // 2), slow_ns=spread, slow_correlation_ns=correlation)
    if kind == "lattice":
        return Noise(spread, lattice_ns=int(rng.choice([100, 1_000, 4_000, 10_000])))
    return Noise(spread)


def random_base(
    seed: Sequence[int], *, packets_most: int, seconds: tuple[float, float], noise: str | None = None
) -> Description:
    """A run of noise: so many packets at most; of `seconds`, least and most, as many as that allows."""
    rng = np.random.default_rng([*seed, 7])
    shape = random_noise(rng, noise)
    span = np.exp(rng.uniform(*np.log(seconds))) * SECOND_NS
    # Half of the runs are as long as they are, whatever the period then is; half have any period, and are as long as
    # that allows.
    wanted = span if rng.random() < 0.5 else seconds[0] * SECOND_NS
    least_period = min(max(PERIOD_NS[0], wanted / packets_most), PERIOD_NS[1])
    period = int(np.exp(rng.uniform(np.log(least_period), np.log(PERIOD_NS[1])))) // MICROSECOND_NS * MICROSECOND_NS
    packets = int(np.clip(span // period, PACKETS_LEAST, packets_most))
    # A way that takes longer than half a period would hold up the packets behind it: no noise, but stalls.
    shape = replace(shape, modes=tuple((weight, min(offset, period // 2)) for weight, offset in shape.modes))
    widest = 8 * (shape.spread_ns if shape.shape in ("gaussian", "modes") else 0) + 6 * shape.slow_ns
    least = tuple(int(share * widest + rng.uniform(500, 20_000)) for share in NOISE_SHARES)
    return Description(
        seed=int(rng.integers(1 << 31)),
        packets=packets,
        period_ns=period,
        noise=shape,
        start_tai_ns=1_800_000_000 * SECOND_NS,
        warmup=int(rng.integers(0, 200)),
        hardware=bool(rng.random() < 0.3),
        drain_ns=int(np.exp(rng.uniform(np.log(100), np.log(min(20_000, period / 10))))),
        clock_bound_ns=[0, 300, 20_000][rng.integers(3)],
        least_ns=least,
    )


def _spikes(draw: Draw) -> tuple[Ingredient, ...]:
    count = int(draw.rng.integers(1, 12))
    extra = draw.log(2 * draw.noise_ns(), max(20 * draw.noise_ns(), 2 * draw.base.period_ns))
    return (Spikes(draw.sequences(count, 40), extra, draw.where(talker=False)),)


def _late_wakes(draw: Draw) -> tuple[Ingredient, ...]:
    count = int(draw.rng.integers(1, 12))
    extra = draw.log(2 * draw.noise_ns(), max(20 * draw.noise_ns(), 2 * draw.base.period_ns))
    return (LateWakes(draw.sequences(count, 40), extra, submit=bool(draw.rng.random() < 0.5)),)


def _periodic(draw: Draw) -> tuple[Ingredient, ...]:
    extra = draw.log(2 * draw.noise_ns(), max(20 * draw.noise_ns(), 2 * draw.base.period_ns))
    first = int(draw.rng.uniform(0, 0.05) * draw.span_ns)
    where = draw.where()
    if draw.rng.random() < 0.4:
        return (Periodic(extra, every_packets=draw.log(250, draw.base.packets / 8), first_ns=first, where=where),)
    every = draw.log(max(0.1 * SECOND_NS, 300 * draw.base.period_ns), draw.span_ns / 8)
    jitter = int(draw.rng.choice([0, 0.003, 0.008]) * every)
    return (Periodic(extra, every_ns=every, first_ns=first, jitter_ns=jitter, where=where),)


def _losses(draw: Draw) -> tuple[Ingredient, ...]:
    firsts = draw.sequences(int(draw.rng.integers(1, 6)), 1_000)
    # No burst begins within the last twentieth of the packets.
    bursts = tuple((first, draw.log(3, min(400, draw.base.packets // 20))) for first in firsts)
    return (Losses(float(draw.rng.choice([0, 1e-4, 1e-3, 1e-2])), bursts),)


def _single_losses(draw: Draw) -> tuple[Ingredient, ...]:
    return (Losses(float(draw.rng.choice([1e-4, 1e-3, 1e-2]))),)


def _reorders(draw: Draw) -> tuple[Ingredient, ...]:
    count, places = int(draw.rng.integers(1, 30)), int(draw.rng.integers(1, 8))
    return (Reorders(draw.sequences(count, 2 * places + 2), places),)


def _duplicates(draw: Draw) -> tuple[Ingredient, ...]:
    return (Duplicates(draw.log(1, 1_000)),)


def _warm_up(draw: Draw) -> tuple[Ingredient, ...]:
    extra = draw.log(2 * draw.noise_ns(), 20 * draw.noise_ns())
    decay = draw.log(20 * draw.base.period_ns, 0.03 * draw.span_ns)
    where: Literal["path", "application"] = "path" if draw.rng.random() < 0.5 else "application"
    return (WarmUp(extra, decay, where),)


def _swings(draw: Draw) -> tuple[Ingredient, ...]:
    count = max(1, min(int(draw.rng.integers(1, 4)), int(SHARE_MOVED * draw.span_ns / SWING_LENGTH_NS[0])))
    most = SHARE_MOVED * draw.span_ns / count
    shapes = ("triangle", "wave", "hump")
    found: list[Ingredient] = []
    # latlab's own comparison saw all of them or none, as it runs all the time.
    compared = bool(draw.rng.random() < 0.3)
    for n in range(count):
        length = draw.log(SWING_LENGTH_NS[0], min(SWING_LENGTH_NS[1], most))
        room = draw.span_ns / count - length
        at = int(n * draw.span_ns / count + draw.rng.uniform(0.2, 0.8) * room)
        amplitude = draw.log(*SWING_NS) * int(draw.rng.choice([-1, 1]))
        shape = shapes[draw.rng.integers(3)]
        recorded = bool(draw.rng.random() < 0.5)
        found.append(Swing(at, length, amplitude, shape, ptp=recorded, compared=compared))  # type: ignore[arg-type]
    return tuple(found)


def _drift(draw: Draw) -> tuple[Ingredient, ...]:
    ppb = draw.log(100, 20_000) * int(draw.rng.choice([-1, 1]))
    return (Drift(ppb, compared=bool(draw.rng.random() < RECORDED)),)


def _steps(draw: Draw) -> tuple[Ingredient, ...]:
    amplitude = draw.log(5_000, 5 * MILLISECOND_NS) * int(draw.rng.choice([-1, 1]))
    recorded = draw.rng.random() < RECORDED
    ptp = bool(recorded and draw.rng.random() < 0.5)
    compared = bool(recorded and not ptp)
    if draw.rng.random() < 0.5:
        share = draw.rng.uniform(0.6, 0.9) if draw.rng.random() < 0.5 else draw.rng.uniform(0.1, 0.4)
        return (Step(int(share * draw.span_ns), amplitude, ptp=ptp, compared=compared),)
    length = draw.log(4 * SECOND_NS, SHARE_MOVED * draw.span_ns)
    return (Step(draw.within(0.05, 0.55), amplitude, length, ptp, compared),)


def _path_changes(draw: Draw) -> tuple[Ingredient, ...]:
    length = draw.log(SWING_LENGTH_NS[0], min(SWING_LENGTH_NS[1], SHARE_MOVED * draw.span_ns))
    at = draw.within(0.05, 0.5)
    return (PathChange(at, length, draw.log(*SWING_NS), sudden=bool(draw.rng.random() < 0.5)),)


def _path_shifts(draw: Draw) -> tuple[Ingredient, ...]:
    """One to five, in separate parts of the run, of 0.1 to 1 s: as long as 64 packets at least."""
    count = int(draw.rng.integers(1, 6))
    found = []
    for n in range(count):
        length = draw.log(max(SHIFT_LENGTH_NS[0], SHIFT_PACKETS * draw.base.period_ns), SHIFT_LENGTH_NS[1])
        at = int((n + draw.rng.uniform(0.2, 0.8)) / count * draw.span_ns)
        amplitude = draw.log(*SWING_NS) * int(draw.rng.choice([-1, 1], p=[0.2, 0.8]))
        found.append(PathChange(at, length, amplitude, sudden=bool(draw.rng.random() < 0.75)))
    return tuple(found)


def _missed(draw: Draw) -> tuple[Ingredient, ...]:
    assert draw.base.gates is not None
    most = max(1, (draw.base.period_ns - 1) // draw.base.gates.cycle_ns)
    return (MissedSlots(draw.sequences(int(draw.rng.integers(1, 40)), 10), int(draw.rng.integers(1, most + 1))),)


_DRAWS: Final[dict[str, Callable[[Draw], tuple[Ingredient, ...]]]] = {
    "clean": lambda draw: (),
    "single_losses": _single_losses,
    "stall": stalls,
    "throttled": throttling,
    "missed_slot": _missed,
    "late_sender": _late_wakes,
    "clock_swing": _swings,
    "clock_drift": _drift,
    "clock_step": _steps,
    "path_change": _path_changes,
    "loss_burst": _losses,
    "duplicate": _duplicates,
    "reorder": _reorders,
    "periodic": _periodic,
    "periodic_stalls": periodic_stalls,
    "warm_up": _warm_up,
    "unexplained": _spikes,
    "frequent_stalls": frequent_stalls,
    "long_stalls": long_stalls,
    "path_shift": _path_shifts,
}
KINDS: Final[tuple[str, ...]] = tuple(_DRAWS)
"""What can be drawn."""
CLASS_OF: Final = {
    **{kind: kind for kind in ("stall", "throttled", "missed_slot", "late_sender", "clock_swing", "clock_step")},
    **{kind: kind for kind in ("path_change", "loss_burst", "reorder", "periodic", "warm_up", "unexplained")},
    "clock_drift": "clock_swing",
    "periodic_stalls": "stall",
    "frequent_stalls": "stall",
    "long_stalls": "stall",
    "path_shift": "path_change",
}
"""The class of packets (`analysis.anomalies`) that a kind makes; those without make none."""

_SECONDS: Final[dict[str, tuple[float, float]]] = {
    "clock_swing": (30, 900),
    "clock_drift": (30, 900),
    "clock_step": (20, 300),
    "path_change": (30, 600),
    "throttled": (8, 60),
    "periodic_stalls": (20, 900),
    "long_stalls": (20, 120),
    "path_shift": (20, 120),
}
"""How long runs are, where it matters; else SECONDS."""
SECONDS: Final = (5, 120)


def random_description(
    seed: int, kinds: Sequence[str], *, packets_most: int = 100_000, noise: str | None = None
) -> Description:
    """A description in which these of KINDS happen, everything else at random; the same seed gives the same.

    packets_most: no more packets than these, so that long runs have long periods. noise: see `random_noise`. With
    several kinds what moves all packets is not drawn twice over the same time: the first of them that is named counts.
    """
    seconds = max((_SECONDS.get(kind, SECONDS) for kind in kinds), key=lambda span: span[0], default=SECONDS)
    seeds = (seed, *(KINDS.index(kind) for kind in kinds))
    base = random_base(seeds, packets_most=packets_most, seconds=seconds, noise=noise)
    draw = Draw(np.random.default_rng([*seeds, 8]), base)
    if "missed_slot" in kinds:
        base = _with_gates(draw)
        draw = Draw(draw.rng, base)
    ingredients = tuple(one for kind in kinds for one in _DRAWS[kind](draw))
    return _with_clocks(replace(base, ingredients=ingredients), draw.rng)


def _with_gates(draw: Draw) -> Description:
    """Gates whose cycle goes into the period a whole number of times, and that open behind the noise of the talker."""
    base, rng = draw.base, draw.rng
    known = bool(rng.random() < 0.7)
    cycles = int(rng.integers(2, 5))
    period = base.period_ns // (cycles * MICROSECOND_NS) * (cycles * MICROSECOND_NS)
    cycle = period // cycles
    # Packets come before their window opens by more than the talker's noise, or well within one that is wide.
    spread = min(base.noise.spread_ns, cycle // 200)
    # On a coarse lattice packets would seem to leave before their gate opens.
    noise = replace(base.noise, spread_ns=spread, slow_ns=min(base.noise.slow_ns, cycle // 200), lattice_ns=0)
    if noise.shape == "modes":
        noise = replace(
            noise, modes=tuple((w, min(o, cycle // 20, int(MODES_APART[1] * spread))) for w, o in noise.modes)
        )
    least = [int(min(one, cycle // 40)) for one in base.least_ns]
    # Launches are as a cycle begins, or a third of one before that; what is behind its gate then waits for the window.
    shift = cycle // 3 if rng.random() < 0.5 else 0
    gates = SyntheticGates(cycle, max(sum(least[:4]) + cycle // 3, cycle // 2), shift, known)
    start = base.start_tai_ns // cycle * cycle
    return replace(base, period_ns=period, noise=noise, least_ns=tuple(least), gates=gates, start_tai_ns=start)


def _with_clocks(description: Description, rng: np.random.Generator) -> Description:
    """Bounds that leave the clocks room for what they do; of what the path does, they leave them none."""
    recorded = [one for one in description.ingredients if isinstance(one, Swing | Step) and one.ptp]
    moved = [abs(one.amplitude_ns) for one in description.ingredients if isinstance(one, Swing | Step)]
    drifts = any(isinstance(one, Drift) for one in description.ingredients)
    bound = description.clock_bound_ns
    if any(isinstance(one, PathChange) for one in description.ingredients):
        return replace(description, hardware=False, clock_bound_ns=0)
    if moved or drifts:
        bound = None if drifts or rng.random() < 0.5 else int(max(moved) * rng.uniform(0.6, 3))
    ptp = bool(recorded) or bool(rng.random() < 0.3)
    return replace(description, clock_bound_ns=bound, ptp=ptp)


ALL_TOGETHER: Final = ("clock_swing", "clock_drift", "clock_step", "path_change")
"""What moves all packets: a mix has one of them at most, as two at once leave no reference level."""


BY_THEMSELVES: Final = ("clean", "missed_slot", "frequent_stalls", "long_stalls")
"""What no mix has: behind so many stalls, or ones so long, most of what else is drawn would be hidden."""
INSTEAD: Final = {"path_change": "path_shift"}
"""What a mix has instead of the other, in half of the runs."""


def random_mix(seed: int) -> tuple[str, ...]:
    """Two to six of KINDS that can be distinguished when they come in one run."""
    rng = np.random.default_rng([seed, 9])
    others = [kind for kind in KINDS if kind not in (*ALL_TOGETHER, *BY_THEMSELVES, *INSTEAD.values(), "throttled")]
    chosen = rng.choice(others, rng.integers(1, 6), replace=False).tolist()
    chosen += [ALL_TOGETHER[rng.integers(len(ALL_TOGETHER))]] if rng.random() < 0.6 else ["throttled"]
    if chosen[-1] in INSTEAD and rng.random() < 0.5:
        chosen[-1] = INSTEAD[chosen[-1]]
    return tuple(chosen)
