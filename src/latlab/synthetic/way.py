"""The packets' way, stage by stage: delays, one after the other in order, and what is done to them there.

Every stage passes packets in the order in which they come, at least drain_ns apart. So whatever holds one packet for
longer than a period holds those behind it too, and they pass at once: a stall is not drawn, it comes about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.gates import GateEntry, Openings, Schedule
from latlab.model.timestamps import STAGES
from latlab.synthetic.description import (
    NOISE_SHARES,
    Description,
    Ingredient,
    LateWakes,
    MissedSlots,
    Noise,
    Oscillation,
    PathChange,
    Periodic,
    PeriodicStalls,
    Reorders,
    Spikes,
    Stall,
    SyntheticGates,
    Throttling,
    WarmUp,
    Where,
)

# What packets' delays vary by while nothing is the matter: seeded samples of a `Noise`.


Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]


def stage_delays(description: Description, rng: np.random.Generator) -> list[Int64]:
    """How long each packet takes at each of STAGES when it is alone, int64 ns [packets] each, never below zero.

    The modes and the slow part are the path's alone.
    """
    n, noise = description.packets, description.noise
    delays = []
    for stage, share, least_ns in zip(STAGES, NOISE_SHARES, description.least_ns, strict=True):
        delay = share * _shaped(noise, n, rng)
        if stage == "path":
            delay += _modes(noise, n, rng)
            if noise.slow_ns:
                delay += noise.slow_ns * correlated(n, noise.slow_correlation_ns / description.period_ns, rng)
        delays.append(np.maximum(delay + least_ns, 0).astype(np.int64))
    return delays


def _shaped(noise: Noise, n: int, rng: np.random.Generator) -> Float64:
    if noise.shape == "heavy":
        return noise.spread_ns * np.abs(rng.standard_t(noise.degrees, n))
    gaussian = correlated(n, -1 / np.log(noise.rho), rng) if noise.rho else rng.standard_normal(n)
    if noise.shape == "exponential":
        from scipy.special import log_ndtr  # it takes a while to import

        return np.asarray(-noise.spread_ns * log_ndtr(-gaussian), np.float64)
    if noise.shape == "uniform":
        from scipy.special import ndtr

        return np.asarray(noise.spread_ns * ndtr(gaussian), np.float64)
    if noise.shape == "lognormal":
        return noise.spread_ns * np.exp(noise.sigma * gaussian)
    return noise.spread_ns * gaussian


def _modes(noise: Noise, n: int, rng: np.random.Generator) -> Float64:
    """Each packet's mode: 0, or one of the offsets with its weight."""
    if noise.shape != "modes":
        return np.zeros(n)
    weights = np.array([weight for weight, _ in noise.modes])
    offsets = np.array([0, *(offset for _, offset in noise.modes)], np.float64)
    # The sum of shares that are all packets may be more than 1 by rounding.
    return offsets[rng.choice(len(offsets), n, p=[max(1 - weights.sum(), 0), *weights])]


def correlated(n: int, correlation: float, rng: np.random.Generator) -> Float64:
    """An autoregressive process of first order with variance 1, float64 [n]; correlation: in packets, to 1/e.

    Made in the frequency domain, so it is stationary from its first value on (and its end leads to its beginning).
    """
    factor = np.exp(-1 / correlation) if correlation > 0 else 0.0
    frequency = np.fft.rfftfreq(n)
    spectrum = np.fft.rfft(rng.standard_normal(n)) / (1 - factor * np.exp(-2j * np.pi * frequency))
    process: Float64 = np.fft.irfft(spectrum, n) * np.sqrt(1 - factor**2)
    return process


# The packets' way, stage by stage: delays, one after the other in order, and what is done to them there.


UNTOUCHED = -1


