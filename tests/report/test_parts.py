"""The small pure parts: packing, facts, axes, text."""

from __future__ import annotations

import base64
import json
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from latlab.analysis.axis import common_axis
from latlab.analysis.words import rate
from latlab.model.facts import flatten
from latlab.report.payload import embedded, packed
from latlab.report.testbed import compare_facts
from latlab.report.text import (
    limit,
    microseconds,
    plain,
    short_count,
)
from latlab.result.places import matrix_title, short_headings

SAFE = 2**52


@given(arrays(np.int64, st.integers(0, 50), elements=st.integers(-SAFE, SAFE)), st.booleans())
def test_packed_integers_come_back_as_they_were(values: np.ndarray, delta: bool) -> None:
    box = packed(values, delta=delta)
    planes = np.frombuffer(zlib.decompress(base64.b64decode(box["data"]), wbits=-15), np.uint8)
    joined = np.ascontiguousarray(planes.reshape(box["bytes"], box["n"]).T).view(f"<i{box['bytes']}").ravel()
    back = np.cumsum(joined.astype(np.int64)) if delta else joined
    assert np.array_equal(back, values)


def test_small_integers_take_four_bytes_and_large_ones_eight() -> None:
    assert packed(np.array([2**31 - 1, -(2**31)]), delta=False)["bytes"] == 4
    assert packed(np.array([2**31]), delta=False)["bytes"] == 8
    assert packed(np.array([-(2**31), 2**31 - 1]), delta=True)["bytes"] == 8


@given(st.text())
def test_embedded_json_means_the_same_and_holds_no_angle_bracket(text: str) -> None:
    script = embedded({"text": text, "more": "</script><!--"})
    assert "<" not in script
    assert json.loads(script) == {"text": text, "more": "</script><!--"}


def test_facts_that_never_differ_are_apart_from_those_that_do() -> None:
    before = {"ecu": {"kernel": "6.1", "irq": {"24": [1]}, "load": 1}}
    after = {"ecu": {"kernel": "6.1", "irq": {"24": [0, 1]}, "load": 1}}
    other = {"ecu": {"kernel": "6.1", "irq": {"24": [1]}, "load": 2}}
    (ecu,) = compare_facts([("a", before, after), ("b", other, other)])
    assert ecu.same == (("kernel", "6.1"),)
    varied = dict(ecu.varied)
    assert [(change.before, change.after, change.changed) for change in varied["irq.24"]] == [
        ("1", "0, 1", True),
        ("1", "1", False),
    ]
    assert [change.changed for change in varied["load"]] == [False, False]
    assert ecu.changed == 1


def test_a_fact_that_disappeared_is_reported() -> None:
    (host,) = compare_facts([("a", {"h": {"phc": "ptp0"}}, {"h": {}})])
    assert dict(host.varied)["phc"][0].after == "absent"


def test_nested_facts_become_dotted_paths() -> None:
    facts = {"a": {"b": True, "c": None}, "d": [{"e": 1}, {"e": 2}], "f": [], "g": {}}
    assert flatten(facts) == {"a.b": "yes", "a.c": "none", "d.0.e": "1", "d.1.e": "2", "f": "none"}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([10_000, 11_000, 12_000], "linear"),
        ([10_000, 11_000, 12_000, 6_000_000], "log"),
        ([-50] * 50 + [50] * 50 + [900_000], "asinh"),
        ([0, 0, 0], "linear"),
        ([], "linear"),
    ],
)
def test_the_axis_suits_the_values_and_holds_them_all(values: list[int], kind: str) -> None:
    axis = common_axis([np.array(values, np.int64)])
    assert axis.kind == kind
    assert axis.low_ns < axis.high_ns
    assert all(axis.low_ns <= value <= axis.high_ns for value in values)


@given(st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=200))
def test_histogram_edges_cover_every_value_in_ascending_order(values: list[int]) -> None:
    edges = common_axis([np.array(values, np.int64)]).edges(80)
    assert edges[0] <= min(values)
    assert edges[-1] >= max(values)
    assert (np.diff(edges) > 0).all()
    assert len(edges) <= 81


def test_a_cell_s_title_uses_the_short_names_that_are_unambiguous() -> None:
    assert matrix_title({"guests.vm1.bridge": "tap", "loads": []}) == "bridge tap, loads none"
    assert matrix_title({"loads": ["a", "b"]}) == "loads a + b"
    assert matrix_title({}) == "all"
    assert short_headings(["guests.a.bridge", "guests.b.bridge"]) == ("guests.a.bridge", "guests.b.bridge")


def test_numbers_are_written_for_people_and_nothing_stays_blank() -> None:
    assert (microseconds(31_249), microseconds(None), microseconds(-50)) == ("31.2", "", "−0.1")
    assert microseconds(-49) == "0.0", "nothing is no less than nothing"
    assert (rate(812e6, "bit/s"), rate(72_500, "/s"), rate(None, "/s")) == ("812 Mbit/s", "72.5 k/s", "")
    assert [short_count(10**power) for power in (0, 3, 4, 6)] == ["1", "1000", "10k", "1M"]
    ticks = (0.0, 0.05, 1, 12.5, 100_000.0, 1e6, -1e6, 0.1 + 0.2, 2e7)
    assert [plain(tick) for tick in ticks] == [
        *("0", "0.05", "1", "12.5", "100000", "1000000", "−1000000", "0.3", "20000000"),
    ]
    assert (limit("control.latency.max", 500_000), limit("control.counts.lost", 3)) == ("500 µs", "3")
