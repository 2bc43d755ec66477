"""A relay does a known thing to the packets in flight: just that comes out of the measurement."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import latlab
from latlab.evaluation.run import make_result
from latlab.recordings.run_folder import CellFolder, RunFolder
from support.agent.bed import Bed
from support.agent.relay import Relay, Rule, double, drop, hold, stall, swap_pairs
from support.agent.streams import MS, Measured, Measurement, Stream, relayed

pytestmark = pytest.mark.real

STREAM = relayed(Stream(period_ns=2 * MS, count=200))
HOLD_NS = 20 * MS
STALL_NS = 200 * MS


@dataclass(frozen=True)
class Relayed:
    """A measurement through a relay, what the relay saw, and the counts and metrics of result.json."""

    measured: Measured
    relay: Relay
    counts: dict[str, int]
    metrics: dict[str, dict[str, Any]]
    run: Path

    def on_their_way(self) -> pl.DataFrame:
        """The packets that arrived, with `came` and `went`: when the relay had them."""
        came = pl.DataFrame(list(self.relay.came.items()), schema=["sequence", "came"], orient="row")
        went = pl.DataFrame(list(dict(self.relay.went).items()), schema=["sequence", "went"], orient="row")
        relayed = came.join(went, on="sequence").cast({"sequence": pl.UInt64})
        return self.measured.packets.join(relayed, on="sequence")


def through(bed: Bed, folder: Path, rule: Rule, *, complete: bool = True) -> Relayed:
    """What came of STREAM through a relay with this rule."""
    run = RunFolder.create(folder, "relayed")
    cell = CellFolder(run.path / "cells" / "all" / "r1")
    inward = bed.udp("relay", "10.78.0.2", STREAM.port)
    outward = bed.udp("relay", "10.78.1.1")
    outward.connect(("10.78.1.2", STREAM.port))
    with inward, outward:
        with Relay(inward, outward, rule) as relay:
            measurement = Measurement(bed, cell.path, [STREAM])
            measurement.begin()
            measurement.all_sent()
            while len(relay.came) < STREAM.count:
                time.sleep(0.01)
        measured = measurement.end(complete=complete)
    result = make_result(run).document()
    assert json.loads(run.result_path.read_text()) == result
    (of_cell,) = result["cells"]
    of_stream = of_cell["streams"]["stream1"]
    return Relayed(measured, relay, of_stream["counts"], of_stream["metrics"], run.path)


def assert_counts(found: Relayed, **different: int) -> None:
    """The counts are those of a stream that lost nothing, but for those that are named."""
    whole = dict.fromkeys(found.counts, 0) | dict.fromkeys(("scheduled", "sent", "received"), STREAM.count)
    assert found.counts == whole | different


def test_a_known_hold_comes_out_as_measured(relay_bed: Bed, tmp_path: Path) -> None:
    found = through(relay_bed, tmp_path, hold(HOLD_NS))
    assert_counts(found)
    way = found.on_their_way()
    assert way.height == STREAM.count
    for before, after in (("tx_soft_tai_ns", "came"), ("went", "rx_soft_tai_ns")):
        assert (way[before] <= way[after]).all(), f"{before} to {after}"
    latency, held = way["rx_soft_tai_ns"] - way["launch_tai_ns"], way["went"] - way["came"]
    assert (held >= HOLD_NS).all()
    assert (latency >= held).all()
    # What is left next to the relay's own hold is the talker's lateness and two virtual cables: far less than the hold.
    rest = (latency - held).median()
    assert isinstance(rest, float) and 0 <= rest < HOLD_NS / 2
    assert found.metrics["latency"]["min"] >= HOLD_NS
    assert found.metrics["latency"]["min"] == latency.min()
    assert found.metrics["path"]["min"] >= HOLD_NS
    assert found.metrics["lateness"]["p50"] < HOLD_NS / 2 and found.metrics["delivery"]["p50"] < HOLD_NS / 2


def test_a_stall_on_the_way_falls_with_slope_minus_one_against_the_launch(relay_bed: Bed, tmp_path: Path) -> None:
    found = through(relay_bed, tmp_path, stall(50, STALL_NS))
    assert_counts(found)
    way = found.on_their_way()
    stalled_from = way.filter(pl.col("sequence") == 50)["came"].item()
    stalled = way.filter(pl.col("came").is_between(stalled_from, stalled_from + STALL_NS))
    assert stalled.height > STALL_NS // STREAM.period_ns // 2
    latency = (stalled["rx_soft_tai_ns"] - stalled["launch_tai_ns"]).to_numpy()
    assert (np.diff(latency) >= -STREAM.period_ns).all()
    launch = (stalled["launch_tai_ns"] - stalled_from).to_numpy()
    assert -1.0 <= np.polyfit(launch, latency, 1)[0] < -0.9
    assert latency[0] >= STALL_NS
    assert found.metrics["latency"]["max"] >= STALL_NS


def test_what_the_relay_drops_is_lost_and_nothing_else(relay_bed: Bed, tmp_path: Path) -> None:
    found = through(relay_bed, tmp_path, drop(lambda n: n % 10 == 3), complete=False)
    lost = STREAM.count // 10
    assert_counts(found, lost=lost, received=STREAM.count - lost)
    rows = latlab.load(found.run).packets().filter(pl.col("arrival").is_null())
    assert rows["sequence"].to_list() == list(range(3, STREAM.count, 10))
    assert rows["tx_soft_tai_ns"].null_count() == 0
    assert rows["rx_soft_tai_ns"].null_count() == rows.height
    assert (found.metrics["latency"]["n"], found.metrics["latency"]["lost"]) == (STREAM.count - lost, lost)
    assert found.metrics["lateness"]["n"] == STREAM.count


def test_what_the_relay_doubles_is_duplicated_and_counted_once(relay_bed: Bed, tmp_path: Path) -> None:
    found = through(relay_bed, tmp_path, double(lambda n: n % 7 == 0))
    copies = len(range(0, STREAM.count, 7))
    assert_counts(found, duplicated=copies)
    assert len(found.relay.went) == STREAM.count + copies
    assert found.metrics["latency"]["n"] == STREAM.count


def test_what_the_relay_swaps_is_reordered_and_keeps_its_place(relay_bed: Bed, tmp_path: Path) -> None:
    found = through(relay_bed, tmp_path, swap_pairs())
    assert_counts(found, reordered=STREAM.count // 2)
    arrived = found.measured.packets.sort("arrival")["sequence"].to_list()
    assert arrived == [n + 1 if n % 2 == 0 else n - 1 for n in range(STREAM.count)]
    assert found.measured.listened["streams"][0]["reordered"] == STREAM.count // 2
