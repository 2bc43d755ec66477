"""A gate schedule's arithmetic: when a class's gate is open, and when a packet may start (IEEE 802.1Q 8.6.8.4).

All instants are int64 nanoseconds; phases count from the beginning of a cycle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import gcd

import numpy as np
from numpy.typing import ArrayLike, NDArray

Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class GateEntry:
    """For length_ns the gates of these traffic classes are open, all others closed."""

    open: tuple[int, ...]
    length_ns: int


@dataclass(frozen=True)
class GateWindow:
    """A gate is open from start_ns, a phase, for length_ns; forever where that is None.

    A window that extends over the end of the cycle ends after it: end_ns is the cycle or more.
    """

    start_ns: int
    length_ns: int | None

    @property
    def end_ns(self) -> int | None:
        """The phase at which the gate closes; None: never."""
        return None if self.length_ns is None else self.start_ns + self.length_ns


@dataclass(frozen=True)
class Schedule:
    """Entry after entry, forever: a cycle begins at each multiple of the cycle in TAI + shift_ns.

    shift_ns: less than a cycle. A base time of IEEE 802.1Q 8.6.9.4.3 is one such beginning.
    """

    entries: tuple[GateEntry, ...]
    shift_ns: int = 0

    @cached_property
    def cycle_ns(self) -> int:
        """The sum of the entries."""
        return sum(entry.length_ns for entry in self.entries)

    @cached_property
    def starts_ns(self) -> tuple[int, ...]:
        """The phase at which each entry begins."""
        starts, at = [], 0
        for entry in self.entries:
            starts.append(at)
            at += entry.length_ns
        return tuple(starts)

    def phase(self, tai_ns: ArrayLike) -> Int64:
        """How long ago the cycle began, 0 to cycle − 1, of each instant (int64 TAI, any shape); exact."""
        phase: Int64 = np.mod(np.asarray(tai_ns, dtype=np.int64) - np.int64(self.shift_ns), np.int64(self.cycle_ns))
        return phase

    def launch_phase(self, offset_ns: int) -> int:
        """The phase of a launch this long after the common start, which is a multiple of the cycle in TAI."""
        return (offset_ns - self.shift_ns) % self.cycle_ns

    def windows(self, traffic_class: int) -> tuple[GateWindow, ...]:
        """The class's windows in a cycle, by their start; adjacent entries are one window, over the cycle's end too.

        One without an end if the gate never closes; none if it never opens.
        """
        open_entries = [traffic_class in entry.open for entry in self.entries]
        if all(open_entries):
            return (GateWindow(0, None),)
        found = []
        # From behind a closed entry on, so that no window is cut by where the cycle begins.
        first = open_entries.index(False) + 1
        lengths = 0
        for step in range(len(self.entries)):
            number = (first + step) % len(self.entries)
            if not open_entries[number]:
                lengths = 0
                continue
            if lengths == 0:
                start = self.starts_ns[number]
            lengths += self.entries[number].length_ns
            if not open_entries[(number + 1) % len(self.entries)]:
                found.append(GateWindow(start, lengths))
        return tuple(sorted(found, key=lambda one: one.start_ns))

    def entry_windows(self, traffic_class: int) -> tuple[GateWindow, ...]:
        """The class's open entries, each a separate window, even of a class whose gate never closes."""
        pairs = zip(self.starts_ns, self.entries, strict=True)
        return tuple(GateWindow(start, entry.length_ns) for start, entry in pairs if traffic_class in entry.open)

    def is_always_open(self, traffic_class: int) -> bool:
        """True if the class's gate never closes."""
        return all(traffic_class in entry.open for entry in self.entries)

    def open_at_once(self, one: int, other: int) -> bool:
        """True if both classes' gates are open at some instant."""
        return any({one, other} <= set(entry.open) for entry in self.entries)


