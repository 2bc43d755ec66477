"""Guests that KVM ran, as agents recorded them on an emulated board: every stage from the VM host's interrupt on.

recorded/: 0.3 s of a timer each 10 ms in a guest with a PREEMPT_RT kernel (Debian 12, 6.1.0-56-rt) and in one without
(6.1.0-56-cloud), and 60 ms of packets each 1006 µs into a PREEMPT_RT guest; the VM host is PREEMPT_RT, 6.12.117.
NAME.parquet: the events of both kernels; NAME.json: what the thread waited for, threads by number, and by how much an
exchange of timestamps found the guest's clock ahead, ± ns, where a stream ran between the two.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from latlab.analysis import guest_clock as clocks
from latlab.analysis.guest_clock import guest_clock
from latlab.analysis.interrupt_way import (
    NO_ACCEPTANCE,
    NO_CLOCK,
    NO_REQUEST,
    NO_VCPU,
    NO_VECTOR,
    NOT_TRACED,
    REASONS,
)
from latlab.analysis.interrupts import ACCEPT, ENTRY, EXIT, INJECT, IRQ_ENTRY, MSI
from latlab.analysis.reception import VmHost, receptions, timer_wakings
from support.analysis.traces import trace

RECORDED = Path(__file__).parent / "recorded"
WAITS = {"stream": pl.UInt16, "sequence": pl.UInt64}
TASKS = {"pid": pl.Int32, "comm": pl.String, "kernel": pl.Boolean}
TIMER = ["wake_due", "host_irq", "host_waking", "host_run", "accepted", "injected", "entered", "irq", "waking", "run"]
PACKET = [
    *("host_irq", "host_softirq", "host_waking", "host_run", "asked", "accepted", "injected", "entered", "irq"),
    *("softirq", "rx_soft", "waking", "run", "rx_user"),
]


class Recorded:
    """One of the recordings."""

    def __init__(self, name: str) -> None:
        said = json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))
        events = pl.read_parquet(RECORDED / f"{name}.parquet")
        self.trace, self.entries = (events.filter(pl.col("side") == side).drop("side") for side in ("guest", "host"))
        self.thread: int = said["thread"]
        self.waits = pl.DataFrame(said["waits"], schema_overrides=WAITS)
        self.tasks, self.entry_tasks = (pl.DataFrame(said[key], schema=TASKS) for key in ("tasks", "entry_tasks"))
        self.compared: list[int] | None = said["ahead"]
        self.breakdowns = timer_wakings if "wake_due_tai_ns" in self.waits.columns else receptions

    def document(self, entries: pl.DataFrame | None = None) -> dict[str, Any]:
        """Its document, if these are the VM host's events."""
        host = VmHost(self.entries if entries is None else entries, self.ahead, self.entry_tasks)
        (found,) = self.breakdowns(self.waits, self.trace, self.tasks, self.thread, host).values()
        return found.document()

    def ahead(self, at_ns: Any) -> Any:
        estimate_ns, half_ns = self.compared or (0, 0)
        n = len(at_ns)
        return np.full(n, estimate_ns), np.full(n, half_ns), np.full(n, self.compared is not None)


@pytest.fixture(params=["rt-timer", "cloud-timer", "rt-packets"])
def recorded(request: pytest.FixtureRequest) -> Recorded:
    return Recorded(request.param)


def test_every_one_has_all_its_stages_and_they_add_up(recorded: Recorded) -> None:
    found = recorded.document()
    assert (found["n"], found["whole"], found["missing"]) == (recorded.waits.height, recorded.waits.height, [])
    expected = PACKET if "rx_user_tai_ns" in recorded.waits.columns else [*TIMER, "wake"]
    chain = found["chain"]
    assert chain["stops"] == expected
    assert found["entry"]["told"] == found["n"]
    begin, end = (f"{'rx_soft' if expected is PACKET else 'wake_due'}_tai_ns", f"{expected[-1]}_tai_ns")
    value_ns = dict(recorded.waits.select("sequence", pl.col(end) - pl.col(begin)).iter_rows())
    for one in chain["worst"]["each"]:
        stops = one.get("stops", chain["stops"])
        assert sum(one["ns"]) == one["value_ns"]
        assert sum(one["ns"][stops.index(begin.removesuffix("_tai_ns")) :]) == value_ns[one["sequence"]]


