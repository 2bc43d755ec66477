"""Where the time went, in the picture, on the page and in the table: the same ns everywhere, on one scale."""

from __future__ import annotations

import io
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from PIL import Image

import latlab.report
from latlab.analysis.chain import chain_of_metric
from latlab.analysis.interrupt_way import GUEST_TIMER_WAY, GUEST_WAY, INTERVALS, interval_name
from latlab.analysis.metrics import metric_values
from latlab.analysis.way import HARDWARE_WAY, ROUND_TRIP_WAY, WAKEUP_WAY
from latlab.analysis.way import INTERVALS as PACKETS_INTERVALS
from latlab.model.metrics import METRICS_BY_NAME
from latlab.report.charts.chain import (
    Bar,
    BarSegment,
    CellBars,
    ChainInterval,
    ChainScale,
    ChainView,
    chain_chart,
    chain_table,
    chain_view,
)
from latlab.report.charts.sheet import COLOURS, LOST_COLOUR, WAY_COLOURS, WAY_INKS, Point, Sheet, Text, write_chart
from latlab.report.html import new_environment
from latlab.report.markdown import part_lines
from latlab.result.types import Chain
from support.report.charts import lines, points, texts
from support.report.page import Elements

REPORT = Path(latlab.report.__file__).parent
COUNT = 4000
PERIOD_NS = 1_000_000
STEPS = {
    "wake": -50_000, "submit": 52_000, "tx_sched": 900, "tx_soft": 2_500, "tx_hard": 1_000,
    "rx_hard": 6_000, "rx_soft": 20_000, "rx_user": 9_000,
}  # fmt: skip
EVIL = "<script>alert(1)</script> $x$ | `tick`"


def cell(metric: str, *, hard: bool = False, slow_ns: int = 0, nic_off_ns: int = 0) -> Chain:
    """The document of a stream with a skewed tail, of which five packets are later by slow_ns on the path."""
    rng = np.random.default_rng(5)
    at = 1_795_294_349_000_000_000 + np.arange(COUNT) * PERIOD_NS
    columns = {"sequence": np.arange(COUNT, dtype=np.uint64), "launch_tai_ns": at}
    for name, step in STEPS.items():
        at = at + step + (rng.standard_exponential(COUNT) * abs(step) / 5).astype(np.int64)
        if name == "rx_hard":
            at[700:705] += slow_ns
        columns[f"{name}_tai_ns"] = at - (nic_off_ns if name == "rx_hard" else 0)
    packets = pl.DataFrame(columns).with_columns(
        wake_due_tai_ns="launch_tai_ns",
        arrival="sequence",
        send_error=pl.lit(0),
        launch_error=pl.lit(0),
        warmup=pl.lit(False),
    )
    if not hard:
        packets = packets.with_columns(
            pl.lit(None, pl.Int64).alias(f"{name}_tai_ns") for name in ("tx_hard", "rx_hard")
        )
    values = metric_values(packets, METRICS_BY_NAME[metric], PERIOD_NS)
    assert values is not None
    found = chain_of_metric(packets, values)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def software() -> ChainView:
    cells = (("bridge tap", cell("latency")), ("bridge macvtap", cell("latency", slow_ns=2_000_000)))
    return chain_view("control", "latency", cells)


@pytest.fixture(scope="module")
def hardware() -> ChainView:
    return chain_view("control", "latency_user", [(EVIL, cell("latency_user", hard=True, nic_off_ns=10_000))])


def bars(view: ChainView) -> list[Bar]:
    return [bar for one in view.cells for bar in one.bars]


def test_a_bar_is_its_intervals_one_behind_the_other_and_ends_at_its_value(hardware: ChainView) -> None:
    document = cell("latency_user", hard=True, nic_off_ns=10_000)
    found = bars(hardware)
    assert [bar.what for bar in found] == ["typical", "mean p99–p99.9", "mean ≥ p99.9", "worst"]
    assert [bar.value_ns for bar in found[:-1]] == [group.value_ns for group in document.groups]
    assert document.worst
    assert found[-1].value_ns == document.worst.each[0].value_ns
    for bar in found:
        assert bar.segments[0].from_ns == 0
        assert all(one.to_ns == other.from_ns for one, other in pairwise(bar.segments))
        assert sum(one.ns for one in bar.segments) == bar.value_ns
    names = ["wake-up", "prepare", "socket", "qdisc", "sending NIC", "path", "receiving NIC", "delivery"]
    assert [one.name for one in hardware.intervals] == names
    # One more is of a guest's interrupts.
    assert len({one.colour for one in hardware.intervals}) == len(WAY_COLOURS) - 1 == 8


