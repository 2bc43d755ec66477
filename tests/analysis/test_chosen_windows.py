"""User-defined windows have their own figures, and change no other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from latlab.analysis.anomalies import find_anomalies
from latlab.analysis.statistics import statistics
from latlab.analysis.windows import Named, chosen_of
from latlab.synthetic import Description, generate
from latlab.synthetic.description import Noise, Swing

SECOND = 1_000_000_000
PERIOD_NS = 1_000_000
START = 1_800_000_000_000_000_000
SYNTHETIC = generate(
    Description(
        seed=3,
        packets=30_000,
        period_ns=PERIOD_NS,
        noise=Noise(2_000),
        start_tai_ns=START,
        warmup=1_000,
        clock_bound_ns=10_000_000,
        ingredients=(Swing(10 * SECOND, 8 * SECOND, 60_000, compared=True),),
        least_ns=(8_000, 3_000, 2_000, 3_000, 2_000, 30_000, 3_000, 9_000),
    )
)
ANOMALIES = find_anomalies(SYNTHETIC.packets, SYNTHETIC.context())


def documents(*chosen: Named) -> list[dict[str, Any]]:
    return [one.document() for one in chosen_of(SYNTHETIC.packets, ANOMALIES, START, PERIOD_NS, chosen)]


def latency(first: int, last: int) -> dict[str, Any]:
    """The statistics of the packets from one to another (excluded)."""
    rows = SYNTHETIC.packets[first:last]
    values = (rows["rx_soft_tai_ns"] - rows["launch_tai_ns"]).to_numpy()
    return statistics(values, rows["sequence"].to_numpy()).document()


def test_without_any_there_is_nothing() -> None:
    assert documents() == []


def test_each_has_the_figures_of_the_packets_launched_in_it_and_all_together_theirs() -> None:
    (found,) = documents(Named(20 * SECOND, 25 * SECOND, "later"), Named(2 * SECOND, 4 * SECOND, "first"))
    assert json.loads(json.dumps(found)) == found
    assert [(one["from_ns"], one["why"], one["packets"]) for one in found["kept"]] == [
        (2 * SECOND, "first", 2_000),
        (20 * SECOND, "later", 5_000),
    ]
    assert found["kept"][0]["metrics"]["latency"] == latency(2_000, 4_000)
    assert found["kept"][1]["metrics"]["latency"] == latency(20_000, 25_000)
    assert found["metrics"]["latency"]["n"] == 7_000
    assert found["packets"] == {"whole": 29_000, "kept": 7_000, "cut": 22_000}
    assert not found["after_the_fact"] and not found["passed_over"]


def test_what_clean_windows_would_have_cut_in_it_is_reported() -> None:
    (found,) = documents(Named(12 * SECOND, 14 * SECOND))
    assert [one["class"] for one in found["passed_over"]] == ["clock_swing"]
    assert found["passed_over"][0]["text"].startswith("all latencies moved by up to +")


def test_the_warm_up_is_in_none() -> None:
    (found,) = documents(Named(0, 2 * SECOND))
    assert found["kept"][0]["packets"] == 1_000
    assert found["kept"][0]["metrics"]["latency"] == latency(1_000, 2_000)


def test_those_of_before_and_after_the_fact_are_kept_apart() -> None:
    before, after = documents(
        Named(5 * SECOND, 9 * SECOND, after_the_fact=True), Named(2 * SECOND, 6 * SECOND, "beforehand")
    )
    assert (before["after_the_fact"], after["after_the_fact"]) == (False, True)
    assert (before["metrics"]["latency"], after["metrics"]["latency"]) == (latency(2_000, 6_000), latency(5_000, 9_000))


def test_one_beyond_the_stream_has_no_packets_and_no_figures() -> None:
    (found,) = documents(Named(40 * SECOND, 50 * SECOND), Named(2 * SECOND, 3 * SECOND))
    assert [one["packets"] for one in found["kept"]] == [1_000, 0]
    assert found["kept"][1]["metrics"]["latency"]["n"] == 0


@pytest.mark.parametrize(("streams", "of"), [((), True), (("control",), True), (("camera", "lidar"), False)])
def test_a_window_is_of_the_streams_it_names_or_of_all(streams: tuple[str, ...], of: bool) -> None:
    assert Named(0, 1, streams=streams).is_of("control") is of
