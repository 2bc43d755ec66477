"""Packets that were watched on two kernels: how long they took is known within what is known of the two clocks."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from latlab.analysis.summary import summarise_cell
from latlab.evaluation.cell import flow_reasons
from latlab.recordings.cell import ClockEdge, ClockWindow, RecordedCell, WatchedBy, WatchedFlow, WatchedPoint
from latlab.recordings.run_folder import CellFolder
from latlab.result.types import Cell
from latlab.run.flows import FlowsRead, flow_recording, read_flows
from support.recordings import RUN_ID, recording_bytes

US, MS, S = 1_000, 1_000_000, 1_000_000_000
START = 1_763_830_000 * S
AHEAD_NS, PPM = 5 * S, 20
"""By how much the guest's clock is ahead at the start, and runs too fast."""
HALF_NS = 200
"""How well the comparisons know it."""
COUNT, PERIOD = 200, 5 * MS
LOST = {10, 11}
THERE = "seen.sensor.eth0-out-to-vm1.eth0-in"


def took_ns(number: int) -> int:
    return 250 * US + 10 * number


def guests(tai_ns: int) -> int:
    """What the guest's clock shows when the host's shows this."""
    return tai_ns + AHEAD_NS + (tai_ns - START) * PPM // 1_000_000


def frame(number: int) -> bytes:
    payload = struct.pack("<Q", number) * 8
    udp = struct.pack("!HHHH", 4000, 5700, 8 + len(payload), 0) + payload
    ends = socket.inet_aton("10.78.0.1") + socket.inet_aton("10.78.0.11")
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, 17, 0) + ends
    return bytes(12) + b"\x08\x00" + ip + udp


def record(folder: Path, host: str, seen: Sequence[tuple[int, int]], *, out: bool) -> None:
    """seen: (instant, number) of each packet."""
    rows = [(tai_ns, 0, out, True, len(frame(n)), frame(n), 1) for tai_ns, n in seen]
    (folder / f"{flow_recording('seen', host)}.watched.arrow").write_bytes(recording_bytes("watched", [rows]))


def page() -> ClockEdge:
    """The comparisons of the two clocks, ten a second."""
    windows = []
    for tenth in range(-1, 13):
        at = START + tenth * S // 10
        offset = guests(at) - at
        told = {"drift_lower_ppb": 1000 * PPM - 100, "drift_upper_ppb": 1000 * PPM + 100, "span_ns": S // 10}
        bounds = {"lower_ns": offset - HALF_NS, "upper_ns": offset + HALF_NS}
        windows.append(ClockWindow.model_validate({"reference_tai_ns": at, **bounds, **told}))
    return ClockEdge(from_="sensor", to="vm1", source="shared page", windows=windows)


@pytest.fixture
def flow(tmp_path: Path) -> WatchedFlow:
    """A flow from a host to its guest: of COUNT packets the LOST do not come, and each takes took_ns."""
    sent = [(START + n * PERIOD, n) for n in range(COUNT)]
    record(tmp_path, "sensor", sent, out=True)
    record(tmp_path, "vm1", [(guests(at + took_ns(n)), n) for at, n in sent if n not in LOST], out=False)
    ends = {"from_tai_ns": START, "until_tai_ns": START + S}
    guests_ends = {name: guests(tai_ns) for name, tai_ns in ends.items()}
    return WatchedFlow(
        name="seen",
        flow="udp port 5700",
        filter={},
        snap=128,
        run_id=RUN_ID,
        points=[
            WatchedPoint(name="sensor.eth0", kernel=0, number=0, directions=["out"]),
            WatchedPoint(name="vm1.eth0", kernel=1, number=0, directions=["in"]),
        ],
        kernels=[
            WatchedBy.model_validate({"host": host, "recording": flow_recording("seen", host), "ready": {}, **own})
            for host, own in (("sensor", ends), ("vm1", guests_ends))
        ],
    )


def cell_of(found: FlowsRead, folder: Path, clocks: list[ClockEdge]) -> tuple[RecordedCell, Cell]:
    recorded = RecordedCell(
        slug="all", repeat=1, status="ok", label="measured", streams=found.streams, clocks=clocks, flows=found.flows
    )
    return recorded, summarise_cell(recorded, pl.read_parquet(CellFolder(folder).flow_packets_path("seen")))


def test_a_time_between_two_kernels_is_right_within_what_is_known_of_their_clocks(
    flow: WatchedFlow, tmp_path: Path
) -> None:
    clocks = [page()]
    found = read_flows([flow], CellFolder(tmp_path), clocks, 7)
    assert [stream.stream for stream in found.streams] == [7, 8, 9]
    recorded, cell = cell_of(found, tmp_path, clocks)
    stream = cell.streams[THERE]
    figures = stream.metrics["transit"]
    assert (stream.talker, stream.listener, stream.clock, stream.flow) == ("sensor", "vm1", "shared page", "seen")
    assert (figures.n, figures.lost, figures.unbounded) == (COUNT - len(LOST), len(LOST), 0)
    bound = figures.uncertainty_ns
    assert bound is not None and HALF_NS <= bound < 2 * HALF_NS
    assert figures.min is not None and abs(figures.min - took_ns(0)) <= bound
    assert figures.max is not None and abs(figures.max - took_ns(COUNT - 1)) <= bound
    assert cell.streams["seen.at-vm1.eth0-in"].metrics["interarrival"].uncertainty_ns == 0
    assert list(flow_reasons(recorded, cell.streams)) == []


def test_without_a_comparison_no_time_between_two_kernels_is_told(flow: WatchedFlow, tmp_path: Path) -> None:
    recorded, cell = cell_of(read_flows([flow], CellFolder(tmp_path), [], 1), tmp_path, [])
    figures = cell.streams[THERE].metrics["transit"]
    assert (figures.n, figures.unbounded, figures.uncertainty_ns) == (0, COUNT - len(LOST), None)
    assert cell.streams["seen.at-sensor.eth0-out"].metrics["interarrival"].n == COUNT - 1
    (reason,) = flow_reasons(recorded, cell.streams)
    assert (reason.id, reason.severity, reason.where) == ("clock-bound", "untrusted", f"{THERE}.transit")


def test_packets_that_may_still_be_in_flight_at_the_end_are_not_lost(flow: WatchedFlow, tmp_path: Path) -> None:
    sent = [(START + n * PERIOD, n) for n in range(COUNT)]
    record(tmp_path, "vm1", [(guests(at + took_ns(n)), n) for at, n in sent[:150]], out=False)
    until = {"until_tai_ns": sent[149][0]}
    kernels = [flow.kernels[0].model_copy(update=until), flow.kernels[1]]
    clocks = [page()]
    found = read_flows([flow.model_copy(update={"kernels": kernels})], CellFolder(tmp_path), clocks, 1)
    _, cell = cell_of(found, tmp_path, clocks)
    figures = cell.streams[THERE].metrics["transit"]
    assert (figures.n, figures.lost) == (150, 0)


def test_a_recording_that_is_not_there_leaves_the_flow_unread(flow: WatchedFlow, tmp_path: Path) -> None:
    next(tmp_path.glob("flow-seen-vm1.*")).unlink()
    found = read_flows([flow], CellFolder(tmp_path), [page()], 1)
    told: Any = found.flows[0].packets
    assert (found.streams, told) == ([], None)