def test_cells_share_their_scales_and_short_bars_are_shown_closer_too(software: ChainView) -> None:
    closer, whole = software.scales
    assert (closer.whole, whole.whole) == (False, True)
    ends = [bar.ends_ns for bar in bars(software)]
    assert (whole.low_ns, whole.high_ns) == (min(low for low, _ in ends), max(high for _, high in ends))
    typical = [bar for bar in bars(software) if bar.what == "typical"]
    assert all(closer.low_ns <= bar.ends_ns[0] <= bar.ends_ns[1] <= closer.high_ns for bar in typical)
    (only,) = chain_view("control", "latency", [("one", cell("latency"))]).scales
    assert only.whole


def drawn(view: ChainView, *, wide: bool = True) -> list[Sheet]:
    """The pieces that have bars: of each cell, once for each row of scales."""
    return [one for one in chain_chart(view).pieces(wide=wide) if one.told]


def intervals(view: ChainView, piece: Sheet) -> list[tuple[float, float]]:
    """(from, to) of what is drawn of any interval, inches."""
    names = {*(one.name for one in view.intervals), "back"}
    found = [path for name in names for path in lines(piece, name)]
    return sorted((min(x for x, _ in path), max(x for x, _ in path)) for path in found)


def test_every_bar_of_every_cell_ends_where_it_did_on_one_scale(software: ChainView) -> None:
    """The last interval of each bar, in the panel that has everything: as far from the start as its value says."""
    found = []
    for cell, piece in zip(software.cells, drawn(software), strict=True):
        _, ((start, _), _) = lines(piece, "start")
        whole = [path for path in lines(piece, "path") if path[0][0] >= start]
        assert len(whole) == len(cell.bars)
        found += [(max(x for x, _ in path) - start, bar.value_ns) for path, bar in zip(whole, cell.bars, strict=True)]
    per_ns = max(width for width, _ in found) / max(ns for _, ns in found)
    for width, ns in found:
        assert width == pytest.approx(per_ns * ns, abs=0.01)


def test_bars_that_go_beyond_the_closer_scale_say_so(software: ChainView) -> None:
    beyond = [point for piece in drawn(software) for point in points(piece, "beyond")]
    assert len(beyond) == sum(bar.ends_ns[1] > software.scales[0].high_ns for bar in bars(software)) > 0
    assert len({x for x, _ in beyond}) == 1, "at the closer scale's edge"


def test_in_a_narrow_window_scales_lie_below_each_other(software: ChainView) -> None:
    narrow = drawn(software, wide=False)
    assert len(narrow) == 2 * len(software.cells)
    assert {len(lines(piece, "start")) for piece in narrow} == {1}
    assert max(right for piece in narrow for _, right in intervals(software, piece)) < narrow[0].width_in < 4


def test_the_line_of_the_start_is_next_to_bars_and_crosses_nothing_that_is_written(software: ChainView) -> None:
    for cell, piece in zip(software.cells, drawn(software), strict=True):
        ((_, top), (_, bottom)), *_ = lines(piece, "start")
        written = [part for part, _ in piece.parts if isinstance(part, Text)]
        heights = [part.y for part in written if part.ha == "right" and "typical" in part.text]
        assert all(top < y < bottom for y in heights)
        name = next(part for part in written if part.text == cell.name)
        assert name.y + 0.12 < top


def test_every_interval_has_its_colour_s_ink_and_a_key(hardware: ChainView) -> None:
    chart = chain_chart(hardware)
    key = chart.pieces()[0]
    assert set(texts(key)) == {*(one.name for one in hardware.intervals), "below zero: drawn backwards"}
    file = io.BytesIO()
    chart.figure("caption").savefig(file, dpi=150)
    with Image.open(file) as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    for one in hardware.intervals:
        colour = np.array(mpl.colors.to_rgb(WAY_COLOURS[one.colour])) * 255
        assert (np.abs(pixels - colour).max(axis=2) < 8).sum() > 60, one.name


# Dichromats' colours in linear sRGB: Machado, Oliveira, Fernandes, IEEE TVCG 15(6), 2009, severity 1.
PROTAN = ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998))
DEUTAN = ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881))
TRITAN = ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900))
XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))


