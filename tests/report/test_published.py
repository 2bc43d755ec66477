"""Published figures: in separate tables, marked, next to the metric they belong to; the headline's in one table."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from latlab.evaluation.run import make_result
from latlab.recordings.run_folder import RunFolder
from latlab.report.html import render
from latlab.report.markdown import result_markdown
from latlab.report.published import headline_tables, published_tables
from latlab.report.sections import default_metrics
from latlab.report.terminal import print_result
from latlab.report.text import exact
from latlab.result.store import typed
from latlab.result.types import Result
from support.results import partial

NONE: dict[str, Any] = dict.fromkeys(("n", "min", "mean", "max", "stddev", "pk_pk", "p50", "p99"))
PUBLISHED = [
    NONE | {"source": "one", "row": "plain", "metric": "arrival_offset", "n": 600_000, "min": 19_408, "stddev": 6_515},
    NONE | {"source": "one", "row": "launched", "metric": "arrival_offset", "min": 472},
    NONE | {"source": "other", "row": "theirs", "metric": "latency", "p99": 40_000},
]
ALL: dict[str, Any] = {"stream": None, "cells": None}
MARK = "published, not measured here"


def test_each_source_has_a_table_of_the_figures_it_gives(result: dict[str, Any]) -> None:
    (table,) = published_tables(typed(result | {"published": PUBLISHED}), "arrival_offset")
    assert table.title == f"arrival_offset, {MARK}, µs · one"
    assert table.headings == ("published", "min", "stddev", "n")
    assert table.rows == [("plain", "19.408", "6.515", "600000"), ("launched", "0.472", "", "")]
    assert len(table.remarks) == 1 and "pk-pk and stddev compare" in table.remarks[0]
    assert list(published_tables(typed(result), "arrival_offset")) == []
    (other,) = published_tables(typed(result | {"published": PUBLISHED}), "latency")
    assert not other.remarks


def test_what_all_rows_begin_with_is_in_the_title_and_the_mean_between_the_extremes(result: dict[str, Any]) -> None:
    of_theirs = {"source": "one", "metric": "latency", "min": 1_000, "mean": 2_000, "max": 9_000, "stddev": 500}
    rows = ("VM, tap, idle: up", "VM, tap, loaded: up", "VM, tap, loaded")
    published = [NONE | of_theirs | {"row": row} for row in rows]
    (table,) = published_tables(typed(result | {"published": published}), "latency")
    assert table.title == f"latency, {MARK}, µs · one; VM, tap"
    assert table.headings == ("published", "min", "mean", "max", "stddev", "n")
    assert [row[0] for row in table.rows] == ["idle: up", "loaded: up", "loaded"]
    assert table.rows[0][1:] == ("1", "2", "9", "0.5", "")
    published[2]["row"] = "VM, tap"
    (table,) = published_tables(typed(result | {"published": published}), "latency")
    assert [row[0] for row in table.rows] == ["VM, tap, idle: up", "VM, tap, loaded: up", "VM, tap"]


def test_published_figures_of_what_was_not_measured_stand_below_what_stands_in_for_it() -> None:
    row = dict.fromkeys(("min", "mean", "stddev", "pk_pk", "p50", "p99", "n")) | {
        "source": "theirs",
        "row": "of theirs",
    }
    published = [row | {"metric": "interrupt", "max": 9_180}, row | {"metric": "wakeup", "max": 40_000}]

    def titles(*measured: str) -> list[str]:
        cells: list[dict[str, Any]] = [{"streams": {"irq": {"metrics": {name: {} for name in measured}}}}]
        result = {"cells": cells, "published": published}
        found = (table for name in ("wakeup", "interrupt") for table in published_tables(partial(Result, result), name))
        return [table.title.partition(",")[0] for table in found]

    assert titles("wakeup") == ["wakeup", "interrupt"]
    assert titles("wakeup", "interrupt", "dispatch") == ["wakeup", "interrupt"]


def test_a_metric_with_published_figures_is_shown_without_being_asked_for(result: dict[str, Any]) -> None:
    assert default_metrics(typed(result)) == ("latency", "latency_user")
    with_them = result | {"published": PUBLISHED}
    assert default_metrics(typed(with_them)) == ("arrival_offset", "latency", "latency_user")
    file = io.StringIO()
    print_result(typed(with_them), Console(file=file, width=140), default_metrics(typed(with_them)))
    assert f"latency, {MARK}, µs · other" in file.getvalue()


def test_they_come_from_the_scenario_and_stand_on_the_page(new_run: Callable[..., Path]) -> None:
    path = new_run()
    folder = RunFolder.open(str(path))
    assert MARK not in render(folder, {}).before
    folder.scenario_path.write_text(
        "name: first\nhosts: {sensor: {kind: netns}, ecu: {kind: netns}}\nlinks: [{ends: [sensor.eth0, ecu.eth0]}]\n"
        "streams: {control: {talker: sensor, listener: ecu, period: 1ms, size: 64B}}\nduration: 8s\n"
        "loads: {flood1: {kind: flood, from: sensor, to: ecu}, iperf3: {kind: flood, from: sensor, to: ecu}}\n"
        "matrix: {loads: [none, flood1, iperf3]}\n"
        "published: [{source: theirs, row: of theirs, metric: latency, max: 40us}]\n"
    )
    (one,) = make_result(folder).document()["published"]
    assert one == NONE | ALL | {"source": "theirs", "row": "of theirs", "metric": "latency", "max": 40_000}
    page = render(folder, {}).before
    assert f"latency, {MARK}, µs · theirs" in page and "of theirs" in page


def test_the_headline_comes_first_with_its_published_figures_in_one_table(new_run: Callable[..., Path]) -> None:
    path = new_run()
    folder = RunFolder.open(str(path))
    folder.scenario_path.write_text(
        "name: first\nhosts: {sensor: {kind: netns}, ecu: {kind: netns}}\nlinks: [{ends: [sensor.eth0, ecu.eth0]}]\n"
        "streams: {control: {talker: sensor, listener: ecu, period: 1ms, size: 64B}}\nduration: 8s\n"
        "loads: {flood1: {kind: flood, from: sensor, to: ecu}, iperf3: {kind: flood, from: sensor, to: ecu}}\n"
        "matrix: {loads: [none, flood1, iperf3]}\n"
        "headline: arrival_offset\n"
        "published: [{source: theirs, row: of theirs, metric: arrival_offset, max: 568ns, pk_pk: 96ns, n: 600000}]\n"
    )
    result = make_result(folder).document()
    assert default_metrics(typed(result))[0] == "arrival_offset"
    (table,) = headline_tables(typed(result), "arrival_offset")
    assert (
        list(headline_tables(typed(result), "latency")) == list(published_tables(typed(result), "arrival_offset")) == []
    )
    assert table.title.startswith("arrival_offset: measured, and published (theirs), over 2 repetitions: ")
    assert table.headings == ("what", "min", "max", "pk-pk", "mean", "stddev", "n")
    assert list(table.rows[-1]) == ["published: of theirs", "", "0.568", "0.096", "", "", "600000"]
    measured = [row for row in table.rows if not row[0].startswith("published")]
    first = [cell for cell in result["cells"] if cell["slug"] == result["cells"][0]["slug"]]
    each = [cell["streams"]["control"]["metrics"]["arrival_offset"] for cell in first]
    assert len(each) == 2 and len({one["max"] for one in each}) == 2
    assert measured[0][0].endswith("idle") and not any("none" in row[0] for row in measured)
    assert measured[0][1:] == (
        exact(min(one["min"] for one in each)),
        exact(max(one["max"] for one in each)),
        exact(max(one["max"] for one in each) - min(one["min"] for one in each)),
        *(exact(round(sum(one[name] for one in each) / 2)) for name in ("mean", "stddev")),
        str(sum(one["n"] for one in each)),
    )
    remark, *_ = table.remarks
    assert "counts from the first arrival" in remark and "pk-pk and stddev compare" in remark
    assert len(measured) == len(table.rows) - 1 > 1, "a row a cell, whatever its repetitions"
    _, _, page = render(folder, {}).before.partition('<section id="summary">')
    assert 'value="arrival_offset" checked' in page
    assert page.index(table.title) < page.index("arrival_offset = rx_soft")
    written = result_markdown(typed(result), default_metrics(typed(result)))
    assert written.index("### arrival\\_offset: measured, and published") < written.index("arrival\\_offset = rx")


def test_a_published_row_stands_below_the_last_of_those_that_it_is_compared_with(
    new_run: Callable[..., Path],
) -> None:
    folder = RunFolder.open(str(new_run()))
    row = "- {source: theirs, metric: latency, max: 40us, row: "
    folder.scenario_path.write_text(
        "name: first\nhosts: {sensor: {kind: netns}, ecu: {kind: netns}}\nlinks: [{ends: [sensor.eth0, ecu.eth0]}]\n"
        "streams: {control: {talker: sensor, listener: ecu, period: 1ms, size: 64B}}\nduration: 8s\n"
        "loads: {flood1: {kind: flood, from: sensor, to: ecu}, iperf3: {kind: flood, from: sensor, to: ecu}}\n"
        "matrix: {loads: [none, flood1, iperf3]}\nheadline: latency\npublished:\n"
        f"{row}of none}}\n{row}loaded, when: {{loads: flood1}}}}\n{row}every, stream: control}}\n"
        f"{row}quiet, when: {{loads: none}}, stream: control}}\n{row}quiet too, when: {{loads: none}}}}\n"
        f"{row}elsewhere, when: {{size: 64B}}}}\n"
    )
    result = make_result(folder).document()
    assert [one["cells"] for one in result["published"]] == [
        *(None, ["loads=flood1"], None),
        *(["loads=none"], ["loads=none"], []),
    ]
    (table,) = headline_tables(typed(result), "latency")
    told = [row[0].removeprefix("published: ") for row in table.rows]
    assert told == [
        *("control, idle", "quiet", "control, flood1", "every"),
        *("status, idle", "quiet too", "status, flood1", "loaded", "of none", "elsewhere"),
    ]


def test_a_headline_that_was_not_measured_changes_nothing(result: dict[str, Any]) -> None:
    assert default_metrics(typed(result | {"headline": "round_trip"})) == default_metrics(typed(result))
    assert list(headline_tables(typed(result | {"headline": "round_trip"}), "round_trip")) == []