def test_only_what_ends_at_the_guests_clock_may_be_below_zero_and_by_no_more_than_the_clocks(
    recorded: Recorded,
) -> None:
    found = recorded.document()
    off = found["entry"]["uncertainty_ns"]
    assert 0 < off < 2_000
    for one in found["intervals"]:
        # The VM host's timer may be set ahead of the guest's instant.
        if one["from"] != "wake_due":
            assert one["min"] >= -off if (one["from"], one["to"]) == ("entered", "irq") else one["min"] >= 0


def test_what_ran_instead_is_named(recorded: Recorded) -> None:
    entry = recorded.document()["entry"]
    assert sum(one["n"] for one in entry["interrupted"]) == sum(one["n"] for one in entry["ran"]) > 0
    assert {one["what"] for one in entry["interrupted"]} <= {"guest idle", "guest user", "guest kernel", "hypervisor"}
    assert {one["what"] for one in entry["ran"]} <= {"idle", "vCPU", "thread", "kernel thread", "softirq"}


def test_a_threaded_handlers_interrupt_is_the_one_of_its_threads_number() -> None:
    packets = Recorded("rt-packets")
    found = packets.document()
    assert [(one["comm"], one["n"]) for one in found["raised_by"]] == [("irq/27-virtio1-", found["n"])]
    nameless = packets.tasks.with_columns(comm=pl.lit(None, pl.String))
    host = VmHost(packets.entries, packets.ahead, packets.entry_tasks)
    (breakdown,) = receptions(packets.waits, packets.trace, nameless, packets.thread, host).values()
    unknown = breakdown.document()
    assert [(one["id"], one["n"]) for one in unknown["missing"]] == [("softirq-by-thread", found["n"])]
    assert unknown["whole"] == 0


@pytest.mark.parametrize(
    ("name", "left_out", "why"),
    [
        ("rt-timer", ENTRY, NO_CLOCK),
        ("rt-packets", ENTRY, NO_VCPU),
        ("rt-packets", INJECT, NO_VECTOR),
        ("rt-packets", ACCEPT, NO_ACCEPTANCE),
        ("rt-packets", MSI, NO_REQUEST),
        ("rt-timer", MSI, None),
    ],
)
def test_what_the_vm_host_does_not_report_is_the_reason(name: str, left_out: int, why: str | None) -> None:
    packets = Recorded(name)
    found = packets.document(packets.entries.filter(pl.col("event") != left_out))
    if why is None:
        assert (found["whole"], found["missing"]) == (found["n"], [])
        return
    assert found["missing"] == [{"id": why, "n": found["n"], "reason": REASONS[why]}]
    assert found["whole"] == 0


def test_a_guest_whose_vm_host_was_not_traced_has_that_for_a_reason() -> None:
    timer = Recorded("rt-timer")
    args = (timer.waits, timer.trace, timer.tasks, timer.thread)
    (without,), (bare,) = timer_wakings(*args, None, NOT_TRACED).values(), timer_wakings(*args).values()
    found, native = without.document(), bare.document()
    assert found["missing"] == [{"id": NOT_TRACED, "n": found["n"], "reason": REASONS[NOT_TRACED]}]
    assert (native["whole"], native["missing"]) == (native["n"], [])


TIMERS = pytest.mark.parametrize("name", ["rt-timer", "cloud-timer"])