def lab(colour: str, seen: Any) -> Any:
    """CIELAB (D65) of an sRGB colour as someone with these cones sees it."""
    rgb = np.array(mpl.colors.to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = np.array(XYZ) @ np.clip(np.array(seen) @ linear, 0, 1) / (0.9505, 1, 1.089)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array((116 * y - 16, 500 * (x - y), 200 * (y - z)))


@pytest.mark.parametrize("seen", [np.eye(3), PROTAN, DEUTAN, TRITAN], ids=["all", "protan", "deutan", "tritan"])
def test_neighbours_are_told_apart_by_the_colour_blind_too(seen: Any) -> None:
    """A difference of 2.3 (CIE 1976) is just noticeable; these are many times that."""
    labs = [lab(colour, seen) for colour in WAY_COLOURS]
    without_nics = [labs[one] for one in (0, 1, 2, 3, 5, 7)]
    for way in (labs, without_nics):
        assert all(np.linalg.norm(one - other) > 15 for one, other in pairwise(way))


def contrast(one: str, other: str) -> float:
    """As WCAG 2.1 has it."""

    def luminance(colour: str) -> float:
        rgb = np.array(mpl.colors.to_rgb(colour))
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        return float(linear @ (0.2126, 0.7152, 0.0722))

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_figures_in_bars_can_be_read_in_light_and_dark() -> None:
    style = (REPORT / "assets" / "report.css").read_text()
    light, dark = (dict(re.findall(r"--([\w-]+): (#\w+)", part)) for part in style.split("@media", 2)[:2])
    names = {colour: f"cell-{number}" for number, colour in enumerate(COLOURS)} | {LOST_COLOUR: "lost"}
    for colour, ink in zip(WAY_COLOURS, WAY_INKS, strict=True):
        for theme in (light, dark):
            paper = theme["paper"] if ink == "white" else ink
            assert contrast(theme[names.get(colour, "quiet")], paper) >= 4.5, (colour, ink)


def test_a_name_is_drawn_as_it_is(hardware: ChainView) -> None:
    chart = chain_chart(hardware)
    assert EVIL in texts(chart)
    chart.figure("caption").draw_without_rendering()


@pytest.mark.slow
def test_files_are_the_same_each_time_they_are_drawn(tmp_path: Path) -> None:
    view = chain_view("control", "delivery", [("one", cell("delivery"))])
    kinds = ("png", "svg", "pdf")
    first = write_chart(chain_chart(view), tmp_path / "a", caption="c", formats=kinds)
    second = write_chart(chain_chart(view), tmp_path / "b", caption="c", formats=kinds)
    assert [path.name for path in first] == [f"control-delivery-chain.{kind}" for kind in kinds]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def page(view: ChainView) -> str:
    template = new_environment().from_string('{% from "charts.html.j2" import drawn %}{{ drawn(drawing) }}')
    return template.render(drawing=chain_chart(view))


def test_the_page_draws_the_same_bars_without_script_or_style(software: ChainView, hardware: ChainView) -> None:
    markup = page(software)
    elements = Elements(markup).found
    assert not any("style" in one or any(name.startswith("on") for name in one) for one in elements)
    shown = [one for one in elements if one.tag == "svg" and one.get("role") == "img"]
    assert len(shown) == len(software.cells) * (1 + len(software.scales)), "wide, and narrow"
    for bar in bars(software):
        assert bar.told in markup
    markup = page(hardware)
    assert "<script" not in markup
    assert "&lt;script&gt;" in markup


def test_labels_and_note_say_that_bars_are_means_and_of_which_packets(software: ChainView) -> None:
    assert software.note == (
        "typical: mean of p40 to p60; mean p99–p99.9: from p99 on, below p99.9; "
        "mean ≥ p99.9: of all from p99.9 on; worst: one alone"
    )
    assert chain_chart(software).said == (f"{software.note}, µs",)
    assert f"- {software.note}" in list(part_lines(chain_table(software)))


def test_without_a_p99_9_the_group_above_p99_goes_to_the_end_and_says_so() -> None:
    document = cell("latency")
    fewer = document.model_copy(update={"groups": [one for one in document.groups if one.name != "p99_9"]})
    view = chain_view("control", "latency", [("bridge tap", fewer)])
    assert [bar.what for bar in bars(view)] == ["typical", "mean ≥ p99", "worst"]
    assert "mean ≥ p99: of all from p99 on" in view.note and "p99.9" not in view.note


def test_the_table_adds_up_and_names_every_interval(software: ChainView) -> None:
    table = chain_table(software)
    assert tuple(table.headings) == (
        "cell",
        "bar",
        "packets",
        "wake-up",
        "prepare",
        "socket",
        "qdisc",
        "path",
        "latency",
    )
    found = table.rows
    assert [row[:2] for row in found[:4]] == [
        ("bridge tap", what) for what in ("typical", "mean p99–p99.9", "mean ≥ p99.9", "worst")
    ]
    for row in found:
        figures = [float(text.replace("−", "-")) for text in row[3:]]
        # Each is rounded separately to 0.1 µs.
        assert sum(figures[:-1]) == pytest.approx(figures[-1], abs=0.05 * len(figures))


def test_where_the_worst_were_made_late_is_said(software: ChainView) -> None:
    slow = software.cells[1]
    counted = re.fullmatch(r"of the worst 100 packets (.*); path has (\d+) % of their delay", slow.grew)
    assert counted
    assert counted[1].endswith(", 5 in path")
    assert sum(map(int, re.findall(r"\d+", counted[1]))) == 100
    assert 50 < int(counted[2]) < 100
    (remark,) = slow.remarks
    assert re.fullmatch(r"wake-up is below zero in \d+ of 4000 packets: woken before the launch", remark)
    assert chain_table(software).remarks[2].startswith("bridge macvtap: of the worst 100 packets")


def test_an_interval_below_zero_between_nics_is_laid_to_their_clocks(hardware: ChainView) -> None:
    assert any(
        line.startswith("path is below zero in") and line.endswith(": a NIC's clock")
        for line in hardware.cells[0].remarks
    )


def test_a_metric_of_one_interval_has_nothing_to_choose_between() -> None:
    view = chain_view("control", "path", [("one", cell("path"))])
    assert [one.name for one in view.intervals] == ["path"]
    assert (view.cells[0].grew, view.start) == ("", "tx_soft")
    assert chain_table(view).remarks == [view.note]


def test_markdown_shows_the_table_s_texts(hardware: ChainView) -> None:
    markdown = "\n".join(part_lines(chain_table(hardware)))
    for row in chain_table(hardware).rows:
        for text in row[1:]:
            assert f"| {text} |" in markdown
    lines = [line for line in markdown.splitlines() if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {len(chain_table(hardware).headings) + 1}
    assert r"\<script\>" in markdown


def test_intervals_of_one_name_have_one_colour() -> None:
    colours: dict[str, set[int]] = {}
    for ends in INTERVALS:
        one = ChainInterval(*ends)
        colours.setdefault(one.name, set()).add(one.colour)
    assert all(len(found) == 1 for found in colours.values()), colours
    timers = {name for a, b in pairwise(GUEST_TIMER_WAY) if (name := interval_name(a, b))}
    assert {"VM host's timer", "KVM's timer"} <= timers
    assert colours["VM host's timer"] != colours["KVM's timer"]


@pytest.mark.parametrize("way", [HARDWARE_WAY, WAKEUP_WAY, ROUND_TRIP_WAY, GUEST_WAY, GUEST_TIMER_WAY])
def test_no_two_intervals_of_a_way_look_alike(way: tuple[str, ...]) -> None:
    names: dict[tuple[int, bool], set[str]] = {}
    for ends in {**PACKETS_INTERVALS, **INTERVALS}:
        if {*ends} <= {*way}:
            one = ChainInterval(*ends)
            names.setdefault((one.colour, bool(one.lined)), set()).add(one.name)
    assert len(names) > 2
    assert all(len(found) == 1 for found in names.values()), names


def test_a_line_in_an_interval_says_where_it_is_and_so_does_the_key() -> None:
    way = ("host_irq", "host_waking", "host_run", "asked", "irq", "waking", "run", "rx_user")
    intervals = tuple(ChainInterval(*ends) for ends in pairwise(way))
    segments, at = [], 0
    for one in intervals:
        segments.append(BarSegment(one, at, at + 100_000, at + 100_000))
        at += 100_000
    bar = Bar("typical", 10, 10, tuple(segments))
    cells = (CellBars("one", (bar,), "", ()),)
    view = ChainView("s", "reception", "", "host_irq", cells, intervals, (ChainScale(0, at, True),))
    chart = chain_chart(view)
    key, drawn, *_ = chart.pieces()
    assert [name for name in texts(key) if name.endswith("handler")] == ["VM host's handler", "handler"]
    assert texts(key)[-1] == "with a line: on the VM host"
    # Of one colour, and one of the two has a line in it, in the bar and in the key.
    for piece, samples in ((drawn, 0), (key, 1)):
        here = {name: box(piece, name) for name in ("VM host's handler", "handler")}
        assert len(lines(piece, "lined")) == 3 + samples
        inside = {name: sum(within(one, place) for one in lines(piece, "lined")) for name, place in here.items()}
        assert inside == {"VM host's handler": 1, "handler": 0}


def box(piece: Sheet, name: str) -> tuple[Point, ...]:
    """The outline of the only box of that name."""
    (found,) = lines(piece, name)
    return found


def within(one: tuple[Point, ...], other: tuple[Point, ...]) -> bool:
    """Whether all of it lies within the other."""
    return all(
        min(point[axis] for point in other) <= point[axis] <= max(point[axis] for point in other)
        for point in one
        for axis in (0, 1)
    )
