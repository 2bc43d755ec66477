"""Timers' rows: the means of their windows."""

from __future__ import annotations

from latlab.report.timers import WINDOW_HEADINGS, _windows, window_rows


def test_a_windows_mean_is_rounded_once() -> None:
    window = {"from_ns": 0, "n": 2, "mean": 12.5, "stddev": 0.5, "min": 12, "max": 13, "above": 0}
    timer = {"window_ns": 10**9, "windows": [window, window | {"mean": 14.25}]}
    assert _windows(timer) == ("2 of 1 s", "12.5 ns to 14.25 ns", "none")


def test_each_window_of_a_timer_has_a_row_of_its_own() -> None:
    window = {"from_ns": 10**10, "n": 400, "mean": 12_500.0, "stddev": 510.0, "min": 9_000, "max": 38_100, "above": 3}
    blocks = {
        "irq": {"talker": "vm1", "timer": {"windows": [window]}},
        "long": {"talker": "ecu", "timer": {"windows": None}},
        "in": {"talker": "ecu"},
    }
    cell = {"slug": "all", "cell": {}, "repeat": 1, "status": "ok", "streams": blocks}
    (row,) = window_rows({"cells": [cell]})
    assert list(row) == ["all", "1", "irq, vm1", "thread", "10 s", "400", "12.5", "0.5", "9.0", "38.1", "3", "0.75 %"]
    assert len(row) == len(WINDOW_HEADINGS)
