"""Packets that missed their slot: found, counted, and distinguished."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from latlab.analysis.frames import FrameSize
from latlab.analysis.gate_port import GatePort, gates_of, slots_of
from latlab.analysis.gates import GateEntry, Schedule
from latlab.analysis.promise import GatedStream, Handover, LaunchQueue, Mode

CYCLE_NS = 500_000
OPEN_NS = 100_000
START_NS = 1_735_689_600_000_000_000 // CYCLE_NS * CYCLE_NS
PERIOD_NS = 1_000_000
FRAME = FrameSize(64)


def port(mode: Mode = "software", queue: LaunchQueue | None = None, shift_ns: int = 0) -> GatePort:
    """One class that is open for the first fifth of a cycle."""
    schedule = Schedule((GateEntry((0,), OPEN_NS), GateEntry((), CYCLE_NS - OPEN_NS)), shift_ns)
    flow = GatedStream("control", 0, 0, PERIOD_NS, FRAME, Handover.of(mode, 300_000, queue, None))
    beneath = {0: queue} if queue else {}
    return GatePort("sensor.eth0", mode, schedule, 10**9, FrameSize.largest(1500, vlan=True), (flow,), beneath=beneath)


def packets(
    departures_ns: list[int | None], *, warmup: int = 0, stamp: str = "tx_soft", offset_ns: int = 0
) -> pl.DataFrame:
    """One stream: the departures count from each packet's launch. All arrive 5 µs after that."""
    launch = np.array([START_NS + offset_ns + n * PERIOD_NS for n in range(len(departures_ns))])
    left = [None if after is None else int(at) + after for at, after in zip(launch, departures_ns, strict=True)]
    arrived = [None if at is None else at + 5_000 for at in left]
    columns: dict[str, Any] = {
        "sequence": pl.Series(range(len(launch)), dtype=pl.UInt64),
        "launch_tai_ns": launch,
        "warmup": [n < warmup for n in range(len(launch))],
        "rx_soft_tai_ns": pl.Series(arrived, dtype=pl.Int64),
        "rx_hard_tai_ns": pl.Series([None] * len(launch), dtype=pl.Int64),
        "rx_user_tai_ns": pl.Series(arrived, dtype=pl.Int64),
        "arrival": pl.Series([None if at is None else n for n, at in enumerate(arrived)], dtype=pl.UInt64),
        "send_error": pl.Series([0] * len(launch), dtype=pl.Int32),
        "launch_error": pl.Series([0] * len(launch), dtype=pl.UInt8),
    }
    for name in ("tx_soft", "tx_hard"):
        columns[f"{name}_tai_ns"] = pl.Series(left if name == stamp else [None] * len(launch), dtype=pl.Int64)
    return pl.DataFrame(columns)


def test_packets_that_left_in_later_windows_missed_their_slot() -> None:
    one = port()
    rows = packets([20_000, 99_000, 500_000, 1_520_000, None, 0], warmup=1)
    found, missed = slots_of(rows, one, one.flows[0])
    assert (found.from_, found.left, found.missed, found.early) == ("tx_soft", 4, 2, 0)
    assert found.windows_late == {"1": 1, "3": 1}
    assert (found.first_missed, found.last_missed) == (2, 3)
    assert (found.least_ns, found.most_ns) == (0, 1_520_000)
    assert missed.to_list() == [False, False, True, True, False, False]


def test_what_is_reported_without_them_is_of_the_others_alone() -> None:
    one = port()
    found = gates_of(packets([20_000, 500_000, 30_000]), one, one.flows[0], PERIOD_NS)
    assert found is not None
    document = found.document()
    assert document["from"] == "tx_soft" and document["missed"] == 1
    assert (document["in_slot"]["latency"]["n"], document["in_slot"]["latency"]["max"]) == (2, 35_000)
    assert document["promised"]["earliest_ns"] == document["promised"]["latest_ns"] == 0
    kept = gates_of(packets([20_000, 40_000]), one, one.flows[0], PERIOD_NS)
    assert kept is not None and (kept.missed, kept.in_slot) == (0, {})


def test_a_launch_in_a_closed_gate_has_the_next_window() -> None:
    one = port()
    flow = GatedStream("control", 0, 200_000, PERIOD_NS, FRAME)
    found, _ = slots_of(packets([301_000, 801_000], offset_ns=200_000), one, flow)
    assert (found.missed, found.windows_late) == (1, {"1": 1})


def test_a_shift_moves_the_windows() -> None:
    one = port(shift_ns=250_000)
    # Launched 250 µs before its window, it has until 350 µs after its launch.
    found, _ = slots_of(packets([260_000, 760_000, 240_000]), one, one.flows[0])
    assert (found.missed, found.early) == (1, 1)


def test_windows_of_txtime_assist_are_a_delta_early() -> None:
    one = port("txtime-assist", LaunchQueue(200_000))
    # Launch times are 300 µs or more after the launch: those of the next cycle's window, less the delta.
    found, _ = slots_of(packets([300_000, 390_000, 800_000]), one, one.flows[0])
    assert (found.missed, found.early) == (1, 0)


@pytest.mark.parametrize(("mode", "queue"), [("offload", None), ("txtime-assist", LaunchQueue(200_000, offload=True))])
def test_a_nic_that_keeps_the_gates_says_itself_when_packets_left(mode: Mode, queue: LaunchQueue | None) -> None:
    one = port(mode, queue)
    unknown, missed = slots_of(packets([20_000]), one, one.flows[0])
    assert (unknown.from_, unknown.left) == (None, 0) and not missed.any()
    known, _ = slots_of(packets([520_000], stamp="tx_hard"), one, one.flows[0])
    assert (known.from_, known.left) == ("tx_hard", 1)


def test_a_stream_that_no_gate_holds_is_not_spoken_of() -> None:
    one = port("txtime-assist", LaunchQueue(200_000, deadline=True))
    assert gates_of(packets([20_000]), one, one.flows[0], PERIOD_NS) is None
