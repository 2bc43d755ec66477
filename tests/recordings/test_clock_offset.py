"""The true offset of two clocks lies within the estimate and its ±, for any clocks and any path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from latlab.recordings.cell import ClockEdge
from latlab.recordings.clock_offset import find_chain, offset_between

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
Clock = Callable[[Any], Any]


def entry(from_: str, to: str, *windows: dict[str, Any], **more: Any) -> ClockEdge:
    """An entry of cell.json's `clocks`; without windows the two are one clock."""
    source = "shared page" if windows else "one kernel"
    whole = {"from": from_, "to": to, "source": source, "lower_ns": 0, "upper_ns": 0, "windows": windows, **more}
    return ClockEdge.model_validate(whole)


def window(
    reference: int, lower: int, upper: int, least: float | None = 0.0, most: float | None = 0.0
) -> dict[str, Any]:
    drift = {"drift_lower_ppb": least, "drift_upper_ppb": most}
    return {"reference_tai_ns": reference, "lower_ns": lower, "upper_ns": upper, "span_ns": SECOND, **drift}


def between(clocks: Sequence[ClockEdge], host: str, reference: str, *instants: int) -> list[tuple[int, int] | None]:
    """(estimate, half) at each instant; None where nothing bounds it."""
    found = offset_between(clocks, host, reference, np.array(instants, np.int64))
    assert found
    rows = zip(found.estimate_ns.tolist(), found.half_ns.tolist(), found.known.tolist(), strict=True)
    return [(estimate, half) if known else None for estimate, half, known in rows]


def test_one_host_has_one_clock() -> None:
    assert between([], "ecu", "ecu", START) == [(0, 0)]


def test_hosts_that_nothing_joins_are_not_compared() -> None:
    clocks = [entry("sensor", "ecu"), entry("far", "away")]
    assert offset_between(clocks, "away", "sensor", np.array([START])) is None


def test_a_window_bounds_in_both_directions() -> None:
    clocks = [entry("ecu", "vm1", window(START, 900, 1100))]
    assert between(clocks, "vm1", "ecu", START) == [(1000, 100)]
    assert between(clocks, "ecu", "vm1", START) == [(-1000, 100)]


def test_a_board_whose_clock_stands_at_1970_is_compared_to_the_nanosecond() -> None:
    behind = START - 90 * SECOND
    clocks = [entry("ecu", "board", window(START, -behind - 100, -behind + 100, 0.0, 0.0))]
    assert between(clocks, "board", "ecu", 90 * SECOND, 91 * SECOND) == [(-behind, 100)] * 2
    assert between(clocks, "ecu", "board", START, START + SECOND) == [(behind, 100)] * 2


def test_away_from_its_middle_a_window_widens_by_its_drift() -> None:
    clocks = [entry("ecu", "vm1", window(START, 0, 0, 10.0, 30.0))]
    assert between(clocks, "ecu", "vm1", START - SECOND, START + SECOND) == [(20, 10), (-20, 10)]


