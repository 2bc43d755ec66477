"""A timer's instants: parts that add up, windows that add up, and what became of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from latlab.analysis.accept import evaluate
from latlab.analysis.cell_anomalies import cell_anomalies
from latlab.analysis.evidence import Evidence
from latlab.analysis.statistics import statistics
from latlab.analysis.summary import summarise_cell
from latlab.analysis.trust import judge
from latlab.recordings.cell import RecordedCell
from latlab.result.types import Cell
from support.analysis.packets import recorded_cell, result_streams
from support.results import partial

PERIOD = 1_000_000
START = 10**18
Row = tuple[int | None, int | None, bool]
"""(interrupt, thread) after the instant in ns, None: unknown or not come to; and whether it was overdue."""


def timer_cell(count: int, window_ns: int = 4 * PERIOD, **agent: Any) -> RecordedCell:
    """cell.json with one timer, of 50 µs threshold."""
    own = {"how": "nanosleep", "threshold_ns": 50_000, "window_ns": window_ns}
    ready = {"timer": {"traced": True}, "trace_problem": None} | agent.pop("ready", {})
    stream = {
        "name": "irq",
        "stream": 1,
        "talker": "ecu",
        "listener": "ecu",
        "period_ns": PERIOD,
        "offset_ns": 0,
        "count": count,
        "size": None,
        "launch_time": None,
        "probe": "irq",
        "leg": None,
        "timer": own,
        "start_tai_ns": START,
    }
    done = {"events": count, "overdue": 0, "trace_lost": 0} | agent
    agents = [{"host": "ecu", "verb": "timer", "probe": "irq", "ready": ready, "done": done, "error": None}]
    return recorded_cell(streams=[stream], agents=agents, start_tai_ns=START)


def timer_rows(rows: list[Row], warmup: int = 0) -> pl.DataFrame:
    due = [START + n * PERIOD for n in range(len(rows))]

    def at(place: int) -> list[int | None]:
        values = (row[place] for row in rows)
        return [None if value is None else instant + value for value, instant in zip(values, due, strict=True)]

    return pl.DataFrame(
        {
            "stream": pl.Series([1] * len(rows), dtype=pl.UInt16),
            "sequence": pl.Series(range(len(rows)), dtype=pl.UInt64),
            "launch_tai_ns": due,
            "wake_due_tai_ns": due,
            "irq_tai_ns": pl.Series(at(0), dtype=pl.Int64),
            "wake_tai_ns": pl.Series(at(1), dtype=pl.Int64),
            "overdue": pl.Series([None if row[1] is None else row[2] for row in rows], dtype=pl.Boolean),
            "arrival": pl.Series([None] * len(rows), dtype=pl.UInt64),
            "send_error": pl.Series([None] * len(rows), dtype=pl.Int32),
            "launch_error": pl.Series([0] * len(rows), dtype=pl.UInt8),
            "late": pl.Series([0] * len(rows), dtype=pl.UInt8),
            "warmup": [n < warmup for n in range(len(rows))],
        }
    )


ROWS: list[Row] = [
    *((10_000, 30_000, False), (11_000, 31_000, False), (12_000, 90_000, False), (None, 500, True)),
    *((10_000, 25_000, False), (None, 60_000, False), (9_000, 26_000, False), (10_000, 50_000, False)),
    (None, None, False),
]


def block(rows: list[Row] = ROWS, warmup: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = summarise_cell(timer_cell(len(rows)), timer_rows(rows, warmup)).document()["streams"]["irq"]
    return found


def test_the_whole_is_of_every_instant_and_its_parts_of_those_that_a_timer_was_set_for() -> None:
    metrics = block()["metrics"]
    assert list(metrics) == ["wakeup", "interrupt", "dispatch"]
    assert {name: (one["n"], one["missing"]) for name, one in metrics.items()} == {
        "wakeup": (8, 0),
        "interrupt": (6, 1),
        "dispatch": (6, 1),
    }
    assert (metrics["wakeup"]["min"], metrics["wakeup"]["max"], metrics["wakeup"]["max_sequence"]) == (500, 90_000, 2)
    assert (metrics["interrupt"]["max"], metrics["dispatch"]["max"]) == (12_000, 78_000)
    assert {one["uncertainty_ns"] for one in metrics.values()} == {0}


def test_the_latest_instant_is_its_interrupt_and_what_came_after_it() -> None:
    wakeup = block()["metrics"]["wakeup"]
    assert wakeup["worst"] == {
        "sequence": 2,
        "intervals": [
            {"from": "wake_due", "to": "irq", "ns": 12_000},
            {"from": "irq", "to": "wake", "ns": 78_000},
        ],
    }
    assert wakeup["chain"]["stops"] == ["wake_due", "irq", "wake"]
    assert wakeup["chain"]["clocks"] == ["one clock", "one clock"]
    assert all(sum(one["ns"]) == one["value_ns"] for one in wakeup["chain"]["worst"]["each"])


def test_every_instant_is_counted_for_what_became_of_it() -> None:
    assert block()["counts"] == {
        "scheduled": 9,
        "warmup": 0,
        "came": 8,
        "unrecorded": 1,
        "unknown": 0,
        "overdue": 1,
        "above": 2,
        "untold": 1,
        "send_errors": 0,
    }


def test_a_timer_whose_interrupts_nobody_told_of_has_no_parts_and_does_not_have_none() -> None:
    found = block([(None, late, False) for _, late, _ in ROWS[:8]])
    assert list(found["metrics"]) == ["wakeup"]
    assert found["counts"]["untold"] == 0
    assert [one["from"] for one in found["metrics"]["wakeup"]["worst"]["intervals"]] == ["wake_due"]


def test_windows_are_of_what_was_due_in_them_and_add_up_to_the_whole() -> None:
    found = block()
    timer = found["timer"]
    assert (timer["n"], timer["above"], timer["threshold_ns"]) == (8, 2, 50_000)
    handled = timer["interrupt"]
    assert sum(one["n"] for one in handled["windows"]) == handled["n"] == found["metrics"]["interrupt"]["n"]
    assert max(one["max"] for one in handled["windows"]) == found["metrics"]["interrupt"]["max"]
    assert handled["above"] == sum(one["above"] for one in handled["windows"])
    assert [(one["from_ns"], one["n"], one["above"]) for one in timer["windows"]] == [(0, 4, 1), (4 * PERIOD, 4, 1)]
    first = np.array([30_000, 31_000, 90_000, 500])
    exact = statistics(first, np.arange(4, dtype=np.uint64))
    assert {key: timer["windows"][0][key] for key in ("mean", "stddev", "min", "max")} == {
        "mean": first.mean(),
        "stddev": pytest.approx(first.std()),
        "min": 500,
        "max": 90_000,
    }
    assert timer["windows"][0]["stddev"] == exact.stddev


def test_a_window_longer_than_the_schedule_is_as_long_as_that() -> None:
    cell = summarise_cell(timer_cell(8, window_ns=100 * PERIOD), timer_rows(ROWS[:8])).document()
    found = cell["streams"]["irq"]["timer"]
    assert (found["window_ns"], len(found["windows"])) == (8 * PERIOD, 1)
    assert block()["timer"]["window_ns"] == 4 * PERIOD


def test_the_warm_up_is_in_no_figure_and_no_window() -> None:
    found = block(warmup=3)
    assert found["metrics"]["wakeup"]["n"] == 5
    assert (found["metrics"]["wakeup"]["max"], found["timer"]["above"]) == (60_000, 1)
    assert [one["n"] for one in found["timer"]["windows"]] == [1, 4]
    assert (found["counts"]["warmup"], found["counts"]["above"]) == (3, 2)


def test_of_too_many_windows_none_is_reported() -> None:
    cell = timer_cell(1_001, window_ns=PERIOD)
    found = summarise_cell(cell, timer_rows([(None, 5, False)] * 1_001)).document()["streams"]["irq"]["timer"]
    assert found["windows"] is None
    assert found["n"] == 1_001


def test_no_anomalies_of_packets_are_looked_for() -> None:
    assert cell_anomalies(timer_cell(len(ROWS)), timer_rows(ROWS)) == {}


def test_limits_of_a_timer_hold_its_whole_its_parts_and_its_counts() -> None:
    document = summarise_cell(timer_cell(len(ROWS)), timer_rows(ROWS)).document()
    limits = {"irq.wakeup.max": 90_000, "irq.interrupt.max": 11_999, "irq.counts.above": 1, "irq.counts.overdue": 1}
    assert {one.path: one.ok for one in evaluate(limits, [partial(Cell, document)])} == {
        "irq.wakeup.max": True,
        "irq.interrupt.max": False,
        "irq.counts.above": False,
        "irq.counts.overdue": True,
    }


def test_a_timer_that_kept_up_and_was_told_of_breaks_no_rule_of_timers() -> None:
    cell = timer_cell(len(ROWS))
    evidence = Evidence(cell, result_streams(cell, timer_rows(ROWS)))
    assert not [one for one in judge(evidence) if "timer" in one.id]
