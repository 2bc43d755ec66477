"""What a kernel did around late packets, of traces whose events are known."""

from __future__ import annotations

import polars as pl

from latlab.analysis.around import MOST, kept_windows
from latlab.recordings.arrow import no_recording

IRQ, IRQ_END, SOFTIRQ, SOFTIRQ_END, WAKING, SWITCH = 1, 2, 6, 7, 11, 12
IDLE, RELAY, DD, OTHER = 0, 7, 8, 9
ASLEEP, WOULD_RUN_ON = 1, 0

TRACE = no_recording("trace").table.schema
TASKS = pl.DataFrame(
    [(0, RELAY, "relay", False), (0, DD, "dd", False)], schema=no_recording("tasks").table.schema, orient="row"
)


def trace(*events: tuple[int, int, int, int, int | None, int | None]) -> pl.DataFrame:
    """(instant, CPU, event, thread that ran, subject, detail)."""
    found = [(at, cpu, event, 0, 0, pid, subject, detail) for at, cpu, event, pid, subject, detail in events]
    return pl.DataFrame(found, schema=TRACE, orient="row")


def kept(*windows: tuple[int, int, bool]) -> pl.DataFrame:
    return pl.DataFrame(list(windows), schema=no_recording("kept").table.schema, orient="row")


def test_threads_run_wait_and_sleep_and_interrupts_are_served() -> None:
    (window,) = kept_windows(
        trace(
            # CPU 0: dd since before; the relay is woken, waits for 30, runs for 20 and sleeps.
            (110, 0, WAKING, DD, RELAY, 0),
            (140, 0, SWITCH, DD, RELAY, WOULD_RUN_ON),
            (160, 0, SWITCH, RELAY, DD, ASLEEP),
            # CPU 1: idle all the time, but for an interrupt and its softirq.
            (150, 1, IRQ, IDLE, 36, None),
            (153, 1, IRQ_END, IDLE, 36, 1),
            (154, 1, SOFTIRQ, IDLE, 3, None),
            (159, 1, SOFTIRQ_END, IDLE, 3, None),
            # Of no window.
            (300, 0, SWITCH, DD, OTHER, WOULD_RUN_ON),
        ),
        TASKS,
        kept((100, 200, True)),
    )
    assert (window.from_tai_ns, window.to_tai_ns, window.whole, window.events) == (100, 200, True, 7)
    assert [(one.comm, one.ns) for one in window.ran] == [("dd", 80), ("relay", 20)]
    assert [(one.comm, one.ns) for one in window.waited] == [("relay", 30), ("dd", 20)]
    assert (window.interrupts_ns, window.softirqs_ns) == (3, 5)


def test_who_has_not_run_until_the_end_waited_until_then_and_who_runs_already_does_not_wait() -> None:
    (window,) = kept_windows(
        trace(
            (110, 0, WAKING, DD, OTHER, 0),
            (120, 0, WAKING, DD, DD, 0),
            # One that had begun before, and one that goes on behind.
            (130, 0, IRQ_END, DD, 36, 1),
            (190, 0, IRQ, DD, 36, None),
        ),
        TASKS,
        kept((100, 200, False)),
    )
    assert [(one.comm, one.ns) for one in window.ran] == [("dd", 100)]
    assert [(one.comm, one.ns) for one in window.waited] == [(None, 90)]
    assert (window.whole, window.interrupts_ns, window.softirqs_ns) == (False, 40, 0)


def test_the_longest_windows_are_described_in_order_of_time() -> None:
    every = [(1_000 * n, 1_000 * n + 10 + n, True) for n in range(MOST + 5)]
    found = kept_windows(trace(), TASKS, kept(*every))
    assert [one.from_tai_ns for one in found] == [begin for begin, _, _ in every[5:]]
    assert {(one.events, one.interrupts_ns) for one in found} == {(0, 0)}


def test_parts_of_a_window_that_meet_are_one_window_which_is_whole_if_all_are() -> None:
    # The second begins where the first ends, the third is inside it; the last is apart by more than an instant.
    parts = ((151, 200, True), (100, 150, True), (160, 170, False), (202, 210, True))
    found = kept_windows(trace((140, 0, SWITCH, DD, RELAY, ASLEEP)), TASKS, kept(*parts))
    assert [(one.from_tai_ns, one.to_tai_ns, one.whole) for one in found] == [(100, 200, False), (202, 210, True)]
    assert [(one.comm, one.ns) for one in found[0].ran] == [("relay", 60), ("dd", 40)]
