"""ddsperf: seconds stay seconds; their percentiles are never merged, the first one is dropped."""

from __future__ import annotations

import re

import pytest

from latlab.model.errors import UsageError
from support.imports.files import Importing, text

PEER = "vm-3779"


def seconds() -> list[dict[str, float]]:
    """Every line of figures but the first."""
    keys = ("mean", "min", "p50", "p90", "p99", "max", "cnt")
    lines = [
        re.findall(r"(?:mean|min|50%|90%|99%|max|cnt) ([\d.]+)", line) for line in text("ddsperf-ping.txt").splitlines()
    ]
    return [dict(zip(keys, map(float, line), strict=True)) for line in lines if len(line) == 7][1:]


def test_what_adds_up_is_added_up_without_the_first_second(importing: Importing) -> None:
    found = importing("ddsperf-ping.txt")
    figures, own = found.figures(PEER, "half_round_trip"), seconds()
    assert figures["n"] == sum(one["cnt"] for one in own) == 400
    assert figures["min"] == min(one["min"] for one in own) * 1000
    assert figures["max"] == max(one["max"] for one in own) * 1000
    assert figures["mean"] == pytest.approx(sum(one["mean"] * one["cnt"] for one in own) / 400 * 1000, abs=1)
    assert found.left_out() == {"seconds": 1}


def test_percentiles_of_seconds_stay_those_of_seconds(importing: Importing) -> None:
    figures, own = importing("ddsperf-ping.txt").figures(PEER, "half_round_trip"), seconds()
    assert [figures[key] for key in ("p50", "p90", "p99", "p99_9")] == [None] * 4
    for key in ("p50", "p90", "p99"):
        values = [round(one[key] * 1000) for one in own]
        assert figures["intervals"][key] == [min(values), max(values)]
    assert figures["intervals"]["count"] == 4


def test_it_is_half_a_round_trip_and_no_latency(importing: Importing) -> None:
    found = importing("ddsperf-ping.txt")
    assert set(found.streams[PEER]["metrics"]) == {"half_round_trip"}
    assert found.figures(PEER, "half_round_trip")["to"] == "(answered − submit) / 2"
    assert found.result["verdict"] == "suspect"


def test_seconds_with_more_samples_than_ddsperf_keeps_are_told_of(importing: Importing) -> None:
    said = text("ddsperf-ping.txt").replace("cnt 100", "cnt 23456", 1)
    assert any("in 1 second with over 20000 samples" in note for note in importing(said.encode()).found.notes)


def test_two_peers_are_two_streams(importing: Importing) -> None:
    said = text("ddsperf-ping.txt")
    lines = [both for line in said.splitlines() for both in (line, line.replace("vm:3779 size", "other:12 size"))]
    both = importing("\n".join(lines).encode())
    assert set(both.streams) == {"vm-3779-200", "other-12-200"}


def test_what_is_heard_one_way_is_of_two_clocks(importing: Importing) -> None:
    said = text("ddsperf-ping.txt").replace("  vm:3779 size", "  sublat vm:3779 size")
    found = importing(said.encode())
    assert set(found.streams[PEER]["metrics"]) == {"sent_latency_user"}
    assert found.result["verdict"] == "untrusted"


def test_a_run_of_one_second_has_nothing(importing: Importing) -> None:
    with pytest.raises(UsageError, match="no second of figures after the first"):
        importing("\n".join(text("ddsperf-ping.txt").splitlines()[:5]).encode())


def test_the_first_second_of_a_late_peer_is_dropped(importing: Importing) -> None:
    found = importing("ddsperf-late-peer.txt")
    figures = found.figures("vm-5244", "half_round_trip")
    assert (figures["n"], figures["max"]) == (250, 212_000)
    assert found.left_out() == {"seconds": 1}


def test_a_subscribers_rates_are_refused_by_the_cause(importing: Importing) -> None:
    with pytest.raises(UsageError, match=r"a subscriber's output.*ddsperf -l sub"):
        importing("ddsperf-sub.txt")
