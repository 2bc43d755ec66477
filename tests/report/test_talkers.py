"""Talkers: what packets cost them, and how early their packets leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from partial import partial

from latlab.recordings.cell import RecordedCell
from latlab.report.launches import early_notes, launches_of
from latlab.report.talkers import HEADINGS, talker_rows
from latlab.result.types import Result, Stream
from latlab.scenario import Scenario, load_scenario

SCENARIOS = Path(__file__).parents[2] / "scenarios"
STREAM = {"name": "s", "talker": "sensor", "interface": "eth0", "port": "eth0", "priority": 3}


def launching(cell: RecordedCell, scenario: Scenario | None, **figures: Any) -> dict[str, Any]:
    metrics = {"latency": {"from": "launch", "min": -191_900, **figures}}
    return {"talker": "sensor", "metrics": metrics, **launches_of(cell, scenario).get("s", {})}


def launched(priority: int = 3, **launch: Any) -> RecordedCell:
    stream = STREAM | {"priority": priority, "launch_time": {"lead_ns": 5_000_000, **launch}}
    return partial(RecordedCell, {"streams": [stream]})


def test_a_latency_below_zero_is_explained_by_the_delta_of_the_etf_that_sends_early() -> None:
    scenario = load_scenario(SCENARIOS / "txtime.yaml").scenario
    block = launching(launched(), scenario)
    assert (block["lead_ns"], block["early_ns"]) == (5_000_000, 200_000)
    (note,) = early_notes([("s", partial(Stream, block))], "latency")
    assert note.startswith("s: below zero because etf sends each packet 200 µs (its delta) before the launch time")
    above = launching(launched(), scenario, min=4_000)
    assert list(early_notes([("s", partial(Stream, above))], "latency")) == []


def test_what_a_card_launches_or_another_queue_sends_is_not_early() -> None:
    scenario = load_scenario(SCENARIOS / "txtime.yaml").scenario
    shaper = scenario.shapers["sensor.eth0"]
    etf = shaper.children[0].model_copy(update={"offload": True})
    by_card = scenario.model_copy(update={"shapers": {"sensor.eth0": shaper.model_copy(update={"children": {0: etf}})}})
    for cell, one in ((launched(), by_card), (launched(priority=0), scenario), (launched(), None)):
        assert launching(cell, one)["early_ns"] is None
    assert "lead_ns" not in launching(partial(RecordedCell, {"streams": [STREAM]}), scenario)


def test_each_talker_has_a_row_where_streams_have_launch_times() -> None:
    block = {"lead_ns": 5_000_000}
    talker = {"host": "sensor", "packets": 4_000, "cpu_ns": 39_712_000, "wakeups": 1_004}
    cell = {"slug": "all", "cell": {}, "repeat": 1, "streams": {"s": block}, "talkers": [talker]}
    (row,) = talker_rows(partial(Result, {"cells": [cell]}))
    assert row == ("all", "1", "sensor", "4000", "9.928 µs", "0.251")
    assert len(row) == len(HEADINGS)
    assert list(talker_rows(partial(Result, {"cells": [cell | {"talkers": [talker | {"packets": 0}]}]}))) == []
    assert list(talker_rows(partial(Result, {"cells": [cell | {"streams": {"s": {}}}]}))) == []
