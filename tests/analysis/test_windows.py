"""Clean windows leave out what the network did not do, say why, and hide nothing that it did."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from latlab.analysis.anomalies import Anomalies, find_anomalies
from latlab.analysis.confidence import confidence_of
from latlab.analysis.statistics import statistics
from latlab.analysis.windows import BY_HAND, Selection, clean_rows, clean_windows, is_cut, windows_of
from latlab.result.anomalies import Cut, KeptWindow
from latlab.synthetic import Description, Synthetic, generate
from latlab.synthetic.description import (
    Drift,
    Ingredient,
    LateWakes,
    Losses,
    Noise,
    PathChange,
    Spikes,
    Stall,
    Step,
    Swing,
    Throttling,
    WarmUp,
)

PERIOD_NS = 1_000_000
SECOND = 1_000_000_000
PACKETS = 40_000
START = 1_800_000_000_000_000_000


def made(*ingredients: Ingredient, **changes: object) -> tuple[Synthetic, Anomalies]:
    plain = Description(
        seed=2,
        packets=PACKETS,
        period_ns=PERIOD_NS,
        noise=Noise(2_000),
        start_tai_ns=START,
        warmup=1_000,
        clock_bound_ns=10_000_000,
        ingredients=ingredients,
        least_ns=(8_000, 3_000, 2_000, 3_000, 2_000, 30_000, 3_000, 9_000),
    )
    synthetic = generate(replace(plain, **changes))  # type: ignore[arg-type]
    return synthetic, find_anomalies(synthetic.packets, synthetic.context())


def windows(*ingredients: Ingredient, **changes: object) -> Selection:
    synthetic, anomalies = made(*ingredients, **changes)
    return clean_windows(synthetic.packets, anomalies)


def spans(found: Selection) -> list[tuple[float, float]]:
    """What is kept, in seconds from the first launch."""
    return [((one.from_tai_ns - START) / SECOND, (one.to_tai_ns - START) / SECOND) for one in found.kept]


def test_a_quiet_stream_is_one_window_and_nothing_is_cut() -> None:
    found = windows()
    ((begin, end),) = spans(found)
    assert begin == 1.0 and end == pytest.approx(40.0, abs=0.002)
    assert found.kept[0].packets == PACKETS - 1_000 and not found.cuts and not found.chosen


@pytest.mark.parametrize(
    "finding",
    [
        Stall(10 * SECOND, 50_000_000),
        LateWakes((10_000,), 300_000),
        Losses(0.0, ((10_000, 50),)),
        Spikes((10_000,), 300_000),
        PathChange(10 * SECOND, 10 * SECOND, 50_000),
        Throttling(10 * SECOND, "path"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_the_path_did_is_a_finding_and_stays(finding: Ingredient) -> None:
    bound_ns = 0 if isinstance(finding, PathChange) else 10_000_000
    synthetic, anomalies = made(finding, clock_bound_ns=bound_ns)
    assert anomalies.episodes
    assert not clean_windows(synthetic.packets, anomalies).cuts


@pytest.mark.parametrize(
    ("ingredient", "reason", "cut"),
    [
        (Swing(10 * SECOND, 12 * SECOND, 60_000, compared=True), "clock_swing", (10, 22)),
        (Step(15 * SECOND, -60_000, 8 * SECOND, compared=True), "clock_step", (15, 23)),
        (WarmUp(400_000, 500_000_000), "warm_up", (1, 4.3)),
    ],
    ids=["swing", "step", "warm-up"],
)
def test_what_the_clocks_or_the_beginning_did_is_cut_with_its_reason(
    ingredient: Ingredient, reason: str, cut: tuple[float, float]
) -> None:
    synthetic, anomalies = made(ingredient)
    (one,) = clean_windows(synthetic.packets, anomalies).cuts
    assert one.reason == reason and one.text == anomalies.episodes[0].text
    assert (one.from_tai_ns - START) / SECOND == pytest.approx(cut[0], abs=0.8)
    assert (one.to_tai_ns - START) / SECOND == pytest.approx(cut[1], abs=0.8)
    assert one.packets == pytest.approx((one.to_tai_ns - one.from_tai_ns) / PERIOD_NS, abs=1)


@pytest.mark.parametrize("known", [{"clock_bound_ns": 500_000, "ptp": True}, {"ptp": True}, {}])
@pytest.mark.parametrize(
    "moved", [Swing(10 * SECOND, 12 * SECOND, 60_000), Step(15 * SECOND, 60_000, 8 * SECOND), Drift(900.0)]
)
def test_what_no_record_shows_to_be_the_clocks_stays(moved: Ingredient, known: dict[str, object]) -> None:
    """It may be the path, whether the clocks are known to 500 µs or PTP shows nothing: that is no excuse."""
    synthetic, anomalies = made(moved, **known)
    name = "drift" if isinstance(moved, Drift) else "unexplained"
    assert {one.class_ for one in anomalies.episodes} == {name}
    assert not clean_windows(synthetic.packets, anomalies).cuts


def test_throttling_of_our_own_threads_is_cut_and_of_the_paths_is_not() -> None:
    found = windows(Throttling(5 * SECOND, "talker"))
    assert {one.reason for one in found.cuts} == {"throttled"} and len(found.cuts) == 35
    assert len(found.kept) == 36
    anomalies = made(Throttling(5 * SECOND, "path"))[1]
    assert not any(is_cut(one) for one in anomalies.episodes)


def test_cuts_that_meet_are_one_with_both_reasons() -> None:
    swing = Swing(10 * SECOND, 12 * SECOND, 60_000, compared=True)
    found = windows(swing, Throttling(12 * SECOND, "talker", active_ns=4 * SECOND))
    (one,) = found.cuts
    assert one.reason == "clock_swing + throttled"
    assert "all latencies moved" in one.text and "throttled for" in one.text


def test_in_a_cut_one_cause_is_reported_once_whatever_the_last_digit_of_its_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    synthetic, anomalies = made(Throttling(5 * SECOND, "talker"))
    first = next(one for one in anomalies.episodes if is_cut(one))
    again = [
        first.model_copy(update={"text": first.text.replace("throttled for ", f"throttled for {length} ms, not ")})
        for length in ("50", "50.01", "49.99", "80")
    ]
    monkeypatch.setattr(type(anomalies.episodes), "of", lambda episodes, classes: iter(again))
    (cut,) = clean_windows(synthetic.packets, anomalies).cuts
    assert cut.text == f"{again[0].text}; {again[3].text}"


def test_windows_and_cuts_are_all_of_the_stream_and_every_packet_is_counted() -> None:
    found = windows(Swing(10 * SECOND, 12 * SECOND, 60_000, compared=True), WarmUp(400_000, 200_000_000))
    every: list[KeptWindow | Cut] = [*found.kept, *found.cuts]
    edges = sorted((one.from_tai_ns, one.to_tai_ns) for one in every)
    assert all(before[1] == after[0] for before, after in pairwise(edges))
    assert sum(one.packets for one in every) == PACKETS - 1_000


def test_windows_that_somebody_names_are_taken_whatever_is_in_them() -> None:
    synthetic, anomalies = made(Swing(10 * SECOND, 12 * SECOND, 60_000, compared=True))
    chosen = [(START + 12 * SECOND, START + 14 * SECOND), (START + 30 * SECOND, START + 99 * SECOND)]
    found = clean_windows(synthetic.packets, anomalies, chosen)
    assert found.chosen and spans(found) == [(12, 14), (30, pytest.approx(40, abs=0.002))]
    assert {one.reason for one in found.cuts} == {BY_HAND} and len(found.cuts) == 2
    assert [one.class_ for one in found.passed_over] == ["clock_swing"]


def test_named_windows_that_overlap_are_one() -> None:
    synthetic, anomalies = made()
    chosen = [(START + 5 * SECOND, START + 9 * SECOND), (START + 8 * SECOND, START + 12 * SECOND)]
    assert spans(clean_windows(synthetic.packets, anomalies, chosen)) == [(5, 12)]


@pytest.mark.parametrize(("begin", "end"), [(9, 5), (50, 60), (0, 1)])
def test_a_named_window_without_packets_is_an_error(begin: int, end: int) -> None:
    synthetic, anomalies = made()
    with pytest.raises(ValueError, match="window"):
        clean_windows(synthetic.packets, anomalies, [(START + begin * SECOND, START + end * SECOND)])


def test_a_stream_without_packets_after_the_warm_up_has_no_windows() -> None:
    synthetic, anomalies = made()
    assert clean_windows(synthetic.packets.head(500), anomalies) == Selection((), (), False)


def test_statistics_of_both_stand_side_by_side() -> None:
    synthetic, anomalies = made(Step(15 * SECOND, -60_000, 8 * SECOND, compared=True), Stall(30 * SECOND, 20_000_000))
    found = clean_windows(synthetic.packets, anomalies)
    document = windows_of(synthetic.packets, found, PERIOD_NS).document()
    assert json.loads(json.dumps(document)) == document
    assert document["packets"] == {"whole": 39_000, "kept": 31_000, "cut": 8_000}
    latency = document["metrics"]["latency"]
    assert latency["whole"]["n"] == 39_000 and latency["clean"]["n"] == 31_000
    assert latency["whole"]["min"] < 0 < latency["clean"]["min"]
    # The stall is no less there.
    assert latency["clean"]["max"] == latency["whole"]["max"] > 19_000_000
    rows = synthetic.packets.slice(1_000)
    values = (rows["rx_soft_tai_ns"] - rows["launch_tai_ns"]).to_numpy()
    inside = np.abs(np.arange(1_000, PACKETS) - 19_000 + 0.5) > 4_000
    expected = statistics(values[inside], rows["sequence"].to_numpy()[inside])
    assert latency["clean"] == expected.document() | {"confidence": confidence_of(values[inside], expected).document()}
    assert "confidence" not in document["metrics"]["lateness"]["clean"]


def test_where_all_is_cut_there_are_no_figures_but_the_wholes() -> None:
    synthetic, anomalies = made(Drift(-900.0, compared=True))
    found = clean_windows(synthetic.packets, anomalies)
    assert not found.kept and [one.reason for one in found.cuts] == ["clock_swing"]
    latency = windows_of(synthetic.packets, found, PERIOD_NS).document()["metrics"]["latency"]
    nothing = statistics(np.empty(0, np.int64), np.empty(0, np.uint64))
    assert latency["clean"] == nothing.document() and latency["whole"]["n"] == 39_000


def test_clean_rows_keep_the_warm_up_which_is_in_no_statistic() -> None:
    synthetic, anomalies = made(Step(15 * SECOND, -60_000, 8 * SECOND, compared=True))
    rows = clean_rows(synthetic.packets, clean_windows(synthetic.packets, anomalies))
    assert rows["warmup"].sum() == 1_000 and rows.height == PACKETS - 8_000
