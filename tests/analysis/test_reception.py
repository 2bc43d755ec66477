"""What is said of a traced listener's packets: typical ways against the latest, stream by stream, and whom they met."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from latlab.analysis.chain import WORST_TOLD
from latlab.analysis.reception import RECEPTION, receptions
from latlab.analysis.way import ONE_CLOCK
from support.analysis.traces import COUNT, KNOWN, LATE, LATER, READER, Event, listened, trace


def documents(packets: pl.DataFrame, events: list[Event]) -> dict[int, dict[str, Any]]:
    found = receptions(packets, trace(*events), KNOWN, READER)
    return {stream: one.document() for stream, one in found.items()}


def test_typical_packets_and_the_latest_have_the_same_stops_and_the_interval_that_grew() -> None:
    chain = documents(*listened())[1]["chain"]
    assert chain["metric"] == RECEPTION
    assert (chain["from"], chain["to"], chain["packets"], chain["split"]) == ("irq", "rx_user", COUNT, COUNT)
    assert chain["stops"] == ["irq", "softirq", "rx_soft", "waking", "run", "rx_user"]
    assert chain["clocks"] == [ONE_CLOCK] * 5
    typical = next(one for one in chain["groups"] if one["name"] == "typical")
    assert typical["ns"] == [10, 10, 10, 10, 8]
    worst = chain["worst"]["each"][0]
    assert (worst["sequence"], worst["ns"], sum(worst["ns"])) == (LATE, [10, 10, 10, 10 + LATER, 8], worst["value_ns"])
    assert worst["grew"][0] == {"from": "waking", "to": "run", "ns": LATER, "share": 1.0}
    assert len(chain["worst"]["each"]) == WORST_TOLD


def test_the_latest_packets_say_whom_their_interrupts_came_to() -> None:
    first, second = documents(*listened())[1]["chain"]["worst"]["each"][:2]
    assert first["interrupted"] == {"what": "thread", "comm": "hog"}
    assert second["interrupted"] == {"what": "vCPU", "comm": "CPU 0/KVM"}


def test_what_was_launched_in_the_warm_up_is_in_no_figure() -> None:
    packets, events = listened()
    found = documents(packets.with_columns(counted=pl.col("sequence") >= 1_000), events)[1]
    assert (found["n"], found["told"], found["chain"]["packets"]) == (200, 200, 200)
    assert min(one["sequence"] for one in found["chain"]["worst"]["each"]) >= 1_000


def test_each_stream_has_its_own_packets_and_a_waking_may_be_for_two_of_them() -> None:
    packets, events = listened(10)
    # The other stream's come in the same softirq, and the thread takes both when it runs.
    others = packets.with_columns(
        stream=pl.lit(2, pl.UInt16),
        rx_soft_tai_ns=pl.col("rx_soft_tai_ns") + 2,
        rx_user_tai_ns=pl.col("rx_user_tai_ns") + 5,
    )
    found = documents(pl.concat((packets, others)).sort("rx_user_tai_ns"), events)
    assert sorted(found) == [1, 2]
    assert [found[stream]["n"] for stream in (1, 2)] == [10, 10]
    assert [found[stream]["shared"] for stream in (1, 2)] == [0, 10]
    assert found[2]["chain"]["packets"] == 10


def test_packets_that_begin_at_another_stop_than_most_are_in_no_bar() -> None:
    packets, events = listened(100)
    # Of ten the card's interrupt is not recorded.
    kept = [event for event in events if event[0] >= 20_000 or event[2] not in (1, 2)]
    found = documents(packets, kept)[1]
    assert (found["n"], found["chain"]["packets"], found["chain"]["from"]) == (100, 90, "irq")
    from_softirq = next(one for one in found["intervals"] if (one["from"], one["to"]) == ("softirq", "rx_soft"))
    assert from_softirq["n"] == 100


def test_without_any_event_there_are_two_stops() -> None:
    packets, _ = listened(100)
    found = documents(packets, [])[1]
    assert (found["told"], found["awake"]) == (0, 100)
    assert found["chain"]["stops"] == ["rx_soft", "rx_user"]
    values = np.sort((packets["rx_user_tai_ns"] - packets["rx_soft_tai_ns"]).to_numpy())
    assert found["chain"]["worst"]["each"][0]["value_ns"] == values[-1]


def test_a_packet_without_the_kernels_stamp_and_a_listener_without_packets_have_no_way() -> None:
    packets, events = listened(100)
    lacking = packets.with_columns(rx_soft_tai_ns=pl.when(pl.col("sequence") > 0).then("rx_soft_tai_ns"))
    assert documents(lacking, events)[1]["n"] == 99
    assert documents(packets.clear(), events) == {}