@dataclass
class Way:
    """Where every packet passed, by its true time: int64 ns [packets] each.

    label: the number of the ingredient that delayed a packet most, UNTOUCHED if none. waited_ns: how long it stood
    behind those ahead of it, at all stages together. arrival_order: the packets' numbers in the order in which they
    arrive.
    """

    launch: Int64
    wake: Int64
    submit: Int64
    tx_sched: Int64
    dequeued: Int64
    tx_hard: Int64
    arrive: Int64
    rx_soft: Int64
    rx_user: Int64
    arrival_order: Int64
    label: NDArray[np.int16]
    waited_ns: Int64

    @property
    def total_ns(self) -> Int64:
        """From launch to the application, int64 [packets]."""
        return self.rx_user - self.launch


def walk(
    description: Description, delays: Sequence[Int64], ingredients: Sequence[Ingredient], seed: Sequence[int]
) -> Way:
    """The packets' way with these ingredients, for the delays of `stage_delays`.

    seed: of what the ingredients draw; with the same one the same ingredients do the same.
    """
    launch = description.start_tai_ns + np.arange(description.packets, dtype=np.int64) * description.period_ns
    state = _State(description, launch, ingredients, seed)
    drain = description.drain_ns
    state.at = launch.copy()
    state.hold("talker", 0)
    state.oscillate("talker")
    wake = state.pass_on(state.at + delays[0], 0)
    wake = state.late_wakes(wake, submit=False)
    submit = state.pass_on(wake + delays[1], drain)
    submit = state.late_wakes(submit, submit=True)
    state.at = submit
    submit = state.spike("talker")
    tx_sched = state.pass_on(submit + delays[2], drain)
    state.at = tx_sched + delays[3]
    state.hold("qdisc", drain)
    state.spike("qdisc")
    dequeued = state.gates()
    tx_hard = state.pass_on(dequeued + delays[4], drain)
    state.at = state.pass_on((tx_hard if description.hardware else dequeued) + delays[5], drain)
    before_arrival: tuple[Where, ...] = ("path",) if description.hardware else ("path", "kernel")
    for where in before_arrival:
        state.hold(where, drain)
        state.spike(where)
    state.warm_up("path")
    state.path_changes()
    state.oscillate("path")
    arrive, order = state.reordered()
    rx_soft = arrive
    state.in_order(order)
    if description.hardware:
        state.at = state.pass_on(arrive[order] + delays[6][order], drain)
        state.hold("kernel", drain)
        state.spike("kernel")
        rx_soft = state.back()
    state.at = state.pass_on((rx_soft + delays[7])[order], drain)
    state.hold("application", drain)
    state.spike("application")
    state.warm_up("application")
    rx_user = state.back()
    return Way(
        launch,
        wake,
        submit,
        tx_sched,
        dequeued,
        tx_hard,
        arrive,
        rx_soft,
        rx_user,
        order,
        state.label,
        state.waited,
    )


def schedule_of(gates: SyntheticGates) -> Schedule:
    """The gates as a schedule of traffic class 0."""
    closed = GateEntry((), gates.cycle_ns - gates.open_ns)
    return Schedule((GateEntry((0,), gates.open_ns), closed), gates.shift_ns)


def openings_of(gates: SyntheticGates) -> Openings:
    """When packets may leave, those that need GUARD_NS."""
    return Openings.of(gates.cycle_ns, schedule_of(gates).windows(0), GUARD_NS)


GUARD_NS = 2_000
"""More than a frame of 64 bytes takes at 1 Gbit/s; nothing is launched so close to a window's end."""


