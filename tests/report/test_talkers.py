"""Talkers: what packets cost them, and how early their packets leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from latlab.evaluation.cell import launches_of
from latlab.recordings.cell import RecordedCell
from latlab.report.answer import answer
from latlab.report.document import Lines, Table
from latlab.report.rows import early_notes
from latlab.report.sections import TALKERS_HEADINGS, Shown, parts_of, talker_rows
from latlab.result.types import Result, Stream
from latlab.scenario import Scenario, load_scenario
from latlab.scenario.shapers import Classes
from support.results import partial

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
    assert isinstance(shaper, Classes)
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
    assert len(row) == len(TALKERS_HEADINGS)
    assert list(talker_rows(partial(Result, {"cells": [cell | {"talkers": [talker | {"packets": 0}]}]}))) == []
    assert list(talker_rows(partial(Result, {"cells": [cell | {"streams": {"s": {}}}]}))) == []


HEAD = {"scenario": "x", "label": "virtual time", "verdict": "trusted", "reasons": []}


def batched(batch: str, repeat: int, cpu_ns: int, **more: Any) -> dict[str, Any]:
    talker = {"host": "sensor", "packets": 4_000, "cpu_ns": cpu_ns, "wakeups": 1_004}
    cell = {"slug": f"batch={batch}", "cell": {"streams.s.launch_time": batch}, "repeat": repeat, "status": "ok"}
    return {**cell, "streams": {"s": {"lead_ns": 5_000_000, "metrics": {}}}, "talkers": [talker], **more}


def test_what_packets_cost_is_on_the_first_screen_and_in_a_section_of_its_own() -> None:
    cells = [
        batched("4 a call, early", number, cpu_ns) for number, cpu_ns in enumerate((40_000_000, 44_000_000, 41_000_000))
    ]
    result = partial(Result, HEAD | {"cells": [*cells, batched("one a call", 1, 60_000_000)]})
    shown = {one.name: one.parts for one in answer(result, ["latency"])}
    (lines,) = shown["talkers"]
    assert isinstance(lines, Lines)
    assert lines.title == "What each packet costs the sending thread"
    assert list(lines.lines) == [
        "4 a call, early: 10.25 µs of CPU time, 0.251 wake-ups",
        "one a call: 15 µs of CPU time, 0.251 wake-ups",
    ]
    (table,) = parts_of("talkers", Shown(result, ["latency"]))
    assert isinstance(table, Table) and list(table.rows) == list(talker_rows(result))
    without = [batched("one a call", 1, 60_000_000, streams={"s": {"metrics": {}}})]
    assert not {one.name: one.parts for one in answer(partial(Result, HEAD | {"cells": without}), ["latency"])}[
        "talkers"
    ]


def test_two_talkers_of_a_cell_are_named() -> None:
    (cell,) = [batched("one a call", 1, 60_000_000)]
    cell["talkers"] = [*cell["talkers"], cell["talkers"][0] | {"host": "vm1", "cpu_ns": 80_000_000}]
    (lines,) = next(one.parts for one in answer(partial(Result, HEAD | {"cells": [cell]}), []) if one.name == "talkers")
    assert isinstance(lines, Lines)
    assert [line.partition(":")[0] for line in lines.lines] == ["one a call, sensor", "one a call, vm1"]
