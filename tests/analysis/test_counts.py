"""Packets are counted by what became of them."""

from __future__ import annotations

from itertools import accumulate

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from latlab.analysis.counts import lost_after_warmup, reordered_sequences, stream_counts, stream_rows
from latlab.recordings.cell import Totals
from support.analysis.packets import packet_table


def test_every_packet_is_counted_by_what_became_of_it() -> None:
    packets = packet_table(
        [
            {"arrival": 0, "warmup": True},
            {"arrival": None, "warmup": True},
            {"arrival": 2},
            {"arrival": 1},
            {"arrival": None},
            {"arrival": None, "send_error": 105},
            {"arrival": None, "send_error": None},
            {"arrival": None, "launch_error": 1},
            {"arrival": None, "launch_error": 2},
            {"late": 1},
            {"late": 2},
            {"late": 2, "arrival": None, "send_error": 105},
            {"late": 3, "arrival": None, "send_error": None},
        ]
    )
    done = {"streams": [{"stream": 2, "repeated": 9}, {"stream": 1, "repeated": 4, "out_of_range": 5}], "foreign": 3}
    assert stream_counts(packets, Totals.model_validate(done), 1) == {
        "scheduled": 13,
        "warmup": 2,
        "sent": 9,
        "unsent": 2,
        "send_errors": 2,
        "received": 5,
        "lost": 4,
        "unknown": 0,
        "duplicated": 4,
        "reordered": 1,
        "out_of_range": 5,
        "foreign": 3,
        "launch_invalid": 1,
        "launch_missed": 1,
        "launch_late": 1,
        "launch_moved": 1,
        "unsent_late": 1,
    }
    assert lost_after_warmup(packets) == 3


def test_a_listener_that_said_nothing_counted_nothing() -> None:
    counts = stream_counts(packet_table([{}]), Totals(), 1)
    assert (counts["duplicated"], counts["foreign"], counts["received"]) == (0, 0, 1)


def test_reordered_are_those_below_the_next_expected_number() -> None:
    # RFC 4737 §3.3: arriving 0 3 1 2 4, NextExp is 4 when 1 and 2 come.
    packets = packet_table([{"arrival": position} for position in (0, 2, 3, 1, 4)])
    assert reordered_sequences(packets).tolist() == [1, 2]


@given(st.permutations(range(12)), st.integers(0, 12))
def test_reordered_are_what_the_rfcs_loop_finds(order: list[int], received: int) -> None:
    arrivals = dict(zip(order[:received], range(received), strict=True))
    packets = packet_table([{"arrival": arrivals.get(n)} for n in range(12)])
    next_expected = [0, *accumulate((n + 1 for n in order[:received]), max)]
    expected = [n for n, expected in zip(order[:received], next_expected, strict=False) if n < expected]
    assert reordered_sequences(packets).tolist() == expected


def test_a_streams_rows_are_its_own() -> None:
    packets = pl.concat([packet_table([{}] * n, stream=s) for s, n in ((2, 3), (5, 1), (9, 2))])
    assert [stream_rows(packets, s).height for s in (1, 2, 5, 9, 10)] == [0, 3, 1, 2, 0]