@TIMERS
def test_a_guests_clock_is_bounded_by_the_two_traces(name: str) -> None:
    recorded = Recorded(name)
    whole = guest_clock(recorded.trace, recorded.entries)
    assert whole is not None and 0 < whole.upper_ns[0] - whole.lower_ns[0] < 4_000
    moved = guest_clock(recorded.trace.with_columns(pl.col("tai_ns") + 7_000_000_123), recorded.entries)
    assert moved is not None
    assert moved.lower_ns[0] - whole.lower_ns[0] == moved.upper_ns[0] - whole.upper_ns[0] == 7_000_000_123


@TIMERS
def test_a_guests_event_while_its_vcpu_was_idle_leaves_no_offset(name: str) -> None:
    recorded = Recorded(name)
    clock = guest_clock(recorded.trace, recorded.entries)
    assert clock is not None
    turns = recorded.entries.filter(pl.col("event").is_in([ENTRY, EXIT]))
    left, entered = (turns.filter(pl.col("event") == event)["tai_ns"].to_numpy() for event in (EXIT, ENTRY))
    middle = left[len(left) // 4 : -len(left) // 4]
    away = entered[np.searchsorted(entered, middle)] - middle
    idle_ns = int(middle[np.argmax(away)] + away.max() // 2)
    stray = recorded.trace[0].with_columns(tai_ns=pl.lit(idle_ns + int(clock.lower_ns[0])))
    together = pl.concat([recorded.trace, stray]).sort("tai_ns")
    assert guest_clock(together, recorded.entries) is None


def test_clocks_that_drift_are_bounded_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    timer = Recorded("rt-timer")
    true = guest_clock(timer.trace, timer.entries)
    assert true is not None
    first_ns = timer.trace["tai_ns"][0]
    # 20 ppm: 6 µs over the recording, 1 µs over a piece.
    drifting = timer.trace.with_columns(pl.col("tai_ns") + (pl.col("tai_ns") - first_ns) // 50_000)
    monkeypatch.setattr(clocks, "_PIECE_NS", 50_000_000)
    found = guest_clock(drifting, timer.entries)
    assert found is not None and len(found.begins_ns) > 1
    at_ns = timer.waits["wake_due_tai_ns"].to_numpy()
    ahead_ns, half_ns, known = found.ahead(at_ns)
    assert known.all()
    expected_ns = true.ahead(at_ns)[0] + (at_ns - first_ns) // 50_000
    assert (np.abs(ahead_ns - expected_ns) <= half_ns + (true.upper_ns[0] - true.lower_ns[0])).all()


def test_what_else_is_known_of_the_offset_may_exclude_what_the_traces_allow() -> None:
    packets = Recorded("rt-packets")
    assert packets.compared is not None
    ahead_ns, half_ns = packets.compared
    found = guest_clock(packets.trace, packets.entries, (ahead_ns - half_ns, ahead_ns + half_ns))
    assert found is not None and found.upper_ns[0] - found.lower_ns[0] < half_ns
    assert guest_clock(packets.trace, packets.entries, (ahead_ns + 10**6, ahead_ns + 2 * 10**6)) is None


def test_what_repeats_with_one_period_alone_allows_no_one_offset() -> None:
    period = 1_000_000
    at = [10**15 + number * period for number in range(400)]
    host = [
        event
        for begin in at
        for event in ((begin, 0, INJECT, 500, 36), (begin + 5, 0, ENTRY, 500, 0), (begin + 900, 0, EXIT, 500, 1))
    ]
    guest = [(begin + 100, 0, IRQ_ENTRY, 0, 36) for begin in at[100:300]]
    assert guest_clock(trace(*guest), trace(*host)) is None
    near = guest_clock(trace(*guest), trace(*host), (-period // 3, period // 3))
    assert near is not None and (near.lower_ns[0], near.upper_ns[0]) == (-800, 95)


def test_reasons_have_ids_that_name_one_thing() -> None:
    assert len(set(REASONS.values())) == len(REASONS)
    assert all(one == one.lower() and " " not in one for one in REASONS)
