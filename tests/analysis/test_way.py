"""A packet's value is split at every timestamp on its path, and nothing is lost or gained."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latlab.analysis.chain import CHAINED
from latlab.analysis.metrics import metric_values
from latlab.analysis.way import Split, clocks_between, interval_name, split, stops_between, worst_packet
from latlab.model.metrics import METRICS_BY_NAME
from support.analysis.packets import PERIOD_NS, packet_table

# A packet with every timestamp, in ns after its launch, whose talker wakes ahead; and one without the NICs'.
ALL = {
    "wake_due": -30, "wake": -25, "submit": 3, "tx_sched": 10, "tx_soft": 20, "tx_hard": 34,
    "rx_hard": 100, "rx_soft": 130, "rx_user": 190,
}  # fmt: skip
SOFT = {name: stamp for name, stamp in ALL.items() if "hard" not in name}


def split_of(rows: list[dict[str, Any]], metric: str) -> Split:
    packets = packet_table(rows)
    values = metric_values(packets, METRICS_BY_NAME[metric], PERIOD_NS)
    assert values is not None
    found = split(packets, values.sequence, values.from_, values.to)
    assert found.interval_ns.sum(axis=1).tolist() == values.value_ns.tolist()
    return found


def named(found: Split, packet: int) -> dict[str, int]:
    """A packet's intervals by name, between the timestamps it passed."""
    stops = [name for name, passed in zip(found.stops, found.passed[packet], strict=True) if passed]
    ns = found.interval_ns[packet][found.passed[packet][1:]].tolist()
    return {interval_name(*ends): one for ends, one in zip(pairwise(stops), ns, strict=True)}


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("wakeup", {"wake-up": 5}),
        ("lateness", {"wake-up": -25, "prepare": 28, "socket": 7, "qdisc": 10}),
        ("path", {"path": 110}),
        ("delivery", {"delivery": 60}),
        ("latency", {"wake-up": -25, "prepare": 28, "socket": 7, "qdisc": 10, "path": 110}),
        ("latency_user", {"wake-up": -25, "prepare": 28, "socket": 7, "qdisc": 10, "path": 110, "delivery": 60}),
    ],
)
def test_a_packet_by_its_software_stamps(metric: str, expected: dict[str, int]) -> None:
    assert named(split_of([SOFT], metric), 0) == expected


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("lateness", {"wake-up": -25, "prepare": 28, "socket": 7, "qdisc": 10, "sending NIC": 14}),
        ("path", {"path": 66}),
        ("delivery", {"receiving NIC": 30, "delivery": 60}),
        ("latency", {"wake-up": -25, "prepare": 28, "socket": 7, "qdisc": 10, "sending NIC": 14, "path": 66}),
    ],
)
def test_a_packet_by_its_nics_stamps(metric: str, expected: dict[str, int]) -> None:
    assert named(split_of([ALL], metric), 0) == expected


def test_an_interval_without_the_stamp_between_has_both_stamps_for_a_name() -> None:
    lacking = {name: stamp for name, stamp in SOFT.items() if name not in ("wake", "tx_sched")}
    found = split_of([SOFT, lacking], "latency")
    assert named(found, 1) == {"launch → submit": 3, "submit → tx_soft": 17, "path": 110}
    assert found.passed[1].tolist() == [True, False, True, False, True, True]
    assert found.patterns().tolist() == [0b111111, 0b110101]


def test_a_packet_that_the_listener_s_nic_did_not_stamp_goes_the_software_s_way() -> None:
    soft_end = {**ALL, "rx_hard": None}
    rows = [{name: stamp for name, stamp in row.items() if stamp is not None} for row in (ALL, soft_end)]
    found = split_of(rows, "latency_user")
    assert named(found, 0)["sending NIC"] == 14
    assert list(named(found, 1)) == ["wake-up", "prepare", "socket", "qdisc", "path", "delivery"]
    assert named(found, 1)["path"] == 110


@pytest.mark.parametrize("metric", ["path", "latency"])
def test_no_nic_s_clock_parts_two_system_clocks(metric: str) -> None:
    one_nic = {name: stamp for name, stamp in ALL.items() if name != "rx_hard"}
    assert not any("hard" in name for name in split_of([one_nic], metric).stops)


def test_whose_clocks_an_interval_subtracts_is_reported() -> None:
    told = [clocks_between(*ends) for ends in pairwise(stops_between("launch", "rx_user"))]
    assert told == ["one clock"] * 4 + ["a NIC"] * 3 + ["one clock"]
    told = [clocks_between(*ends) for ends in pairwise(stops_between("launch", "rx_soft"))]
    assert told == ["one clock"] * 4 + ["two hosts"]


EPOCH_NS = 1_795_294_349_000_000_000
INSTANTS = st.one_of(
    st.integers(-(10**6), 10**9),
    # A NIC whose clock counts from when it was switched on, or from no epoch at all.
    st.integers(-EPOCH_NS, 10**12),
)
STAMPS = ("wake_due", "wake", "submit", "tx_sched", "tx_soft", "tx_hard", "rx_hard", "rx_soft", "rx_user")
PACKETS = st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(STAMPS, INSTANTS)), min_size=1, max_size=20)


@given(PACKETS, st.sampled_from(CHAINED), st.randoms(use_true_random=False))
def test_intervals_add_up_whatever_stamps_are_missing(rows: list[dict[str, int]], metric: str, random: Any) -> None:
    packets = packet_table(rows).with_columns(
        launch_tai_ns=EPOCH_NS + PERIOD_NS * np.arange(len(rows)),
    )
    packets = packets.with_columns(**{f"{name}_tai_ns": packets[f"{name}_tai_ns"] + EPOCH_NS for name in STAMPS})
    values = metric_values(packets, METRICS_BY_NAME[metric], PERIOD_NS)
    if values is None:
        return
    order = list(range(len(values.sequence)))
    random.shuffle(order)
    found = split(packets, values.sequence[order], values.from_, values.to)
    assert found.interval_ns.dtype == np.int64
    assert found.interval_ns.sum(axis=1).tolist() == values.value_ns[order].tolist()
    assert not found.interval_ns[~found.passed[:, 1:]].any()
    assert found.passed[:, [0, -1]].all()


def test_the_slowest_packet_of_the_result_is_split_at_the_same_stamps() -> None:
    """The result has delivery in one; where no NIC is on the way, the two are one."""
    for row, metric in ((SOFT, "latency_user"), (ALL, "latency"), (SOFT, "latency")):
        found = split_of([row], metric)
        told = worst_packet(packet_table([row]), 0, found.stops[-1]).document()["intervals"]
        assert {interval_name(one["from"], one["to"]): one["ns"] for one in told} == named(found, 0)
