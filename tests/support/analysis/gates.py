"""Small gate schedules, and what a walk from nanosecond to nanosecond finds in them."""

from __future__ import annotations

from hypothesis import strategies as st

from latlab.analysis.gates import GateEntry, Schedule

CLASS = 0
SCHEDULES = st.builds(
    lambda entries, shift: Schedule(entries, shift % sum(entry.length_ns for entry in entries)),
    st.lists(
        st.builds(GateEntry, st.sampled_from([(), (0,), (1,), (0, 1), (1, 2)]), st.integers(1, 14)),
        min_size=1,
        max_size=7,
    ).map(tuple),
    st.integers(0, 100),
)

EXPERIMENT_1 = Schedule(
    (GateEntry((0, 1), 101_000), GateEntry((1,), 103_000), GateEntry((1, 2), 109_000), GateEntry((1, 3), 190_000))
)
"""Of the published measurements: cycle 503 µs."""


def entry_at(schedule: Schedule, phase: int) -> int:
    """The number of the entry at a phase, counted from cycle to cycle."""
    cycle, rest = divmod(phase, schedule.cycle_ns)
    number = max(n for n, start in enumerate(schedule.starts_ns) if start <= rest)
    return cycle * len(schedule.entries) + number


def is_open(schedule: Schedule, phase: int, traffic_class: int = CLASS) -> bool:
    return traffic_class in schedule.entries[entry_at(schedule, phase) % len(schedule.entries)].open


def has_room(schedule: Schedule, at: int, guard_ns: int, *, within_entry: bool) -> bool:
    """True if the gate is open from `at` on for guard_ns, in one entry if asked."""
    stretch = range(at, at + guard_ns)
    apart = {entry_at(schedule, one) for one in stretch}
    return all(is_open(schedule, one) for one in stretch) and (not within_entry or len(apart) == 1)


def departs(schedule: Schedule, at: int, guard_ns: int, *, within_entry: bool) -> int | None:
    """The first instant from `at` on at which there is room; None if there is none in two cycles."""
    for one in range(at, at + 2 * schedule.cycle_ns + 1):
        if has_room(schedule, one, guard_ns, within_entry=within_entry):
            return one
    return None
