"""Clocks over time on the page: PTP's offset and the bounds of latlab's readings, with gaps where nothing was known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyarrow import ipc

from latlab.analysis.words import duration
from latlab.evaluation.run import make_result
from latlab.recordings.arrow import FORMAT, SCHEMAS
from latlab.recordings.run_folder import RunFolder
from latlab.report.build import write_report
from latlab.report.charts.clocks import HEIGHT, WIDTH, ClockChart, clock_charts

OFFSETS_NS = [None, -40, 60, None, 10]
PORT: dict[str, Any] = {
    "port": "ecu.eth0",
    "role": "slave",
    "profile": "default",
    "timestamps": "software",
    "clock": None,
}
PORT |= {"free_running": False, "limit_ns": 1000, "master": "sensor.eth0"}
STEP_NS = 1_000_000_000


def window(at_ns: int, low: int, high: int) -> dict[str, Any]:
    drift = {"drift_lower_ppb": 0.0, "drift_upper_ppb": 0.0}
    return {"reference_tai_ns": at_ns, "lower_ns": low, "upper_ns": high, "span_ns": STEP_NS, **drift}


@pytest.fixture
def folder(brief_run: Path) -> RunFolder:
    """Its first measured cell has a slave of PTP's and clocks that were compared, five times a second apart."""
    run = RunFolder(brief_run)
    cell = next(one for one in run.cells() if one.cell().status == "ok")
    document = cell.cell().document()
    start = document["start_tai_ns"]
    instants = [start + number * STEP_NS for number in range(len(OFFSETS_NS))]
    windows = [window(at, -100 - 10 * number, 100) for number, at in enumerate(instants)]
    document["ptp"] = [PORT]
    document["clocks"] = [
        {"from": "sensor", "to": "ecu", "source": "exchange", "lower_ns": -140, "upper_ns": 100, "windows": windows}
    ]
    cell.write_cell(document)
    rows = [(at, at, True, 9, offset, at, 34, 1, 1, 0) for at, offset in zip(instants, OFFSETS_NS, strict=True)]
    schema = SCHEMAS["ptp"].with_metadata(
        {"latlab.format": FORMAT, "latlab.table": "ptp", "latlab.run_id": document["run_id"]}
    )
    columns = [list(column) for column in zip(*rows, strict=True)]
    with ipc.new_stream(str(cell.recording("ptp", "ecu.eth0", "ptp")), schema) as stream:
        stream.write_batch(pa.record_batch(columns, schema=schema))
    return run


@pytest.fixture
def charts(folder: RunFolder) -> list[ClockChart]:
    return list(clock_charts(folder, make_result(folder)))


def test_an_offset_is_drawn_where_it_is_known_on_one_scale_with_our_own_readings(charts: list[ClockChart]) -> None:
    ptp, bounds = charts
    assert ptp.title == "ecu.eth0 (slave): offset from its master as ptp4l reports it; band: as latlab measures it"
    drawn = ptp.line
    assert [x for x, _ in drawn] == [WIDTH / 4, WIDTH / 2, WIDTH]
    # The scale is from −140 to 100 ns, the band's own ends, downwards.
    assert [y for _, y in drawn] == pytest.approx([(100 - ns) / 240 * HEIGHT for ns in (-40, 60, 10)], abs=0.1)
    assert (ptp.low, ptp.high, ptp.span) == ("−140 ns", "100 ns", "4 s")
    assert len(ptp.band) == 2 * len(OFFSETS_NS)
    assert bounds.title == "ecu's clock − sensor's is within the band (exchange)" and not bounds.line
    lower = bounds.band[len(OFFSETS_NS) :]
    assert [x for x, _ in lower] == [WIDTH, WIDTH * 3 / 4, WIDTH / 2, WIDTH / 4, 0]
    assert [y for _, y in lower] == pytest.approx([(200 + 10 * n) / 240 * HEIGHT for n in (4, 3, 2, 1, 0)], abs=0.1)


FAR_NS = 1_763_000_000_123_456_789
"""How far apart clocks are of which one counts from its boot."""


def compared(folder: RunFolder, low_ns: list[int], wide_ns: int) -> ClockChart:
    """The chart of bounds with these lower ends, a second apart."""
    cell = next(one for one in folder.cells() if one.cell().status == "ok")
    document = cell.cell().document()
    windows = [
        window(document["start_tai_ns"] + number * STEP_NS, low, low + wide_ns) for number, low in enumerate(low_ns)
    ]
    document["clocks"][0]["windows"] = windows
    cell.write_cell(document)
    return list(clock_charts(folder, make_result(folder)))[1]


def test_clocks_that_run_apart_are_drawn_next_to_their_line_so_that_the_band_is_seen(folder: RunFolder) -> None:
    """2 ppm over 4 s are 8 µs, the band is 0.4 µs wide, and 0.1 µs off the line once: no nanosecond of it is lost."""
    low_ns = [FAR_NS + 2000 * number + (100 if number == 2 else 0) for number in range(5)]
    chart = compared(folder, low_ns, 400)
    assert chart.title.endswith(f", after subtracting a straight line: {duration(FAR_NS)} at the start, +2 ppm")
    # The line has a fifth of the 100 ns.
    assert (chart.low, chart.high) == ("−220 ns", "280 ns")
    lower = [y for _, y in chart.band[5:]]
    assert lower == pytest.approx([HEIGHT, HEIGHT, HEIGHT * 400 / 500, HEIGHT, HEIGHT], abs=0.1)
    assert chart.title in chart.told


def test_clocks_that_run_together_have_no_line_taken_off_and_ends_that_differ(folder: RunFolder) -> None:
    chart = compared(folder, [-917_000_000_000 + number for number in range(5)], 300)
    assert "straight line" not in chart.title
    assert (chart.low, chart.high) == ("−917 s", "−916.9999997 s")


@pytest.mark.parametrize(("rate_ppb", "told"), [(-4428, "−4.428 ppm"), (500, "+0.5 ppm")])
def test_a_rate_has_its_sign(folder: RunFolder, rate_ppb: int, told: str) -> None:
    chart = compared(folder, [rate_ppb * number for number in range(5)], 20)
    assert chart.title.endswith(f", {told}")
    assert chart.low != chart.high


def test_the_page_has_them_with_words_for_who_does_not_see_them(folder: RunFolder) -> None:
    make_result(folder)
    page = write_report(folder, formats=()).read_text()
    _, _, clocks = page.partition("<strong>Clocks over time</strong>")
    assert clocks[: clocks.index("</figure>")].count('role="img"') == 2
    assert "as ptp4l reports it; band: as latlab measures it: from −140 ns to 100 ns in 4 s" in page


def test_nothing_is_drawn_of_clocks_that_nobody_compared(brief_run: Path) -> None:
    run = RunFolder(brief_run)
    assert list(clock_charts(run, make_result(run))) == []
