"""Small files in the programs' formats, each with its right answer: captures, wrapped files, clocks, live tables."""

from __future__ import annotations

from typing import Any

import pytest

from support.imports.files import Importing

CYCLICTEST = ("thread-0", "wakeup", {"n": 60_000, "min": 3_000, "mean": 5_000, "max": 27_000})
RIGHT = {
    "capture-both-points-in-one-both.pcapng": ("flow-1", "transit", {"n": 29, "lost": 1, "min": 6_000, "max": 6_580}),
    "capture-fcs-bit": ("flow-1", "transit", {"n": 30, "lost": 0, "min": 7_000, "max": 7_290}),
    "capture-fcs-one-side": ("flow-1", "transit", {"n": 30, "lost": 0, "min": 7_000, "max": 7_290}),
    "capture-flow-missing": ("flow-1", "transit", {"n": 40, "lost": 0, "min": 12_000, "max": 15_900}),
    "capture-foreign-packet-cut": ("flow-1", "transit", {"n": 40, "lost": 0, "min": 12_000, "max": 15_900}),
    "capture-r-tag": ("flow-1", "transit", {"n": 30, "lost": 0, "min": 6_000, "max": 6_580}),
    "capture-sign-within-bound": ("flow-1", "transit", {"n": 55, "lost": 5, "min": -200, "max": -160}),
    "capture-tcp-checksum-beside-udp": ("flow-1", "transit", {"n": 20, "lost": 0, "min": 21_000, "max": 21_950}),
    "capture-tcp-checksum-offload": ("flow-1", "transit", {"n": 40, "lost": 0, "min": 21_000, "max": 22_950}),
    "capture-unused-interface": ("flow-1", "transit", {"n": 30, "lost": 0, "min": 6_000, "max": 6_580}),
    "isochron-report-blanks-packets.txt": ("packets", "path", {"n": 15, "min": 6_500, "max": 6_552}),
    "wrapped-ansible-cyclictest.txt": CYCLICTEST,
    "wrapped-bom-isochron-packets.csv": ("packets", "path", {"n": 15, "min": 6_500, "max": 6_552}),
    "wrapped-bom-rtla.txt": ("cpu-0", "wakeup", {"n": 1_000, "max": 4_000}),
    "wrapped-gzip-cyclictest.txt.gz": CYCLICTEST,
    "wrapped-indented-cyclictest.txt": CYCLICTEST,
    "wrapped-iso-stamps-ddsperf.txt": ("vm-4090", "half_round_trip", {"n": 300}),
    "wrapped-journal-cyclictest.txt": CYCLICTEST,
    "wrapped-utf16-cyclictest.txt": CYCLICTEST,
}
PAIRS = {
    "capture-unused-interface": ("first.pcapng", "second.pcap"),
}


def files(name: str) -> list[str]:
    if "." in name:
        return [name]
    return [f"{name}-{one}" for one in PAIRS.get(name, ("first.pcap", "second.pcap"))]


@pytest.mark.parametrize("name", RIGHT)
def test_its_figures_are_the_right_ones(importing: Importing, name: str) -> None:
    stream, metric, right = RIGHT[name]
    given: dict[str, Any] = {"clock_bound_ns": 1_000} if "within-bound" in name else {}
    given |= {"columns": "qSTR"} if "blanks" in name else {}
    figures = importing(*files(name), **given).figures(stream, metric)
    assert {key: figures[key] for key in right} == right


def test_the_flow_that_one_capture_has_none_of_is_named(importing: Importing) -> None:
    found = importing(*files("capture-flow-missing")).found
    assert [(one.count, "6001" in one.why) for one in found.left_out] == [(30, True)]


def test_both_flows_are_whole_where_one_of_them_has_other_checksums(importing: Importing) -> None:
    found = importing(*files("capture-tcp-checksum-beside-udp"))
    assert [found.figures(f"flow-{number}", "transit")["n"] for number in (1, 2)] == [20, 20]
    assert found.left_out() == {}


def test_a_receiver_that_is_37_s_ahead_is_named_and_one_that_is_not_is_not(importing: Importing) -> None:
    scales = ("untrusted", "two time scales are mixed: TAI and UTC are 37 s apart")
    assert scales in importing("isochron-receiver-37s.csv", clock_bound_ns=1_000).checks
    assert not any(
        how == "untrusted" for how, _ in importing("isochron-one-time-scale.csv", clock_bound_ns=1_000).checks
    )


def test_a_capture_whose_clock_is_behind_turns_nothing_round(importing: Importing) -> None:
    right = importing("capture-behind-first.pcap", "capture-behind-second.pcap", clock_bound_ns=1_000)
    assert right.streams["flow-1"]["talker"] == "capture-behind-first.pcap"
    assert right.result["verdict"] != "untrusted"
    behind = importing("capture-behind-first.pcap", "capture-behind-second-1ms.pcap", clock_bound_ns=1_000)
    assert behind.streams["flow-1"]["talker"] == "capture-behind-first.pcap"
    assert behind.figures("flow-1", "transit")["max"] < 0
    assert behind.result["verdict"] == "untrusted"


@pytest.mark.parametrize(
    ("name", "cycles"), [("cyclictest-live-pipe.txt", [300, 122]), ("cyclictest-live-script.txt", [500, 175])]
)
def test_a_table_that_was_printed_again_and_again_is_its_last(
    importing: Importing, name: str, cycles: list[int]
) -> None:
    found = importing(name)
    assert [found.figures(thread, "wakeup")["n"] for thread in found.streams] == cycles
    (missed,) = [note for note in found.notes if "missed" in note]
    assert missed.startswith(f"thread 1 made {cycles[1]} of the ")
