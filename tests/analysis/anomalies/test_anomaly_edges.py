"""Streams with next to nothing in them, and the documents of what was found."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from latlab.analysis.anomalies import CLASSES, CODE, NAMES, Context, by_class, find_anomalies
from latlab.synthetic.description import Losses, Noise, Spikes, Stall
from support.analysis.anomalies import PERIOD_NS, SECOND, found, stream

STAMPS = ("wake", "submit", "tx_sched", "tx_soft", "tx_hard", "rx_hard", "rx_soft", "rx_user")


@pytest.mark.parametrize("packets", [0, 1, 2, 7, 40])
def test_a_short_stream_has_no_anomalies_and_a_class_for_each_row(packets: int) -> None:
    rows = stream().packets.head(packets)
    anomalies = find_anomalies(rows, Context(PERIOD_NS))
    assert anomalies.class_of.dtype == np.uint8 and len(anomalies.class_of) == packets
    assert not anomalies.episodes


def test_where_all_is_warm_up_nothing_is_judged() -> None:
    rows = stream(Stall(SECOND, 6_000_000), packets=3_000).packets.with_columns(warmup=True)
    assert not find_anomalies(rows, Context(PERIOD_NS)).episodes


def test_a_stream_of_which_nothing_arrived_is_one_burst() -> None:
    anomalies = found(stream(Losses(0.0, ((0, 3_000),)), packets=3_000))
    assert [one.class_ for one in anomalies.episodes] == ["loss_burst"]
    assert set(anomalies.class_of) == {CODE["loss_burst"]}


def test_packets_that_were_never_sent_are_not_lost() -> None:
    rows = stream(packets=3_000).packets
    unsent = pl.col("sequence") >= 2_900
    columns = ["send_error", "arrival", "clock_bound_ns", *(f"{name}_tai_ns" for name in STAMPS)]
    rows = rows.with_columns(pl.when(~unsent).then(pl.col(column)).alias(column) for column in columns)
    assert not find_anomalies(rows, Context(PERIOD_NS)).episodes


@pytest.mark.parametrize("kept", [("rx_soft",), ("submit", "rx_soft"), ("wake", "submit", "tx_soft", "rx_hard")])
def test_fewer_timestamps_tell_less_and_still_tell_of_a_stall(kept: tuple[str, ...]) -> None:
    rows = stream(Stall(5 * SECOND, 6_300_000), hardware=True).packets
    none = pl.lit(None, pl.Int64)
    rows = rows.with_columns(none.alias(f"{name}_tai_ns") for name in STAMPS if name not in kept)
    (episode,) = find_anomalies(rows, Context(PERIOD_NS)).episodes
    assert (episode.class_, episode.packets, episode.evidence["where"]) == ("stall", 7, "path")


def test_a_packet_without_one_timestamp_is_told_by_the_others() -> None:
    rows = stream(Spikes((4_000,), 300_000, "application")).packets
    holed = rows.with_columns(
        pl.when(pl.col("sequence") != 4_000).then(pl.col("tx_soft_tai_ns")).alias("tx_soft_tai_ns")
    )
    (episode,) = find_anomalies(holed, Context(PERIOD_NS)).episodes
    assert episode.evidence["where"] == "application"


def test_streams_without_any_noise_are_judged_by_the_least_that_counts() -> None:
    exact = stream(Spikes((4_000,), 1_500), Spikes((8_000,), 4_000), noise=Noise(0))
    assert [one.from_sequence for one in found(exact).episodes] == [8_000]


def test_a_document_has_the_worst_episodes_and_says_how_many_there_are() -> None:
    at = (1_003, 1_790, 3_500, 4_777, 9_001, 11_500, 12_345, 18_000)
    extras = [Spikes((place,), 200_000 + 20_000 * number) for number, place in enumerate(at)]
    every = by_class(found(stream(*extras, Stall(5 * SECOND, 6_300_000))), shown=3)
    document = {name: one.document() for name, one in every.items()}
    assert list(document) == ["stall", "unexplained"]
    assert json.loads(json.dumps(document)) == document
    unexplained = document["unexplained"]
    assert (unexplained["packets"], unexplained["episodes"]) == (8, 8)
    assert [one["from_sequence"] for one in unexplained["shown"]] == list(at[-3:])
    assert set(unexplained["shown"][0]) == {
        "number", "class", "from_tai_ns", "to_tai_ns", "from_sequence", "to_sequence", "packets", "severity",
        "evidence", "text",
    }  # fmt: skip


def test_each_packet_names_the_episode_it_has_its_class_by() -> None:
    anomalies = found(stream(Stall(5 * SECOND, 6_300_000), Spikes((3_000, 12_000), 300_000)))
    assert [one.number for one in anomalies.episodes] == [1, 2, 3]
    assert [one.class_ for one in anomalies.episodes] == ["stall", "unexplained", "unexplained"]
    for one in anomalies.episodes:
        here = np.flatnonzero(anomalies.episode_of == one.number)
        assert (here[0], here[-1], len(here)) == (one.from_sequence, one.to_sequence, one.packets)
        assert set(anomalies.class_of[here]) == {CODE[one.class_]}
    assert ((anomalies.episode_of == 0) == (anomalies.class_of == 0)).all()


def test_codes_are_the_order_of_precedence_from_one() -> None:
    assert [CODE[name] for name in NAMES] == list(range(1, len(CLASSES) + 1))


def test_a_packet_has_the_first_class_that_it_has() -> None:
    lost_in_a_stall = stream(Stall(5 * SECOND, 50_000_000), Losses(0.0, ((5_010, 5),)))
    class_of = found(lost_in_a_stall).class_of
    assert set(class_of[5_010:5_015]) == {CODE["loss_burst"]}
    assert class_of[5_009] == class_of[5_015] == CODE["stall"]
