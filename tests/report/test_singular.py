"""One of something is in the singular, wherever a number and its noun are printed."""

from __future__ import annotations

import pytest

from latlab.report.anomalies import cut_lines
from latlab.report.losses import watched_row
from latlab.result.types import DropsWatched, Result
from support.results import partial


@pytest.mark.parametrize(("cuts", "said"), [(4, "3.5 s: "), (5, "and 1 more time: "), (6, "and 2 more times: ")])
def test_times_that_are_not_listed_are_counted(cuts: int, said: str) -> None:
    found = [{"from_tai_ns": number * 10**9, "text": "throttled for 50 ms"} for number in range(1, 1 + cuts)]
    windows = {"cuts": found, "kept": [], "packets": {"whole": 100, "kept": 42, "cut": 58}, "metrics": {}}
    cell = {"cell": {}, "slug": "all", "repeat": 1, "start_tai_ns": 500_000_000}
    cell["streams"] = {"control": {"start_tai_ns": None, "windows": windows, "metrics": {}}}
    (line,) = cut_lines(partial(Result, {"cells": [cell]}))
    assert said in line


@pytest.mark.parametrize(("unrecorded", "said"), [(1, "1 more was not recorded"), (2, "2 more were not recorded")])
def test_drops_that_were_not_recorded_are_counted(unrecorded: int, said: str) -> None:
    one = DropsWatched(
        host="vmhost", hosts=["vmhost"], watched=True, reasons=True, drops=7, unrecorded=unrecorded, missing=[]
    )
    assert watched_row(one)[3] == f"{said}: a ring was full"
