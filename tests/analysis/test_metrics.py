"""Each metric is the difference the design's table says, of the timestamps a stream really has."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from latlab.analysis.metrics import Values, metric_values, unstamped_of
from latlab.model.metrics import METRICS, METRICS_BY_NAME
from latlab.result.types import Unstamped
from support.analysis.packets import PERIOD_NS, packet_table

# One packet with every timestamp, in ns after its launch.
ALL = {
    "wake_due": -30, "wake": -25, "submit": 3, "tx_sched": 10, "tx_soft": 20, "tx_hard": 34,
    "rx_hard": 100, "rx_soft": 130, "rx_user": 190,
}  # fmt: skip


def values(rows: list[dict[str, Any]], metric: str) -> Values:
    found = metric_values(packet_table(rows), METRICS_BY_NAME[metric], PERIOD_NS)
    assert found is not None
    return found


def without(*names: str) -> dict[str, int]:
    return {name: stamp for name, stamp in ALL.items() if name not in names}


@pytest.mark.parametrize(
    ("metric", "value", "from_", "to"),
    [
        ("wakeup", 5, "wake_due", "wake"),
        ("lateness", 34, "launch", "tx_hard"),
        ("path", 66, "tx_hard", "rx_hard"),
        ("delivery", 90, "rx_hard", "rx_user"),
        ("latency", 100, "launch", "rx_hard"),
        ("latency_user", 190, "launch", "rx_user"),
        ("arrival_offset", 0, "first rx_hard + n × period", "rx_hard"),
    ],
)
def test_a_packet_with_every_timestamp_has_every_metric(metric: str, value: int, from_: str, to: str) -> None:
    found = values([ALL], metric)
    assert (found.value_ns.tolist(), found.from_, found.to, found.missing) == ([value], from_, to, 0)


@pytest.mark.parametrize(
    ("absent", "to", "value"),
    [
        (("tx_hard",), "tx_soft", 20),
        (("tx_hard", "tx_soft"), "tx_sched", 10),
        (("tx_hard", "tx_soft", "tx_sched"), "submit", 3),
    ],
)
def test_lateness_ends_nearest_the_wire(absent: tuple[str, ...], to: str, value: int) -> None:
    found = values([without(*absent)], "lateness")
    assert (found.to, found.value_ns.tolist()) == (to, [value])


@pytest.mark.parametrize("absent", ["tx_hard", "rx_hard"])
def test_a_path_between_a_nic_and_a_kernel_is_taken_between_the_kernels(absent: str) -> None:
    found = values([without(absent)], "path")
    assert (found.from_, found.to, found.value_ns.tolist()) == ("tx_soft", "rx_soft", [110])


def test_a_path_with_no_two_timestamps_of_a_kind_does_not_exist() -> None:
    packets = packet_table([without("tx_hard", "rx_soft")])
    assert metric_values(packets, METRICS_BY_NAME["path"], PERIOD_NS) is None


def test_one_hardware_timestamp_makes_the_others_missing() -> None:
    found = values([without("rx_hard"), ALL, without("rx_hard")], "latency")
    assert (found.to, found.sequence.tolist(), found.missing) == ("rx_hard", [1], 2)


def test_lost_packets_are_not_missing() -> None:
    lost = without("rx_hard", "rx_soft", "rx_user") | {"arrival": None}
    found = values([ALL, lost], "latency")
    assert (len(found.value_ns), found.missing) == (1, 0)
    assert len(values([ALL, lost], "lateness").value_ns) == 2


def test_packets_that_never_left_have_no_transmit_timestamp_to_miss() -> None:
    unsent = {"send_error": None, "arrival": None}
    refused = {"wake_due": -30, "wake": -20, "submit": 5, "send_error": 105, "arrival": None}
    too_late = {**without("tx_soft", "tx_hard"), "launch_error": 2, "arrival": None}
    found = values([ALL, unsent, refused, too_late], "lateness")
    assert (found.sequence.tolist(), found.missing) == ([0], 0)
    assert values([ALL, unsent, refused, too_late], "wakeup").value_ns.tolist() == [5, 10, 5]


def test_warm_up_is_in_no_metric() -> None:
    found = values([ALL | {"warmup": True}, without("rx_hard") | {"warmup": True}, ALL], "latency")
    assert (found.sequence.tolist(), found.at_tai_ns.tolist(), found.missing) == ([2], [2000], 0)


def without_stamps(took_ns: NDArray[np.int64], places: NDArray[np.int64]) -> Unstamped:
    """What is reported of packets that took so long to rx_user, of which those at these places have no rx_soft."""
    table = packet_table([{"rx_soft": 1, "rx_user": 1}] * len(took_ns))
    there = np.isin(np.arange(len(took_ns)), places, invert=True)
    table = table.with_columns(
        pl.when(pl.Series(there)).then("rx_soft_tai_ns").alias("rx_soft_tai_ns"),
        (pl.col("launch_tai_ns") + pl.Series(took_ns)).alias("rx_user_tai_ns"),
    )
    (found,) = (one for one in unstamped_of(table) if one.stamp == "rx_soft")
    assert (found.n, found.of, found.until) == (len(places), len(took_ns), "rx_user")
    return found


@pytest.mark.parametrize(("missing", "of"), [(295, 300), (150, 300), (20, 40), (5, 300)])
def test_packets_that_lack_a_timestamp_by_chance_are_not_called_the_late_ones(missing: int, of: int) -> None:
    random = np.random.default_rng(of + missing)
    drawn = [without_stamps(random.permutation(of), random.permutation(of)[:missing]) for _ in range(40)]
    assert not any(found.late for found in drawn)


@pytest.mark.parametrize(("missing", "of"), [(150, 300), (5, 300)])
def test_packets_without_a_timestamp_that_are_the_latest_are_called_late(missing: int, of: int) -> None:
    took_ns = np.random.default_rng(of).permutation(of)
    assert without_stamps(took_ns, np.argsort(took_ns)[-missing:]).late


def test_arrival_offset_counts_from_the_first_packet_after_warm_up_and_over_gaps() -> None:
    rows: list[dict[str, Any]] = [
        {"rx_soft": 500, "warmup": True},
        {"arrival": None},
        {"rx_soft": 130},
        {"arrival": None},
    ]
    rows += [{"rx_soft": 100}, {"rx_soft": 1177}]
    found = values(rows, "arrival_offset")
    # Packet 2 came at 2130; packets 4 and 5 were due at 4130 and 5130, and came at 4100 and 6177.
    assert found.sequence.tolist() == [2, 4, 5]
    assert found.value_ns.tolist() == [0, -30, 1047]
    assert found.from_ == "first rx_soft + n × period"


def test_a_stream_without_timestamps_has_no_metrics() -> None:
    packets = packet_table([{"arrival": None, "send_error": None}] * 3)
    assert [metric_values(packets, metric, PERIOD_NS) for metric in METRICS] == [None] * len(METRICS)


def test_a_stream_whose_timestamps_are_all_warm_up_has_an_empty_metric() -> None:
    found = values([ALL | {"warmup": True}], "arrival_offset")
    assert len(found.value_ns) == 0
