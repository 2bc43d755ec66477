"""Traces as agents record them: events that the tests make, and the threads in them."""

from __future__ import annotations

import polars as pl

from latlab.analysis.interrupts import IRQ_ENTRY, IRQ_EXIT, SOFTIRQ_ENTRY, SOFTIRQ_EXIT, SOFTIRQ_RAISE, SWITCH, WAKING

READER, SENDER, HOG, KTHREAD, VCPU_THREAD = 100, 200, 300, 17, 400
NIC, NET_RX, TIMER = 36, 3, 236
COLUMNS = {
    "tai_ns": pl.Int64,
    "cpu": pl.UInt16,
    "event": pl.UInt8,
    "flags": pl.UInt8,
    "preempt": pl.UInt8,
    "pid": pl.Int32,
    "subject": pl.Int64,
    "detail": pl.Int64,
}

Event = tuple[int, int, int, int, int | None] | tuple[int, int, int, int, int | None, int]
"""When, on which CPU, what, while which thread ran, of what, and what more of it."""


def trace(*events: Event, flags: int = 1) -> pl.DataFrame:
    """A recording of these events, in the order in which they are given."""
    rows = [
        (at, cpu, event, flags, 0, pid, subject, *(more or (None,))) for at, cpu, event, pid, subject, *more in events
    ]
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def received(begin: int, cpu: int = 0, ran: int = 0, run_cpu: int | None = None) -> list[Event]:
    """A packet by a card: interrupt, softirq 10 later, the reader woken at 30, running at 40 on run_cpu."""
    return [
        (begin, cpu, IRQ_ENTRY, ran, NIC),
        (begin + 4, cpu, SOFTIRQ_RAISE, ran, NET_RX),
        (begin + 6, cpu, IRQ_EXIT, ran, NIC),
        (begin + 10, cpu, SOFTIRQ_ENTRY, ran, NET_RX),
        (begin + 30, cpu, WAKING, ran, READER),
        (begin + 35, cpu, SOFTIRQ_EXIT, ran, NET_RX),
        (begin + 40, cpu if run_cpu is None else run_cpu, SWITCH, ran, READER),
    ]


def tasks(*known: tuple[int, str, bool]) -> pl.DataFrame:
    """Threads by number, name and whether they are the kernel's own."""
    schema = {"pid": pl.Int32, "comm": pl.String, "kernel": pl.Boolean}
    return pl.DataFrame(known, schema=schema, orient="row").with_columns(tai_ns=pl.lit(0))


PERIOD = 1_000
COUNT = 1_200
LATE = 700
"""The packet that is late, and by whom it was made late: its reader begins to run only so much later, ns."""
LATER = 400
KNOWN = tasks((HOG, "hog", False), (VCPU_THREAD, "CPU 0/KVM", False))


def listened(count: int = COUNT, stream: int = 1) -> tuple[pl.DataFrame, list[Event]]:
    """Packets of a card, each with its interrupt while a vCPU ran, and what they make; one of them is late."""
    events: list[Event] = []
    rows = []
    for number in range(count):
        begin = 10_000 + number * PERIOD
        later = LATER if number == LATE else 0
        ran = HOG if number == LATE else VCPU_THREAD
        *way, run = received(begin, ran=ran)
        events += [*way, (run[0] + later, *run[1:])]
        rows.append((stream, number, begin + 20, begin + 47 + number % 3 + later, True))
    schema = {
        "stream": pl.UInt16,
        "sequence": pl.UInt64,
        "rx_soft_tai_ns": pl.Int64,
        "rx_user_tai_ns": pl.Int64,
        "counted": pl.Boolean,
    }
    return pl.DataFrame(rows, schema=schema, orient="row"), events