@dataclass
class _State:
    """The packets while they pass: `at`, in the order in which they go (sequence, from the listener on arrival)."""

    description: Description
    launch: Int64
    ingredients: Sequence[Ingredient]
    seed: Sequence[int]
    at: Int64 = field(init=False)
    order: Int64 | None = None

    def __post_init__(self) -> None:
        self.label: NDArray[np.int16] = np.full(len(self.launch), UNTOUCHED, np.int16)
        self.delayed: Int64 = np.zeros(len(self.launch), np.int64)
        self.waited: Int64 = np.zeros(len(self.launch), np.int64)

    def pass_on(self, at: Int64, drain: int) -> Int64:
        """The same instants, none before the one ahead of it has passed, drain after it."""
        place = np.arange(len(at), dtype=np.int64) * drain
        passed: Int64 = np.maximum.accumulate(at - place) + place
        self.waited[slice(None) if self.order is None else self.order] += passed - at
        return passed

    def _does(self, number: int, changed: Int64, drain: int) -> None:
        """Let an ingredient change the instants; who is delayed by it most bears its number."""
        after = self.pass_on(changed, drain)
        delay = after - self.at
        if self.order is not None:
            by_sequence = np.empty_like(delay)
            by_sequence[self.order] = delay
            delay = by_sequence
        most = delay > self.delayed
        self.label[most] = number
        self.delayed[most] = delay[most]
        self.at = after

    def _rng(self, number: int) -> np.random.Generator:
        return np.random.default_rng([*self.seed, number])

    def hold(self, where: Where, drain: int) -> None:
        """Stalls, and what works as they do."""
        since = self.launch - self.description.start_tai_ns
        for number, one in enumerate(self.ingredients):
            if isinstance(one, Stall | PeriodicStalls | Throttling) and one.where == where:
                begin, end = _holds(one, int(since[-1]), self._rng(number))
                at = self.at - self.description.start_tai_ns
                which = np.maximum(np.searchsorted(begin, at, side="right") - 1, 0)
                held = (at >= begin[which]) & (at < end[which])
                self._does(number, np.where(held, end[which] + self.description.start_tai_ns, self.at), drain)

    def spike(self, where: Where) -> Int64:
        """Packets that take longer here; returns the instants."""
        for number, one in enumerate(self.ingredients):
            if isinstance(one, Spikes | Periodic) and one.where == where:
                extra = np.zeros(len(self.at), np.int64)
                if isinstance(one, Spikes):
                    extra[np.array(one.sequences, np.int64)] = one.extra_ns
                else:
                    rng = self._rng(number)
                    hit = _teeth(one, self.launch - self.description.start_tai_ns, rng)
                    factor = 1 + one.scatter * rng.uniform(-1, 1, len(hit))
                    extra[hit] = (one.extra_ns * factor).astype(np.int64)
                self._adds(number, extra)
        return self.at

    def _adds(self, number: int, extra: Int64) -> None:
        own = extra if self.order is None else extra[self.order]
        self._does(number, self.at + own, self.description.drain_ns)

    def late_wakes(self, at: Int64, *, submit: bool) -> Int64:
        """The instants, those of late wakes or late submissions later."""
        self.at = at
        for number, one in enumerate(self.ingredients):
            if isinstance(one, LateWakes) and one.submit == submit:
                extra = np.zeros(len(at), np.int64)
                extra[np.array(one.sequences, np.int64)] = one.extra_ns
                self._does(number, self.at + extra, self.description.drain_ns if submit else 0)
        return self.at

    def gates(self) -> Int64:
        """When the packets leave: at once, or in the first window of their gate."""
        gates, drain = self.description.gates, self.description.drain_ns
        if gates is None:
            self.at = self.pass_on(self.at, drain)
            return self.at
        openings, shift = openings_of(gates), gates.shift_ns
        self.at = self.pass_on(openings.departs(self.at - shift) + shift, drain)
        for number, one in enumerate(self.ingredients):
            if isinstance(one, MissedSlots):
                extra = np.zeros(len(self.at), np.int64)
                extra[np.array(one.sequences, np.int64)] = one.cycles * gates.cycle_ns
                self._does(number, openings.departs(self.at + extra - shift) + shift, drain)
        return self.at

    def warm_up(self, where: Where) -> None:
        """The slow beginning, after the warm-up."""
        first = self.description.warmup
        for number, one in enumerate(self.ingredients):
            if isinstance(one, WarmUp) and one.where == where:
                since = np.maximum(self.launch - self.launch[min(first, len(self.launch) - 1)], 0)
                factor = self._rng(number).uniform(0.5, 1.5, len(since))
                extra = (one.extra_ns * np.exp(-since / one.decay_ns) * factor).astype(np.int64)
                extra[:first] = 0
                self._adds(number, extra)

    def path_changes(self) -> None:
        """The path takes longer, or less long, for a while; no packet gets a class from it."""
        for one in self.ingredients:
            if isinstance(one, PathChange):
                change = path_change(one, self.at - self.description.start_tai_ns)
                self.at = self.pass_on(self.at + change, self.description.drain_ns)

    def oscillate(self, where: Where) -> None:
        """Everything takes a sine longer here."""
        since = self.launch - self.description.start_tai_ns
        for one in self.ingredients:
            if isinstance(one, Oscillation) and one.where == where:
                wave = one.pk_pk_ns * (1 + np.sin(2 * np.pi * since / one.every_ns)) / 2
                self.at = self.pass_on(self.at + wave.astype(np.int64), 0)

    def reordered(self) -> tuple[Int64, Int64]:
        """When the packets arrive, by sequence, and their numbers in the order of arrival."""
        arrive, drain = self.at.copy(), self.description.drain_ns
        for number, one in enumerate(self.ingredients):
            if isinstance(one, Reorders):
                whose = np.array(one.sequences, np.int64)
                whose = whose[whose + one.places < len(arrive)]
                arrive[whose] = np.maximum(arrive[whose], self.at[whose + one.places]) + drain // 2
                self.label[whose], self.delayed[whose] = number, arrive[whose] - self.at[whose]
        return arrive, np.argsort(arrive, kind="stable")

    def in_order(self, order: Int64) -> None:
        """From here on packets go in this order."""
        if (order[1:] > order[:-1]).all():
            return
        self.order = order

    def back(self) -> Int64:
        """The instants by sequence."""
        if self.order is None:
            return self.at.copy()
        by_sequence = np.empty_like(self.at)
        by_sequence[self.order] = self.at
        return by_sequence


