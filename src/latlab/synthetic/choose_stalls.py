"""Stalls drawn at random: a few, regular ones, ones that hold many packets, ones of seconds; and throttling."""

from __future__ import annotations

from typing import Final

from latlab.synthetic.description import Ingredient, PeriodicStalls, Stall, Throttling, Where
from latlab.synthetic.draw import MS, Draw, S

STALL_NS: Final = (2 * MS, 200 * MS)
LONG_STALL_NS: Final = (200 * MS, 5 * S)
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
    every = draw.log(2 * S, draw.span_ns / 8)
    length = draw.log(max(STALL_NS[0], 3 * draw.base.period_ns), min(STALL_NS[1], 0.05 * every))
    first = int(draw.rng.uniform(0, 0.05) * draw.span_ns) + S
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
    active = None if draw.rng.random() < 0.5 else int(draw.rng.uniform(4, 30) * S)
    return (Throttling(first, where[draw.rng.integers(3)], active_ns=active),)
