"""Timers' rows: the means of their windows."""

from __future__ import annotations

from latlab.report.timers import _windows


def test_a_windows_mean_is_rounded_once() -> None:
    window = {"from_ns": 0, "n": 2, "mean": 12.5, "stddev": 0.5, "min": 12, "max": 13, "above": 0}
    timer = {"window_ns": 10**9, "windows": [window, window | {"mean": 14.25}]}
    assert _windows(timer) == ("2 of 1 s", "12.5 ns to 14.25 ns", "none")
