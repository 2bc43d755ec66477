"""Where the time went: groups' means add up, and late packets are late where they were made so."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latlab.analysis.chain import chain_of_metric, lasting_growth
from latlab.analysis.metrics import metric_values
from latlab.model.metrics import METRICS_BY_NAME
from support.analysis.packets import PERIOD_NS, packet_table

SOFT = {"wake": 4, "submit": 10, "tx_sched": 13, "tx_soft": 20, "rx_soft": 60, "rx_user": 75}
HARD = {
    "wake": 4, "submit": 10, "tx_sched": 13, "tx_soft": 20, "tx_hard": 26, "rx_hard": 50, "rx_soft": 60, "rx_user": 75,
}  # fmt: skip
START_NS = 1_795_294_349_000_000_000


def document(packets: pl.DataFrame, metric: str = "latency_user", **options: Any) -> dict[str, Any]:
    values = metric_values(packets, METRICS_BY_NAME[metric], PERIOD_NS)
    assert values is not None
    found = chain_of_metric(packets, values, **options)
    assert found is not None
    return found.document()


def stream(count: int, usual: dict[str, int], late: dict[int, tuple[str, int]], seed: int = 7) -> pl.DataFrame:
    """`count` packets of which each interval varies by a few ns; late: sequence → (stop, ns later from there on)."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        row, shift = {}, 0
        for name, at in usual.items():
            shift += int(rng.integers(0, 4))
            if number in late and late[number][0] == name:
                shift += late[number][1]
            row[name] = at + shift
        rows.append(row)
    packets = packet_table(rows)
    stamps = [name for name in packets.columns if name.endswith("_tai_ns")]
    return packets.with_columns(pl.col(stamps) + START_NS)


@pytest.mark.parametrize(
    ("usual", "stop"),
    [*((SOFT, name) for name in SOFT), *((HARD, name) for name in HARD)],
    ids=lambda one: str(one)[-9:],
)
def test_packets_made_late_in_an_interval_are_late_in_that_interval(usual: dict[str, int], stop: str) -> None:
    late = {number: (stop, 300 + number) for number in (5, 77, 301)}
    found = document(stream(400, usual, late), worst=3)
    before = ("launch", *usual)[("launch", *usual).index(stop) - 1]
    assert [one["sequence"] for one in found["worst"]["each"]] == [301, 77, 5]
    for one in found["worst"]["each"]:
        most = one["grew"][0]
        assert (most["from"], most["to"]) == (before, stop)
        # The rest of the few ns that each interval varies by.
        assert abs(most["ns"] - (300 + one["sequence"])) < 8
        assert most["share"] > 0.9
    first, *others = found["worst"]["grew"]
    assert (first["from"], first["to"], first["packets"]) == (before, stop, 3)
    assert sum(one["packets"] for one in others) == 0
    assert sum(one["share"] for one in found["worst"]["grew"]) == pytest.approx(1)


def test_packets_late_in_different_intervals_are_counted_apart() -> None:
    late = dict.fromkeys(range(10, 18), ("rx_soft", 900)) | dict.fromkeys((50, 60), ("wake", 800))
    found = document(stream(400, SOFT, late), "latency", worst=10)
    counts = {(one["from"], one["to"]): one["packets"] for one in found["worst"]["grew"]}
    assert counts["tx_soft", "rx_soft"] == 8
    assert counts["launch", "wake"] == 2


def test_lateness_that_the_qdisc_s_wait_absorbs_is_no_cause() -> None:
    """A launch time: a packet handed over late waits less, and the packet leaves when it should."""
    held = {"wake": -300, "submit": -290, "tx_sched": -288, "tx_soft": 20, "rx_soft": 60}
    rows = [held] * 100
    rows[40] = {"wake": -100, "submit": -90, "tx_sched": -88, "tx_soft": 20, "rx_soft": 110}
    worst = document(packet_table(rows), "latency", worst=1)["worst"]["each"][0]
    assert worst["sequence"] == 40
    assert worst["grew"] == [{"from": "tx_soft", "to": "rx_soft", "ns": 50, "share": 1.0}]
    assert worst["ns"] == [-100, 10, 2, 108, 90]


GROWN = st.lists(st.tuples(st.integers(-(10**15), 10**15), st.integers(-(10**15), 10**15)), min_size=1, max_size=8)


@given(GROWN)
def test_lasting_growth_is_within_each_interval_s_growth_and_adds_up_to_the_lateness(ns: list[tuple[int, int]]) -> None:
    interval, usual = (np.array(side) for side in zip(*ns, strict=True))
    found = lasting_growth(interval, usual)
    assert found.sum() == max(0, (interval - usual).sum())
    assert (found >= 0).all()
    assert (found <= np.maximum(interval - usual, 0)).all()


@pytest.fixture(scope="module")
def long_stream() -> pl.DataFrame:
    """Enough packets for p99.9; some late on the wire, some on their path to the application, some in the qdisc."""
    ways = ("rx_hard", "rx_soft", "tx_soft")
    return stream(4000, HARD, {n: (ways[n % 3], 10 * n) for n in range(1, 4000, 29)})