def _holds(one: Stall | PeriodicStalls | Throttling, span_ns: int, rng: np.random.Generator) -> tuple[Int64, Int64]:
    """When nothing passes, in ns from the first launch: where it begins, where it ends."""
    if isinstance(one, Stall):
        return np.array([one.at_ns], np.int64), np.array([one.at_ns + one.length_ns], np.int64)
    if isinstance(one, Throttling):
        last = span_ns if one.active_ns is None else min(span_ns, one.first_ns + one.active_ns)
        begin = np.arange(one.first_ns, max(last, one.first_ns + 1), one.period_ns, dtype=np.int64)
        return begin, begin + one.gap_ns
    begin = np.arange(one.first_ns, max(span_ns, one.first_ns + 1), one.every_ns, dtype=np.int64)
    length = one.length_ns * (1 + one.scatter * rng.uniform(-1, 1, len(begin)))
    return begin, begin + length.astype(np.int64)


def _teeth(one: Periodic, since_ns: Int64, rng: np.random.Generator) -> Int64:
    """The numbers of the packets that are hit, ascending."""
    if one.every_packets:
        first = int(np.searchsorted(since_ns, one.first_ns))
        return np.arange(first, len(since_ns), one.every_packets, dtype=np.int64)
    times = np.arange(one.first_ns, int(since_ns[-1]), one.every_ns, dtype=np.int64)
    if one.jitter_ns:
        times = times + rng.integers(-one.jitter_ns, one.jitter_ns, len(times), endpoint=True)
    hit = np.unique(np.searchsorted(since_ns, times))
    return hit[hit < len(since_ns)].astype(np.int64)


def path_change(one: PathChange, since_ns: Int64) -> Int64:
    """How much longer the path takes at these instants after the first launch, ns."""
    within = (since_ns >= one.at_ns) & (since_ns < one.at_ns + one.length_ns)
    if one.sudden:
        return np.where(within, one.amplitude_ns, 0)
    phase = np.where(within, (since_ns - one.at_ns) / one.length_ns, 0)
    return np.rint(one.amplitude_ns * (1 - np.cos(2 * np.pi * phase)) / 2).astype(np.int64)
