"""Recorded runs of every kind have the figures that they had: every statistic, count, interval, anomaly and verdict."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from latlab.imports.table import FORMATS
from recorded_runs import IMPORTS, NAMES, RUNS, analysed, differences, results


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_analysed_anew_a_recorded_run_has_the_figures_that_it_had(tmp_path: Path, name: str) -> None:
    assert list(differences(results()[name], analysed(name, tmp_path))) == [], (
        ".venv/bin/python tools/recorded_runs.py --help says how to go on"
    )


def test_each_has_its_result_and_no_other_is_there() -> None:
    assert set(results()) == set(NAMES)


def test_the_kinds_of_runs_are_there() -> None:
    measured = {"first", "first-again", "ptp", "round-trips", "tools", "watch", "watched"}
    assert measured | {"board", "gates", "launch-times"} <= set(RUNS)
    formats = {results()[name]["cells"][0]["imported"]["format"] for name in IMPORTS}
    assert formats == {one.name for one in FORMATS} - {"isochron-packets"}


def changed(path: str, value: Any) -> list[str]:
    """What is said where one value of a result is another."""
    before = results()["first"]
    now = deepcopy(before)
    *above, last = path.split("/")
    place: Any = now
    for key in above:
        place = place[int(key) if isinstance(place, list) else key]
    place[int(last) if isinstance(place, list) else last] = value
    return list(differences(before, now))


CONTROL = "cells/0/streams/control"


def test_a_nanosecond_more_a_lost_packet_and_another_verdict_are_told() -> None:
    cell = results()["first"]["cells"][0]
    p90 = cell["streams"]["control"]["metrics"]["latency"]["p90"]
    assert changed(f"{CONTROL}/metrics/latency/p90", p90 + 1) == [
        f"/{CONTROL}/metrics/latency/p90: {p90} → {p90 + 1}",
    ]
    assert changed(f"{CONTROL}/counts/lost", 1) == [f"/{CONTROL}/counts/lost: 0 → 1"]
    assert changed("verdict", "trusted") == ['/verdict: "suspect" → "trusted"']
    assert changed(f"{CONTROL}/metrics/latency/p90", None) == [f"/{CONTROL}/metrics/latency/p90: {p90} → null"]


def test_what_is_gone_and_what_is_new_is_told_and_other_words_are_not() -> None:
    before = results()["first"]
    assert next(differences(before, {**before, "reasons": before["reasons"][1:]})) == (
        f"/reasons: {len(before['reasons'])} entries → {len(before['reasons']) - 1}"
    )
    assert list(differences(before, {**before, "colour": 3})) == ['/colour: "(nothing)" → 3']
    assert list(differences({**before, "colour": 3}, before)) == ['/colour: 3 → "(nothing)"']
    assert changed("reasons/0/finding", "said in other words") == []
    assert changed("reasons/0/id", "another-rule") != []


def test_a_sum_in_another_order_is_no_difference_and_one_in_a_million_is() -> None:
    deviation = results()["first"]["cells"][0]["streams"]["control"]["metrics"]["latency"]["stddev"]
    assert changed(f"{CONTROL}/metrics/latency/stddev", deviation * (1 + 1e-12)) == []
    assert len(changed(f"{CONTROL}/metrics/latency/stddev", deviation * (1 + 1e-6))) == 1