@pytest.mark.parametrize("metric", ["lateness", "path", "delivery", "latency", "latency_user"])
def test_groups_are_means_of_their_packets_and_add_up(long_stream: pl.DataFrame, metric: str) -> None:
    packets = long_stream
    found = document(packets, metric)
    values = metric_values(packets, METRICS_BY_NAME[metric], PERIOD_NS)
    assert values is not None
    assert [one["name"] for one in found["groups"]] == ["typical", "p99", "p99_9"]
    for group in found["groups"]:
        inside = values.value_ns >= group["least_ns"]
        if group["below_ns"] is not None:
            inside &= values.value_ns < group["below_ns"]
        assert group["packets"] == group["split"] == inside.sum()
        assert sum(group["ns"]) == group["value_ns"]
        assert abs(group["value_ns"] - values.value_ns[inside].mean()) <= 0.5 + 1e-9
        chosen = packets.filter(pl.Series(np.isin(packets["sequence"], values.sequence[inside])))
        for (start, end), ns in zip(pairwise(found["stops"]), group["ns"], strict=True):
            mean = (chosen[f"{end}_tai_ns"] - chosen[f"{start}_tai_ns"]).mean()
            assert abs(ns - mean) <= 1
    slowest = [one["packets"] for one in found["groups"][1:]]
    assert sum(slowest) == (values.value_ns >= found["groups"][1]["least_ns"]).sum()


def test_the_median_and_the_worst_are_real_packets_with_all_their_ns() -> None:
    packets = stream(401, SOFT, {})
    found = document(packets)
    value_ns = packets["rx_user_tai_ns"] - packets["launch_tai_ns"]
    for one in (found["median"], *found["worst"]["each"]):
        assert one["value_ns"] == value_ns[one["sequence"]] == sum(one["ns"])
    assert found["median"]["value_ns"] == value_ns.sort()[200]
    each = found["worst"]["each"]
    assert [one["value_ns"] for one in each] == value_ns.sort(descending=True)[:100].to_list()
    assert each[0]["sequence"] == value_ns.arg_max()
    keys = [(-one["value_ns"], one["sequence"]) for one in each]
    assert keys == sorted(keys)


def test_a_packet_that_does_not_have_a_stamp_is_compared_between_those_it_has() -> None:
    rows = [SOFT] * 200
    rows[9] = {"wake": 4, "submit": 10, "tx_sched": 13, "rx_soft": 960, "rx_user": 975}
    found = document(packet_table(rows), worst=1)
    assert (found["packets"], found["split"]) == (200, 199)
    assert found["stops"] == ["launch", *SOFT]
    (one,) = found["worst"]["each"]
    assert one["stops"] == ["launch", "wake", "submit", "tx_sched", "rx_soft", "rx_user"]
    assert one["ns"] == [4, 6, 3, 947, 15]
    assert one["grew"] == [{"from": "tx_sched", "to": "rx_soft", "ns": 900, "share": 1.0}]


def test_a_group_says_how_many_of_its_packets_its_means_are_of() -> None:
    lacking = {name: at for name, at in SOFT.items() if name != "tx_soft"}
    found = document(packet_table([SOFT, SOFT, lacking] * 50))
    (typical,) = found["groups"]
    assert (typical["packets"], typical["split"], typical["ns"]) == (150, 100, [4, 6, 3, 7, 40, 15])


def test_intervals_below_zero_stay_and_are_counted() -> None:
    early, back = {**SOFT, "wake": -5}, {**SOFT, "rx_soft": 15}
    found = document(packet_table([early] * 30 + [back] * 20))
    assert found["below_zero"] == [30, 0, 0, 0, 20, 0]
    assert min(one["ns"][0] for one in found["worst"]["each"]) == -5


@pytest.mark.parametrize(
    ("count", "groups"), [(7, []), (8, ["typical"]), (367, ["typical"]), (368, ["typical", "p99"])]
)
def test_groups_that_the_sample_cannot_support_are_not_there(count: int, groups: list[str]) -> None:
    found = document(stream(count, SOFT, {3: ("rx_soft", 500)}))
    assert [one["name"] for one in found["groups"]] == groups
    assert found["worst"]["packets"] == min(count, 100)
    assert (found["worst"]["each"][0]["grew"] is None) == (not groups)
    assert found["worst"]["each"][0]["sequence"] == 3


def test_packets_no_later_than_the_typical_one_grew_nowhere() -> None:
    found = document(packet_table([SOFT] * 40))
    assert (found["worst"]["packets"], found["worst"]["late"], found["worst"]["grew"]) == (40, 0, [])
    assert all(one["grew"] == [] for one in found["worst"]["each"])


def test_means_are_exact_where_a_nic_s_clock_is_decades_off(long_stream: pl.DataFrame) -> None:
    packets = long_stream.with_columns(pl.col("tx_hard_tai_ns", "rx_hard_tai_ns") - START_NS)
    typical = document(packets)["groups"][0]
    assert sum(typical["ns"]) == typical["value_ns"] < 200
    inside = (packets["rx_user_tai_ns"] - packets["launch_tai_ns"]).is_between(
        typical["least_ns"], typical["below_ns"] - 1
    )
    chosen = packets.filter(inside)
    exact = Fraction(sum((chosen["tx_hard_tai_ns"] - chosen["tx_soft_tai_ns"]).to_list()), len(chosen))
    assert abs(typical["ns"][4] - exact) <= 1


def test_a_stream_without_values_has_no_chain() -> None:
    packets = packet_table([{"rx_soft": 10, "warmup": True}])
    values = metric_values(packets, METRICS_BY_NAME["latency"], PERIOD_NS)
    assert values is not None
    assert chain_of_metric(packets, values) is None
