"""The pictures: every panel has ink, and every cell has the same axes."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

from latlab.data.run_folder import RunFolder
from latlab.report.palette import COLOURS, LOST_COLOUR, look
from latlab.report.pictures import ccdf_figure, series_figure, write_pictures
from latlab.report.view import View, view

STREAMS = ("control", "status")


def shown(run: Path, stream: str = "control", metric: str = "latency") -> View:
    folder = RunFolder(run)
    return view(folder, folder.result(), stream, metric)


def test_a_picture_has_a_series_and_a_histogram_for_each_cell_on_identical_axes(shared_run: Path) -> None:
    figure = series_figure(shown(shared_run), "caption")
    left, right = figure.axes[0::2], figure.axes[1::2]
    assert len(left) == len(right) == 4
    assert len({axes.get_xlim() for axes in left}) == 1
    assert len({axes.get_xlim() for axes in right}) == 1
    assert len({axes.get_ylim() for axes in (*left, *right)}) == 1
    assert len({axes.get_yscale() for axes in (*left, *right)}) == 1
    assert {axes.get_xscale() for axes in right} == {"log"}


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("metric", ["latency", "arrival_offset"])
def test_every_panel_has_its_cell_s_ink(shared_run: Path, stream: str, metric: str) -> None:
    view_ = shown(shared_run, stream, metric)
    figure = series_figure(view_, "caption")
    file = io.BytesIO()
    figure.savefig(file, dpi=figure.dpi)
    with Image.open(file) as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    for number, axes in enumerate(figure.axes):
        colour = mpl.colors.to_rgb(COLOURS[view_.traces[number // 2].look.colour])
        box = axes.get_window_extent()
        panel = pixels[int(pixels.shape[0] - box.y1) : int(pixels.shape[0] - box.y0), int(box.x0) : int(box.x1)]
        near = np.abs(panel - np.array(colour) * 255).max(axis=2) < 60
        assert near.sum() > 150, axes.get_title(loc="left")


def test_every_lost_packet_is_marked(shared_run: Path) -> None:
    figure = series_figure(shown(shared_run), "caption")
    marks = [line for axes in figure.axes[0::2] for line in axes.lines if line.get_color() == LOST_COLOUR]
    assert sum(len(np.asarray(line.get_xdata())) for line in marks) == 14


def test_the_series_shows_the_extreme_that_one_packet_is(shared_run: Path) -> None:
    view_ = shown(shared_run)
    figure = series_figure(view_, "caption")
    for trace, axes in zip(view_.traces, figure.axes[0::2], strict=True):
        tops = [np.asarray(path.vertices)[:, 1].max() for lines in axes.collections for path in lines.get_paths()]
        assert max(tops) == pytest.approx(trace.value_ns.max() / 1000)


def test_the_ccdf_shows_every_cell_from_all_packets_to_the_last_one(shared_run: Path) -> None:
    view_ = shown(shared_run)
    (axes,) = ccdf_figure(view_, "caption").axes
    assert axes.get_yscale() == "log"
    assert len(axes.lines) == 4
    for trace, line in zip(view_.traces, axes.lines, strict=True):
        values, share = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        assert share[0] == 1
        assert share[-1] == pytest.approx(1 / len(trace.value_ns))
        assert values[-1] == pytest.approx(trace.value_ns.max() / 1000)


def test_the_axis_names_the_metric_its_timestamps_and_the_unit(shared_run: Path) -> None:
    figure = ccdf_figure(shown(shared_run), "measured · suspect")
    assert figure.axes[0].get_xlabel() == "latency = rx_soft − launch [µs]"
    assert "measured · suspect" in {text.get_text() for text in figure.texts}


def test_files_are_named_by_stream_and_metric(shared_run: Path, tmp_path: Path) -> None:
    written = write_pictures(shown(shared_run), tmp_path, caption="c", formats=("png", "svg", "pdf"))
    assert sorted(path.name for path in written) == sorted(
        f"control-latency{kind}.{ending}" for kind in ("", "-ccdf") for ending in ("png", "svg", "pdf")
    )
    with Image.open(tmp_path / "control-latency.png") as image:
        assert image.width == 1500


def test_a_stream_s_name_cannot_lead_out_of_the_folder(shared_run: Path, tmp_path: Path) -> None:
    odd = replace(shown(shared_run), stream="../up/stream")
    for path in write_pictures(odd, tmp_path / "pictures", caption="c"):
        assert path.parent == tmp_path / "pictures"


def test_cells_beyond_the_colours_and_repeats_still_look_different() -> None:
    looks = {look(configuration, repeat) for configuration in range(20) for repeat in (1, 2, 3)}
    assert len(looks) == 60
