"""Looks: a dimension of the matrix is a colour, a dash or a marker, and no two can be taken for each other."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import latlab.report
from latlab.report.charts.sheet import COLOURS, DASHES, LOST_COLOUR, MARKERS
from latlab.report.legend import Looks
from latlab.result.types import Result
from latlab.scenario import BRIDGES
from support.results import partial

BRIDGE = "guests.vm1.bridge"


def result(repeats: int = 1, **matrix: list[str]) -> Result:
    """A result with a cell for every combination; the keys' underscores are dots."""
    keys = [key.replace("_", ".") for key in matrix]
    combinations = [dict(zip(keys, values, strict=True)) for values in itertools.product(*matrix.values())]
    cells = [
        {"cell": cell, "slug": ",".join(f"{k}={v}" for k, v in cell.items()) or "all", "repeat": repeat}
        for cell in combinations
        for repeat in range(1, repeats + 1)
    ]
    return partial(Result, {"cells": cells})


def told(found: Result) -> dict[str, list[str]]:
    """heading → texts of the whole legend."""
    return {key.heading: [one.text for one in key.entries] for key in Looks(found).legend(found.cells)}


def test_the_first_dimension_is_the_colour_and_the_second_the_dash() -> None:
    found = result(guests_vm1_bridge=list(BRIDGES), loads=["none", "load"])
    looks = {(cell.cell[BRIDGE], cell.cell["loads"]): Looks(found).of(cell) for cell in found.cells}
    for number, bridge in enumerate(BRIDGES):
        assert {looks[bridge, load].colour for load in ("none", "load")} == {number}
        assert [looks[bridge, load].dash for load in ("none", "load")] == list(DASHES[:2])
    assert {look.marker for look in looks.values()} == {""}
    assert told(found) == {"bridge": list(BRIDGES), "loads": ["none", "load"]}


def test_a_dimension_with_one_value_takes_no_colour_from_the_next() -> None:
    found = result(streams_control_size=["64B"], loads=["none", "load"])
    assert [Looks(found).of(cell).colour for cell in found.cells] == [0, 1]
    assert told(found) == {"loads": ["none", "load"]}


def test_repetitions_are_the_dimension_after_the_matrix_s() -> None:
    assert told(result(3)) == {"repeat": ["1", "2", "3"]}
    assert list(told(result(2, loads=["none", "load"]))) == ["loads", "repeat"]
    found = result(2, guests_vm1_bridge=["tap", "xdp"], loads=["none", "load"])
    assert [Looks(found).of(cell).marker for cell in found.cells] == [*MARKERS[:2]] * 4
    assert told(found)["repeat"] == ["1", "2"]


def test_dimensions_beyond_the_third_share_the_marker() -> None:
    found = result(2, guests_vm1_bridge=["tap", "xdp"], loads=["none", "load"], streams_control_size=["64B", "1kB"])
    assert told(found)["size · repeat"] == ["64B · 1", "64B · 2", "1kB · 1", "1kB · 2"]
    assert len({Looks(found).of(cell) for cell in found.cells}) == 16


def test_a_bridge_has_its_colour_wherever_its_key_stands_and_however_many_cells_there_are() -> None:
    for loads in (["none", "load"], [f"load{n}" for n in range(len(DASHES) + 1)]):
        found = result(loads=loads, guests_vm1_bridge=["tap", "xdp"])
        looks = {(cell.cell["loads"], cell.cell[BRIDGE]): Looks(found).of(cell) for cell in found.cells}
        assert {bridge: {looks[load, bridge].colour for load in loads} for bridge in ("tap", "xdp")} == {
            "tap": {0},
            "xdp": {1},
        }
        assert len(set(looks.values())) == len(looks)


def test_one_cell_needs_no_legend() -> None:
    assert told(result()) == {}


@pytest.mark.parametrize(
    "found",
    [
        result(streams_control_size=[f"{n}B" for n in range(40, 60)]),
        result(3, streams_control_size=[f"{n}B" for n in range(40, 60)]),
        result(guests_vm1_bridge=["tap", "xdp"], loads=[f"load{n}" for n in range(len(DASHES) + 1)]),
    ],
    ids=["too many colours", "and repetitions", "too many dashes"],
)
def test_with_more_values_than_colours_or_dashes_each_cell_has_a_look_and_a_line_of_its_own(
    found: Result,
) -> None:
    looks = Looks(found)
    assert len({looks.of(cell) for cell in found.cells}) == len(found.cells)
    (key,) = looks.legend(found.cells)
    assert key.heading == ""
    assert len({one.text for one in key.entries}) == len(found.cells)


def test_the_legend_tells_what_is_shown_only() -> None:
    found = result(guests_vm1_bridge=["tap", "vfio"], loads=["none", "load"])
    shown = [cell for cell in found.cells if cell.cell[BRIDGE] == "tap"]
    bridge, loads = Looks(found).legend(shown)
    assert [one.text for one in bridge.entries] == ["tap"]
    assert [one.text for one in loads.entries] == ["none", "load"]


# G. M. Machado et al., "A Physiologically-based Model for Simulation of Color Vision Deficiency", 2009, severity 1.0:
# linear RGB to linear RGB.
SIGHTS = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}
# IEC 61966-2-1 (sRGB) and CIE 15 (L*a*b*, D65).
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = np.array([0.95047, 1.0, 1.08883])
APART = 15
"""CIE76: several times what one sees between two patches that touch; the least between two of Okabe and Ito's is 16."""


def lab(colour: str, sight: str) -> NDArray[np.float64]:
    """The colour's L*, a*, b* as such eyes have it."""
    coded = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    xyz = XYZ @ np.clip(np.array(SIGHTS[sight]) @ linear, 0, 1) / WHITE
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sight", SIGHTS)
def test_no_two_colours_are_taken_for_each_other_by_the_colour_blind(sight: str) -> None:
    seen = {colour: lab(colour, sight) for colour in (*COLOURS, LOST_COLOUR)}
    for (one, here), (other, there) in itertools.combinations(seen.items(), 2):
        assert np.linalg.norm(here - there) > APART, (one, other)


STYLE = (Path(latlab.report.__file__).parent / "assets" / "report.css").read_text(encoding="utf-8")
NAMES = (*(f"--cell-{number}" for number in range(len(COLOURS))), "--lost")


def on_the_page(*, dark: bool) -> list[str]:
    """The page's colours of lines, and of lost packets."""
    light, _, darker = STYLE.partition("@media (prefers-color-scheme: dark)")
    found = (re.search(rf"{name}: (#[0-9a-f]{{6}})", darker if dark else light) for name in NAMES)
    return [one[1] for one in found if one]


def test_the_page_has_the_pictures_colours() -> None:
    assert on_the_page(dark=False) == [colour.lower() for colour in (*COLOURS, LOST_COLOUR)]


@pytest.mark.parametrize("sight", SIGHTS)
def test_in_the_dark_no_two_are_taken_for_each_other_either(sight: str) -> None:
    seen = {colour: lab(colour, sight) for colour in on_the_page(dark=True)}
    assert len(seen) == len(NAMES)
    for (one, here), (other, there) in itertools.combinations(seen.items(), 2):
        assert np.linalg.norm(here - there) > APART, (one, other)
