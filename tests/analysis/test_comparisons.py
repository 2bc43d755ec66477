"""What becomes of two configurations' repetitions: which are taken, what cannot be judged, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from latlab.analysis.comparison import compare
from latlab.analysis.comparison.compare import Difference, compared
from latlab.analysis.comparison.configuration import (
    Configuration,
    against_first,
    by_key,
    configurations,
    matched,
    streams_of_both,
)
from latlab.analysis.comparison.words import Names, sentence
from latlab.result.types import Cell, Result
from support.results import configuration, medians, partial, repetition

NAMES = Names("tap", "xdp")
TAP = (812_000, 845_000, 901_000, 830_000, 822_000)
XDP = (790_000, 831_000, 870_000, 812_000, 815_000)


def one(a: Configuration, b: Configuration, statistic: str = "p50") -> Difference:
    (found,) = compared([(a, b)], [("latency", statistic)])
    return found


def said(a: Configuration, b: Configuration, statistic: str = "p50") -> str:
    return sentence(one(a, b, statistic), NAMES)


def test_a_difference_that_is_shown_is_reported_with_its_interval() -> None:
    assert (
        said(medians("tap", *TAP), medians("xdp", *XDP)) == "xdp is 18.4 µs faster than tap at the median [7.3, 29.5]"
    )
    assert (
        said(medians("xdp", *XDP), medians("tap", *TAP)) == "xdp is 18.4 µs slower than tap at the median [7.3, 29.5]"
    )


def test_a_difference_that_is_not_shown_is_reported_with_what_would_have_been() -> None:
    found = said(medians("tap", 10_000, 11_000, 12_000), medians("xdp", 10_400, 12_600, 10_000))
    assert found == "no difference shown at the median (0 ± 4.6 µs at 95 %; 4.6 µs would have been)"


def test_what_one_repetition_a_side_shows_is_nothing() -> None:
    found = said(medians("tap", 12_000), medians("xdp", 8_000))
    assert found == (
        "nothing shown at the median: xdp has 4.0 µs less than tap; one repetition: the spread of repetitions is "
        "unknown"
    )
    assert not one(medians("tap", 12_000), medians("xdp", 8_000, 8_000, 8_000)).shown


def test_virtual_time_that_repeats_has_an_interval_of_no_width_and_says_so() -> None:
    tap, xdp = (medians(name, *[ns] * 3, label="virtual time") for name, ns in (("tap", 59_004), ("xdp", 54_902)))
    assert said(tap, xdp) == (
        "xdp is 4.102 µs faster than tap at the median (every repetition gives the same figure, so the width of the "
        "interval is 0: virtual time repeats)"
    )
    assert said(tap, tap) == "no difference at the median: equal to the nanosecond in every repetition"


def test_virtual_time_that_nearly_repeats_is_reported_in_nanoseconds() -> None:
    tap = medians("tap", 59_004, 59_006, 59_001, label="virtual time")
    xdp = medians("xdp", 54_902, 54_902, 54_905, label="virtual time")
    assert said(tap, xdp) == "xdp is 4.101 µs faster than tap at the median [4.090, 4.111]"


@pytest.mark.parametrize(
    ("statistic", "words"),
    [
        ("max", "xdp is 18.4 µs faster than tap at the maximum"),
        ("p99_9", "xdp is 18.4 µs faster than tap at p99.9"),
        ("mean", "xdp is 18.4 µs faster than tap in the mean"),
        ("stddev", "xdp is 18.4 µs narrower than tap in standard deviation"),
    ],
)
def test_each_statistic_has_its_words(statistic: str, words: str) -> None:
    tap, xdp = (
        configuration(name, {n: {statistic: ns} for n, ns in enumerate(values)})
        for name, values in (("tap", TAP), ("xdp", XDP))
    )
    assert said(tap, xdp, statistic).startswith(words)


def test_figures_of_other_timestamps_are_not_compared() -> None:
    hard = medians("xdp", *XDP, to="rx_hard")
    assert said(medians("tap", *TAP), hard) == (
        "not compared at the median: the timestamps differ: rx_soft − launch against rx_hard − launch"
    )
    assert one(medians("tap", *TAP), hard).effect is None


def launching(ns: int, early_ns: int | None) -> Cell:
    metric = {"from": "launch", "to": "rx_soft", "uncertainty_ns": 0, "p50": ns, "stddev": ns}
    return repetition({"control": {"metrics": {"latency": metric}, "early_ns": early_ns}})


def test_latencies_from_launch_times_before_which_only_one_etf_sends_are_not_compared_but_their_spread_is() -> None:
    plain, launched = (
        Configuration("r", name, {"bridge": name}, repetitions, {})
        for name, values, early_ns in (("tap", TAP, None), ("xdp", XDP, 200_000))
        for repetitions in [{n: launching(ns, early_ns) for n, ns in enumerate(values)}]
    )
    assert said(plain, launched) == f"not compared at the median: {compare.LAUNCHES}"
    assert said(plain, launched, "stddev").startswith("xdp is 18.4 µs narrower than tap")


def test_figures_of_other_labels_are_not_compared() -> None:
    found = one(medians("tap", *TAP), medians("xdp", *XDP, label="virtual time"))
    assert found.effect is None
    assert sentence(found, NAMES).endswith("the labels differ: measured against virtual time")


def test_a_figure_that_one_side_does_not_have_is_not_compared() -> None:
    blank = configuration("xdp", {1: {"p50": None}, 2: {"p50": None}})
    assert one(medians("tap", *TAP), blank).why_not == compare.ONE_SIDE
    assert one(blank, blank).why_not == compare.NO_FIGURE


def test_repetitions_that_the_other_side_does_not_have_are_left_out_within_one_run() -> None:
    tap = configuration("tap", {n: {"p50": ns} for n, ns in enumerate(TAP, start=1)})
    xdp = configuration("xdp", {n: {"p50": ns} for n, ns in enumerate(XDP, start=1) if n != 3})
    found = one(tap, xdp)
    assert found.paired
    assert list(found.of_a) == list(found.of_b) == [1, 2, 4, 5]
    assert found.effect is not None
    assert found.effect.a == (812_000 + 845_000 + 830_000 + 822_000) / 4


def test_two_runs_have_no_repetition_in_common() -> None:
    found = one(medians("tap", *TAP, run="r"), medians("tap", *XDP[:3], run="s"))
    assert not found.paired
    assert (len(found.of_a), len(found.of_b)) == (5, 3)
    assert found.effect is not None
    assert found.effect.freedom == 2


def test_repetitions_of_one_run_that_share_no_two_blocks_cannot_be_judged() -> None:
    tap = configuration("tap", {1: {"p50": 10}, 2: {"p50": 11}})
    xdp = configuration("xdp", {3: {"p50": 20}, 4: {"p50": 21}})
    assert one(tap, xdp).why_not == compare.NO_COMMON
    assert not one(tap, xdp).shown


def test_clocks_that_could_have_made_the_difference_hide_it() -> None:
    tap, xdp = medians("tap", *TAP, uncertainty_ns=8_000), medians("xdp", *XDP, uncertainty_ns=9_000)
    assert not one(tap, xdp).shown
    assert said(tap, xdp) == "no difference shown at the median (−18.4 ± 28.2 µs at 95 %; 28.2 µs would have been)"


def test_clocks_that_nothing_bounds_are_reported() -> None:
    found = said(medians("tap", *TAP, uncertainty_ns=None), medians("xdp", *XDP))
    assert found.endswith("[7.3, 29.5]; the clocks are not bounded")


def test_many_comparisons_need_larger_differences() -> None:
    tap, xdp = medians("tap", *TAP), medians("xdp", *XDP)
    same = [(medians(f"a{n}", *TAP), medians(f"b{n}", *reversed(TAP))) for n in range(9)]
    found, *_ = compared([(tap, xdp), *same], [("latency", "p50")])
    assert found.effect is not None and found.effect.p is not None
    assert found.effect.p == pytest.approx(0.0101, abs=1e-4)
    assert found.p_adjusted == pytest.approx(10 * found.effect.p)
    assert not found.shown
    assert sentence(found, NAMES) == (
        "no difference shown at the median (−18.4 ± 11.2 µs at 95 %; 22.5 µs would have been, among 10 comparisons)"
    )


def test_what_would_have_been_shown_is_shown_once_it_is_there() -> None:
    same = [(medians(f"a{n}", *TAP), medians(f"b{n}", *reversed(TAP))) for n in range(9)]
    smallest = compared([(medians("tap", *TAP), medians("xdp", *XDP)), *same], [("latency", "p50")])[0].smallest_ns
    assert smallest is not None
    for beyond, shown in ((1.001, True), (0.999, False)):
        # 18400 ns is the difference that is there.
        xdp = medians("xdp", *(ns + 18_400 - smallest * beyond for ns in XDP))
        assert compared([(medians("tap", *TAP), xdp), *same], [("latency", "p50")])[0].shown is shown


def test_what_cannot_be_judged_is_no_part_of_the_family() -> None:
    pairs = [(medians("tap", *TAP), medians("xdp", *XDP)), (medians("tap", 5), medians("xdp", 6))]
    found = compared(pairs, [("latency", "p50"), ("latency", "max")])
    assert [one.family for one in found] == [1, 0, 0, 0]


def result(*cells: tuple[str, str, int, str]) -> Result:
    """A result of cells (bridge, load, repeat, status)."""
    made = [
        {
            "slug": f"bridge={bridge},loads={load}", "cell": {"bridge": bridge, "loads": [load]}, "repeat": repeat,
            "status": status, "label": "measured", "verdict": "trusted", "streams": {"control": {"metrics": {}}},
        }
        for bridge, load, repeat, status in cells
    ]  # fmt: skip
    return partial(Result, {"run": "r", "cells": made})


def test_repetitions_that_did_not_run_to_their_end_count_for_nothing() -> None:
    tap, *others = configurations(
        result(("tap", "none", 1, "ok"), ("tap", "none", 2, "interrupted"), ("xdp", "none", 1, "unavailable"))
    )
    assert list(tap.repetitions) == [1]
    assert tap.left_out == {2: "interrupted"}
    assert not others


def test_cells_that_differ_in_one_key_alone_are_pairs() -> None:
    bridges, loads = ("tap", "xdp", "ovs"), ("none", "flood")
    found = configurations(result(*((bridge, load, 1, "ok") for bridge in bridges for load in loads)))
    pairs = [(a.slug, b.slug) for a, b in by_key(found, "bridge")]
    assert len(pairs) == 6
    assert pairs[:3] == [
        ("bridge=tap,loads=none", "bridge=xdp,loads=none"),
        ("bridge=tap,loads=none", "bridge=ovs,loads=none"),
        ("bridge=xdp,loads=none", "bridge=ovs,loads=none"),
    ]
    assert len(by_key(found, "loads")) == 3
    assert by_key(found, "no-key") == []


def test_runs_are_matched_by_their_matrix_values() -> None:
    old = configurations(result(("tap", "none", 1, "ok"), ("xdp", "none", 1, "ok")))
    new = configurations(result(("xdp", "none", 1, "ok"), ("ovs", "none", 1, "ok")))
    pairs, unmatched = matched(old, new)
    assert [(a.slug, b.slug) for a, b in pairs] == [("bridge=xdp,loads=none",) * 2]
    assert [one.slug for one in unmatched] == ["bridge=tap,loads=none", "bridge=ovs,loads=none"]


def test_each_is_compared_with_the_first_that_differs_in_the_key_alone() -> None:
    made = [
        Configuration("r", f"{bridge}-{load}", {"bridge": bridge, "load": load}, {}, {})
        for bridge in ("tap", "xdp", "ovs")
        for load in ("none", "flood")
    ]
    found = [(a.slug, b.slug) for a, b in against_first(made, "bridge")]
    assert found == [
        ("tap-none", "xdp-none"),
        ("tap-none", "ovs-none"),
        ("tap-flood", "xdp-flood"),
        ("tap-flood", "ovs-flood"),
    ]
    assert against_first(made, "size") == []


def with_interval(value: str, p50: int, low: int, high: int, **figures: Any) -> Configuration:
    return configuration(value, {1: {"p50": p50, "confidence": {"p50": {"low": low, "high": high}}}}, **figures)


def test_two_deployments_are_held_apart_by_their_packets() -> None:
    # Each end takes its variance from the ends that lie towards it: 3 and 4 make 5, 12 and 5 make 13.
    tap, xdp = with_interval("tap", 1_000, 995, 1_004), with_interval("xdp", 2_000, 1_997, 2_012)
    assert one(tap, xdp).within_ns == (1_000 - 5, 1_000 + 13)
    assert one(xdp, tap).within_ns == (-1_000 - 13, -1_000 + 5)
    clocks = with_interval("xdp", 2_000, 1_997, 2_012, uncertainty_ns=7)
    assert one(tap, clocks).within_ns == (1_000 - 12, 1_000 + 20)
    assert one(tap, medians("xdp", 2_000)).within_ns is None
    assert one(medians("tap", 1, 2), medians("xdp", 3, 4)).within_ns is None


def test_what_another_program_did_not_keep_is_reported_as_such() -> None:
    kept, packets = configuration("tap", {1: {"p50": None, "kept": "summary"}}), medians("xdp", 8_000)
    assert one(kept, kept).why_not == one(kept, packets).why_not == compare.NOT_KEPT
    assert one(packets, configuration("ovs", {1: {"p50": None}})).why_not == compare.ONE_SIDE


def timed(value: str, *p50: int, run: str = "r", **others: str) -> Configuration:
    """A cell with a timer called `value`, and others {stream: its talker}: [µs] of its wake-ups in each repetition."""
    blocks = {value: "vm1" if value == "guest" else "ecu", **others}
    cells = {
        repeat: repetition(
            {
                name: {
                    "probe": {"name": name},
                    "talker": host,
                    "listener": host,
                    "metrics": {"wakeup": {"from": "wake_due", "to": "wake", "uncertainty_ns": 0, "p50": ns}},
                }
                for name, host in blocks.items()
            }
        )
        for repeat, ns in enumerate(p50, start=1)
    }
    return Configuration(run, f"probes={value}", {"probes": value}, cells, {})


WAKEUP = [("wakeup", "p50")]
NATIVE, GUEST = (8_100, 8_200, 8_300), (33_000, 33_400, 33_200)


def test_timers_that_the_matrix_chooses_are_compared_as_one_metric() -> None:
    (found,) = compared([(timed("native", *NATIVE), timed("guest", *GUEST))], WAKEUP)
    assert (found.stream, found.stream_b, found.title) == ("native", "guest", "native, guest")
    assert found.shown and found.paired
    assert sentence(found, Names("native", "guest")).startswith("guest is 25.00 µs later than native at the median")
    assert [one.title for one in compared([(found.a, found.b)], WAKEUP, ["guest"])] == ["native, guest"]
    assert compared([(found.a, found.b)], WAKEUP, ["other"]) == []


def test_a_stream_of_the_same_name_is_compared_first_and_what_is_then_alone_with_nothing() -> None:
    native, both = timed("native", *NATIVE), timed("native", *NATIVE, guest="vm1")
    assert streams_of_both(native, both) == [("native", "native")]
    assert streams_of_both(timed("native", *NATIVE, late="ecu"), both) == [("native", "native"), ("late", "guest")]


def test_streams_of_other_names_are_not_compared_where_which_with_which_is_open() -> None:
    assert streams_of_both(timed("native", *NATIVE), timed("guest", *GUEST, other="vm2")) == []
    # Of two runs each names its own streams.
    assert streams_of_both(timed("native", *NATIVE), timed("guest", *GUEST, run="s")) == []
    # A timer, and packets.
    assert streams_of_both(timed("native", *NATIVE), medians("tap", *TAP)) == []
