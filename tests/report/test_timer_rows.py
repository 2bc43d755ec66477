"""Timers' rows: the means of their windows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from latlab.report.answer import answer
from latlab.report.charts.files import remove_own_pictures
from latlab.report.charts.sheet import write_chart
from latlab.report.charts.timers import (
    BESIDE,
    GUEST,
    HANDLER,
    HEADINGS,
    NATIVE,
    THREAD,
    WINDOW_HEADINGS,
    _windows,
    timer_chart,
    timer_ranges,
    timer_rows,
    where,
    window_rows,
)
from latlab.report.document import Lines
from latlab.report.sections import Shown, parts_of
from latlab.result.types import Cell, Result, Timer
from support.results import partial


def test_a_windows_mean_is_rounded_once() -> None:
    window = {"from_ns": 0, "n": 2, "mean": 12.5, "stddev": 0.5, "min": 12, "max": 13, "above": 0}
    timer = partial(Timer, {"windows": [window, window | {"mean": 14.25}]})
    assert _windows(timer, 10**9) == ("2 of 1 s", "12.5 ns to 14.25 ns", "none")


def test_each_window_of_a_timer_has_a_row_of_its_own() -> None:
    window = {"from_ns": 10**10, "n": 400, "mean": 12_500.0, "stddev": 510.0, "min": 9_000, "max": 38_100, "above": 3}
    blocks = {
        "irq": {"talker": "vm1", "timer": {"windows": [window]}},
        "long": {"talker": "ecu", "timer": {"windows": None}},
        "in": {"talker": "ecu"},
    }
    cell = {"slug": "all", "cell": {}, "repeat": 1, "status": "ok", "streams": blocks}
    (row,) = window_rows(partial(Result, {"cells": [cell]}))
    assert list(row) == ["all", "1", "irq, vm1", "thread", "10 s", "400", "12.5", "0.5", "9.0", "38.1", "3", "0.75 %"]
    assert len(row) == len(WINDOW_HEADINGS)


WINDOW = {"from_ns": 0, "n": 400, "mean": 12_500.0, "stddev": 510.0, "min": 9_000, "max": 38_100, "above": 3}


def timer_cell(probes: str, host: str, *guests: str, wakeup_ns: int = 20_000) -> dict[str, Any]:
    """A cell with one timer on this host, whose handler begins at half of its lateness."""

    def figures(ns: int) -> dict[str, Any]:
        return {"n": 400, "min": ns // 2, "mean": ns, "stddev": ns / 10, "p50": ns, "p99": 2 * ns, "max": 3 * ns}

    handled = {"n": 399, "above": 1, "windows": [WINDOW | {"above": 1, "mean": 6_000.0}]}
    timer = {"threshold_ns": 30_000, "window_ns": 10**10, "n": 400, "above": 3, "windows": [WINDOW]}
    block = {
        "talker": host,
        "listener": host,
        "probe": {"name": probes},
        "counts": {"overdue": 0, "untold": 1},
        "timer": {**timer, "interrupt": handled, "traced": True, "trace_problem": None},
        "metrics": {"wakeup": figures(wakeup_ns), "interrupt": figures(wakeup_ns // 2)},
    }
    at = {"slug": f"probes={probes}", "cell": {"probes": probes}, "repeat": 1, "status": "ok"}
    return {**at, "guests": [{"name": name} for name in guests], "streams": {probes: block}}


RUN = {
    "cells": [
        timer_cell("native", "ecu"),
        timer_cell("beside", "ecu", "vm1"),
        timer_cell("guest", "vm1", "vm1", wakeup_ns=90_000),
    ]
}


def test_the_handler_stands_next_to_the_thread_natively_next_to_guests_and_in_one() -> None:
    found = [dict(zip(HEADINGS, row, strict=True)) for row in timer_rows(partial(Result, RUN))]
    assert [(row["where"], row["of"]) for row in found] == [
        (place, of) for place in (NATIVE, BESIDE, GUEST) for of in (HANDLER, THREAD)
    ]
    assert [row["later than the threshold"] for row in found[:2]] == [
        "1 of 399 (0.251 %), 30 µs",
        "3 of 400 (0.75 %), 30 µs",
    ]
    assert [(row["min"], row["mean"], row["max"]) for row in found[-2:]] == [
        ("22.5", "45.0", "135.0"),
        ("45.0", "90.0", "270.0"),
    ]
    assert [row["most later in one"] for row in found[:2]] == ["1 of 400, from 0 ns on", "3 of 400, from 0 ns on"]


def test_each_window_is_of_the_handler_and_of_the_thread() -> None:
    assert [row[3] for row in window_rows(partial(Result, RUN))] == [HANDLER, THREAD] * 3


def test_a_timer_without_reported_interrupts_has_a_row_of_its_thread_alone() -> None:
    cell = timer_cell("native", "ecu")
    cell["streams"]["native"]["timer"]["interrupt"] = None
    assert [row[4] for row in timer_rows(partial(Result, {"cells": [cell]}))] == [THREAD]


@pytest.mark.parametrize(("guests", "host", "place"), [((), "ecu", NATIVE), (("vm1",), "ecu", BESIDE)])
def test_where_a_timer_runs(guests: tuple[str, ...], host: str, place: str) -> None:
    assert where(partial(Cell, {"guests": [{"name": name} for name in guests]}), host) == place
    assert where(partial(Cell, {"guests": [{"name": host}]}), host) == GUEST


def test_all_timers_are_on_one_axis() -> None:
    found = timer_ranges(partial(Result, RUN))
    assert found is not None
    assert [row.name for row in found.rows][::5] == ["native, ecu: handler (native)", "guest, vm1: thread (guest)"]
    # The matrix has nothing else but which timer it is.
    assert {row.cell for row in found.rows} == {""}
    assert [text for _, text in found.ticks] == ["1", "10", "100", "1000"]
    assert [place for place, _ in found.ticks] == [0.0, 33.33, 66.67, 100.0]
    for row in found.rows:
        assert 0 <= row.least < row.low <= row.point < row.high < row.most <= 100
    assert found.threshold is not None and 33.33 < found.threshold < 66.67
    assert timer_ranges(partial(Result, {"cells": []})) is None


def test_a_timers_cell_is_named_by_what_else_it_is() -> None:
    cells = [
        cell | {"cell": {"probes": [probe], "loads": [load]}}
        for cell in RUN["cells"]
        for (probe,) in [tuple(cell["streams"])]
        for load in ("none", "busy")
    ]
    found = timer_ranges(partial(Result, {"cells": cells}))
    assert found is not None
    assert {row.cell for row in found.rows} == {"loads none", "loads busy"}
    assert found.rows[0].told.startswith("native, ecu: handler (native), loads none, repeat 1: ")


def test_the_picture_of_all_timers_is_a_file_of_the_reports_own(tmp_path: Path) -> None:
    found = timer_ranges(partial(Result, RUN))
    assert found is not None
    (path,) = write_chart(timer_chart(found), tmp_path, caption="measured")
    with Image.open(path) as picture:
        assert picture.width > picture.height > 100
    remove_own_pictures(tmp_path, partial(Result, RUN), [])
    assert not path.exists()


def test_repetitions_share_a_row_of_the_picture(tmp_path: Path) -> None:
    found = timer_ranges(partial(Result, RUN))
    again = timer_ranges(partial(Result, {"cells": [*RUN["cells"], *(cell | {"repeat": 2} for cell in RUN["cells"])]}))
    assert found is not None and again is not None
    assert len(again.rows) == 2 * len(found.rows) and {row.repeat for row in again.rows} == {1, 2}
    heights = [timer_chart(ranges).sheet().height_in for ranges in (found, again)]
    assert heights[0] == heights[1]


HEAD = {"scenario": "x", "label": "virtual time", "verdict": "trusted", "reasons": []}


def test_the_share_above_the_threshold_is_on_the_first_screen_by_load() -> None:
    def cell(load: str, repeat: int, above: int) -> dict[str, Any]:
        found = timer_cell("guest", "vm1", "vm1")
        found["streams"]["guest"]["timer"]["interrupt"]["above"] = above
        return found | {"slug": f"loads={load}", "cell": {"probes": "guest", "loads": [load]}, "repeat": repeat}

    cells = [cell("none", 1, 0), cell("none", 2, 0), cell("vm2-packets", 1, 7), cell("vm2-packets", 2, 9)]
    (lines,) = next(one.parts for one in answer(partial(Result, HEAD | {"cells": cells}), []) if one.name == "timers")
    assert isinstance(lines, Lines)
    assert lines.title == "Timers' handlers later than 30 µs"
    assert list(lines.lines) == ["guest: idle none of 798, vm2-packets 16 of 798 (2.01 %)"]
    assert [
        getattr(part, "title", "").partition(":")[0] for part in parts_of("timers", Shown(partial(Result, RUN), []))[:1]
    ] == ["Timers"]


def test_of_a_timer_whose_interrupt_is_not_traced_the_threads_are_counted() -> None:
    cell = timer_cell("guest", "vm1", "vm1")
    cell["streams"]["guest"]["timer"]["interrupt"] = None
    (lines,) = next(one.parts for one in answer(partial(Result, HEAD | {"cells": [cell]}), []) if one.name == "timers")
    assert isinstance(lines, Lines)
    assert (lines.title, list(lines.lines)) == ("Timers' threads later than 30 µs", ["guest: 3 of 400 (0.75 %)"])