@dataclass(frozen=True)
class Openings:
    """When packets that need guard_ns to the end of their window may start.

    windows: of one class, disjoint, by their start; those shorter than guard_ns are none. A packet may start at
    start_ns and until last_ns = end − guard, both included.
    """

    cycle_ns: int
    start_ns: Int64
    last_ns: Int64
    always: bool

    @classmethod
    def of(cls, cycle_ns: int, windows: tuple[GateWindow, ...], guard_ns: int) -> Openings:
        """Those of the windows. guard_ns: 0 or more."""
        always = any(window.length_ns is None for window in windows)
        fitting = [one for one in windows if one.length_ns is not None and one.length_ns >= guard_ns]
        starts = np.array([one.start_ns for one in fitting], dtype=np.int64)
        lengths = np.array([one.length_ns for one in fitting], dtype=np.int64)
        return cls(cycle_ns, starts, starts + lengths - guard_ns, always)

    def __bool__(self) -> bool:
        """True if there is one."""
        return self.always or len(self.start_ns) > 0

    def index(self, at_ns: ArrayLike) -> Int64:
        """The number of the first opening that is not over at each instant; counted on through cycles from phase 0.

        at_ns: int64, any shape, from the beginning of any cycle. ValueError: there is no opening.
        """
        if len(self.start_ns) == 0:
            raise ValueError("no window of the class is as long as the guard")
        cycle, phase = np.divmod(np.asarray(at_ns, dtype=np.int64), np.int64(self.cycle_ns))
        # The last window of a cycle may extend into the next one, whose first phases are then its.
        over = self.last_ns[-1] - self.cycle_ns
        number = np.where(phase <= over, -1, np.searchsorted(self.last_ns, phase, side="left"))
        return cycle * len(self.start_ns) + number

    def opens_ns(self, index: ArrayLike) -> Int64:
        """The instant at which each opening of these numbers begins; int64, from the beginning of the same cycle."""
        cycle, number = np.divmod(np.asarray(index, dtype=np.int64), np.int64(len(self.start_ns)))
        return cycle * np.int64(self.cycle_ns) + self.start_ns[number]

    def departures(self, first_ns: int, last_ns: int) -> Iterator[tuple[int, int]]:
        """The first and last instants, opening by opening, at which packets that are there from first_ns to last_ns
        may start. ValueError: never.
        """
        if self.always:
            yield first_ns, last_ns
            return
        for number in range(int(self.index(first_ns)), int(self.index(last_ns)) + 1):
            opens = int(self.opens_ns(number))
            over = opens + int((self.last_ns - self.start_ns)[number % len(self.start_ns)])
            yield max(first_ns, opens), max(min(last_ns, over), opens)

    def departs(self, at_ns: ArrayLike) -> Int64:
        """When a packet that is there at each instant may start: then, or as the next window opens. int64, as at_ns.

        ValueError: never.
        """
        at = np.asarray(at_ns, dtype=np.int64)
        return at if self.always else np.maximum(at, self.opens_ns(self.index(at)))


@dataclass(frozen=True)
class Lattice:
    """The phases that come about: first_ns + k × step_ns, k any whole number; step_ns divides the cycle."""

    first_ns: int
    step_ns: int

    @classmethod
    def of(cls, offset_ns: int, period_ns: int, cycle_ns: int) -> Lattice:
        """The phases of offset + n × period, n = 0, 1, …: multiples of gcd(period, cycle), after offset."""
        step = gcd(period_ns, cycle_ns)
        return cls(offset_ns % step, step)

    def at_or_after(self, at_ns: ArrayLike) -> Int64:
        """The first phase at or after each instant."""
        at = np.asarray(at_ns, dtype=np.int64)
        return at + np.mod(self.first_ns - at, np.int64(self.step_ns))

    def at_or_before(self, at_ns: ArrayLike) -> Int64:
        """The last phase at or before each instant."""
        at = np.asarray(at_ns, dtype=np.int64)
        return at - np.mod(at - self.first_ns, np.int64(self.step_ns))

    def count(self, first_ns: ArrayLike, last_ns: ArrayLike) -> Int64:
        """How many phases there are from first_ns to last_ns, both included; 0 if last_ns is before."""
        there = (self.at_or_before(last_ns) - self.at_or_after(first_ns)) // self.step_ns + 1
        counted: Int64 = np.maximum(there, 0)
        return counted

    def phases(self, cycle_ns: int) -> Iterator[int]:
        """Each phase in a cycle, in its order."""
        return iter(range(self.first_ns, cycle_ns, self.step_ns))


def slots_late(
    departure_ns: ArrayLike,
    launch_ns: ArrayLike,
    schedule: Schedule,
    traffic_class: int,
    guard_ns: int,
    early_ns: int = 0,
) -> Int64:
    """How many windows of its class after its own each packet departed; int64, in the shape of the instants.

    departure_ns, launch_ns: int64 TAI. A packet's own window is the first one that has room for it, guard_ns, at or
    after its launch: 0 is a packet that left in it, or after it and before the next one opened; −1 one that left
    before its own opened. With txtime-assist give launch + txtime_delay. early_ns: windows appear this much before
    the schedule has them. A class whose gate never closes has one window: 0 for all. ValueError: no window has room.
    """
    launch, departure = np.broadcast_arrays(
        np.asarray(launch_ns, dtype=np.int64), np.asarray(departure_ns, dtype=np.int64)
    )
    windows = schedule.windows(traffic_class)
    if any(window.length_ns is None for window in windows):
        return np.zeros(launch.shape, dtype=np.int64)
    # Windows that are too short for this packet are not its own; they are windows anyway.
    fitting = Openings.of(schedule.cycle_ns, windows, guard_ns)
    every = Openings.of(schedule.cycle_ns, windows, 0)
    opened = fitting.opens_ns(fitting.index(launch - schedule.shift_ns))
    return _begun(every, departure - schedule.shift_ns + early_ns) - _begun(every, opened)


def _begun(openings: Openings, at_ns: Int64) -> Int64:
    """The number of the last window that began at or before each instant."""
    cycle, phase = np.divmod(at_ns, np.int64(openings.cycle_ns))
    begun: Int64 = cycle * len(openings.start_ns) + np.searchsorted(openings.start_ns, phase, side="right") - 1
    return begun