def test_between_two_windows_both_hold() -> None:
    clocks = [entry("ecu", "vm1", window(START, 0, 10, 0.0, 100.0), window(START + SECOND, 90, 100, 0.0, 100.0))]
    # From the first 0 to 60, from the second 40 to 100.
    assert between(clocks, "ecu", "vm1", START + SECOND // 2) == [(-50, 10)]


def test_where_two_windows_exclude_each_other_nothing_bounds_the_offset() -> None:
    stepped = [window(START, 0, 10), window(START + SECOND, 5000, 5010)]
    clocks = [entry("ecu", "vm1", *stepped)]
    assert between(clocks, "ecu", "vm1", START - 1, START + 1, START + SECOND + 1) == [(-5, 5), None, (-5005, 5)]


def test_a_window_that_does_not_bound_the_drift_says_nothing() -> None:
    clocks = [entry("ecu", "vm1", window(START, 0, 2), window(START, 500, 501, None, None))]
    assert between(clocks, "vm1", "ecu", START) == [(1, 1)]
    assert find_chain([entry("ecu", "vm1", window(START, 500, 501, None, None))], "ecu", "vm1") is None


def test_further_than_a_second_from_the_comparisons_nothing_is_known() -> None:
    clocks = [entry("a", "b", window(START, -10, 10), window(START + SECOND, -10, 10))]
    at = np.array([-2 * SECOND, -SECOND, 0, 2 * SECOND, 3 * SECOND]) + START
    for host, reference in (("b", "a"), ("a", "b")):
        found = offset_between(clocks, host, reference, at)
        assert found and found.known.tolist() == [False, True, True, True, False]


def test_a_chain_goes_over_every_host_between() -> None:
    page1, page2 = window(START, 1000, 1020), window(START, 4000, 4006)
    clocks = [entry("sensor", "ecu"), entry("ecu", "vm1", page1), entry("ecu", "vm2", page2)]
    assert between(clocks, "vm1", "sensor", START + 1010) == [(1010, 10)]
    assert between(clocks, "vm2", "vm1", START + 4003) == [(4003 - 1010, 13)]


def test_of_two_ways_the_narrower_is_taken() -> None:
    loose = entry("ecu", "vm1", window(START, -90_000, 90_000))
    clocks = [loose, entry("ecu", "host"), entry("host", "vm1", window(START, 5, 7))]
    assert between(clocks, "vm1", "ecu", START) == [(6, 1)]


def test_an_exchange_over_the_network_is_bounded_by_one_line_if_there_is_one() -> None:
    exchange = {"source": "exchange", "lower_ns": -500, "upper_ns": 700}
    windows = [window(START, -400, 600, -9.0, 9.0)]
    line = window(START, 90, 110, 50.0, 50.0)
    assert between([entry("a", "b", **exchange, bound=line)], "a", "b", START + SECOND) == [(-150, 10)]
    assert between([entry("a", "b", *windows, **exchange, bound=None)], "a", "b", START) == [(-100, 500)]
    assert between([entry("a", "b", **exchange, bound=None)], "a", "b", START) == [(-100, 600)]


def drifting(offset: int, drifts_ppb: Sequence[float], every_ns: int) -> Clock:
    """A clock that is `offset` ahead of true time at START and whose rate jumps every so often; the last one stays."""
    knots = START + np.arange(len(drifts_ppb)) * every_ns
    gained = np.concatenate(([0.0], np.cumsum(np.array(drifts_ppb[:-1]) * 1e-9 * every_ns)))

    def read(true_ns: Any) -> Any:
        piece = np.clip(np.searchsorted(knots, true_ns, side="right") - 1, 0, len(knots) - 1)
        ahead = gained[piece] + (true_ns - knots[piece]).astype(np.float64) * np.array(drifts_ppb)[piece] * 1e-9
        return true_ns + offset + np.round(ahead).astype(np.int64)

    return read


def windows_of(one: Clock, other: Clock, drifts: tuple[float, float], widths: Sequence[tuple[int, int]]) -> Any:
    """Windows that bound other − one truly, a second apart, and not in the middle."""
    at = START + np.arange(len(widths), dtype=np.int64) * SECOND
    theta = (other(at) - one(at)).tolist()
    return [
        window(reference, true - below, true + above, *drifts)
        for reference, true, (below, above) in zip(one(at).tolist(), theta, widths, strict=True)
    ]


widths = st.lists(st.tuples(st.integers(2, 2000), st.integers(2, 2000)), min_size=5, max_size=5)
drifts = st.lists(st.floats(-100_000, 100_000), min_size=1, max_size=6)
offsets = st.integers(-3600 * SECOND, 3600 * SECOND)


@given(
    guests=st.tuples(st.tuples(offsets, drifts, widths), st.tuples(offsets, drifts, widths)),
    host_drifts=drifts,
    moments=st.lists(st.integers(-SECOND, 5 * SECOND), min_size=1, max_size=20),
    latency=st.integers(0, 10_000_000),
)
def test_the_true_latency_is_within_the_bound_though_every_clock_drifts_and_its_rate_jumps(
    guests: Any, host_drifts: list[float], moments: list[int], latency: int
) -> None:
    host = drifting(0, host_drifts, 700_000_000)
    clocks, entries = [], [entry("sensor", "host")]
    for name, (offset, rates, wide) in zip(("vm1", "vm2"), guests, strict=True):
        clock = drifting(offset, rates, 900_000_000)
        # How fast a guest gains on the host is bounded by the rates of both; 1 ppb for the squares left out.
        most = max(rates) - min(host_drifts) + 20.0
        least = min(rates) - max(host_drifts) - 20.0
        clocks.append(clock)
        entries.append(entry("host", name, *windows_of(host, clock, (least, most), wide)))
    sent = START + np.array(moments, np.int64)
    arrived = sent + latency
    for (talker, talks), (listener, listens) in (
        (("sensor", host), ("vm1", clocks[0])),
        (("vm1", clocks[0]), ("sensor", host)),
        (("vm1", clocks[0]), ("vm2", clocks[1])),
    ):
        received = listens(arrived)
        found = offset_between(entries, listener, talker, received)
        assert found and found.known.all()
        measured = received - found.estimate_ns - talks(sent)
        true = talks(arrived) - talks(sent)
        assert (np.abs(measured - true) <= found.half_ns + 3).all()  # clocks here read whole nanoseconds
