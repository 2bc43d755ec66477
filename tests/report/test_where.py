"""Where the time went, in the terminal: typical against worst, interval by interval, and what made packets late."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from latlab.report.charts.chain import percent
from latlab.report.document import Table
from latlab.report.terminal import print_result
from latlab.report.where import HEADINGS, share_tables, where_tables
from latlab.result.store import typed
from support.report.matrix import with_a_watched_flow


def printed(result: dict[str, Any], **options: Any) -> str:
    file = io.StringIO()
    print_result(typed(result), Console(file=file, width=100), **options)
    return file.getvalue()


def one_cell(result: dict[str, Any]) -> dict[str, Any]:
    """The result with the cell alone that has a stall."""
    cells = [cell for cell in result["cells"] if (cell["slug"], cell["repeat"]) == ("loads=flood1", 1)]
    return result | {"cells": cells, "comparisons": []}


@pytest.fixture
def control(result: dict[str, Any]) -> tuple[Table, dict[str, Any]]:
    """The table of the stream `control` of that cell, and the chain that it is of."""
    small = one_cell(result)
    chain = small["cells"][0]["streams"]["control"]["metrics"]["latency_user"]["chain"]
    return next(one for one in where_tables(typed(small), "latency_user") if "control" in one.title), chain


def column(table: Table, heading: str) -> list[str]:
    return [row[HEADINGS.index(heading)] for row in table.rows]


def test_intervals_stand_in_the_order_of_the_way_and_add_up(control: tuple[Table, dict[str, Any]]) -> None:
    table, chain = control
    assert column(table, "stage") == ["wake-up", "prepare", "socket", "qdisc", "path", "delivery", "latency_user"]
    for heading, whole in (("typical", chain["groups"][0]), ("worst", chain["worst"]["each"][0])):
        *parts, total = map(float, column(table, heading))
        assert parts == [round(ns / 1000, 1) for ns in whole["ns"]]
        assert total == round(whole["value_ns"] / 1000, 1)
        assert sum(parts) == pytest.approx(total, abs=0.06 * len(parts))


def packets(text: str) -> int:
    """How many of the worst packets a cell of "dominant in" counts."""
    return int(text or 0)


def test_an_interval_that_no_worst_packet_spent_longer_in_says_so(result: dict[str, Any]) -> None:
    small = one_cell(result)
    chain = small["cells"][0]["streams"]["control"]["metrics"]["latency_user"]["chain"]
    chain["worst"]["grew"] = [one for one in chain["worst"]["grew"] if one["to"] != "rx_user"]
    table = next(one for one in where_tables(typed(small), "latency_user") if "control" in one.title)
    (row,) = (row for row in table.rows if row[0] == "delivery")
    assert row[-2:] == ("0", "none"), "0% is distinguished by one space only from the 0 % of what rounds to it"
    assert table.remarks[0].endswith("; none: no packet took longer there")
    assert table.rows[-1][-2:] == ("", "")


def test_every_one_of_the_worst_packets_is_counted_where_it_grew_most(control: tuple[Table, dict[str, Any]]) -> None:
    table, chain = control
    grew = dict(zip(column(table, "stage"), column(table, "dominant in"), strict=True))
    assert sum(packets(count) for count in grew.values()) == chain["worst"]["late"]
    assert max(grew, key=lambda name: packets(grew[name])) == "path"
    assert f"worst: packet {chain['worst']['each'][0]['sequence']}" in table.remarks[0]


def test_each_cell_and_stream_has_a_table(result: dict[str, Any]) -> None:
    small = one_cell(result)
    assert len(where_tables(typed(small), "latency")) == 2
    assert "control: where the time of latency went, µs · measured · suspect" in printed(small).replace("\n", " ")
    assert (
        printed(result).count("where the time of latency went, µs ·") == len(where_tables(typed(result), "latency")) > 2
    )


def test_they_are_of_the_first_screens_metric_or_else_of_the_one_that_goes_furthest(result: dict[str, Any]) -> None:
    def of(metric: str) -> str:
        return next(one.title for one in where_tables(typed(one_cell(result)), metric) if "control" in one.title)

    assert "the time of latency went" in of("latency")
    # The intervals of lateness are not all of a packet's way.
    assert "the time of latency_user went" in of("lateness")
    (shares,) = share_tables(typed(result), "latency")
    assert "of the packets with the largest latency, median" in shares.title


def test_a_result_without_chains_has_no_table(result: dict[str, Any]) -> None:
    for cell in result["cells"]:
        for block in cell["streams"].values():
            for figures in block["metrics"].values():
                figures.pop("chain", None)
    assert where_tables(typed(result), "latency_user") == []
    assert "here the time" not in printed(result)


def test_one_table_has_the_middle_share_of_each_stage_over_the_repetitions(result: dict[str, Any]) -> None:
    (table,) = share_tables(typed(result), "latency_user")
    assert table.headings.index("wake-up") < table.headings.index("path")
    (row,) = [row for row in table.rows if row[:2] == ("loads flood1", "control")]
    cells = [cell for cell in result["cells"] if cell["slug"] == "loads=flood1"]
    chains = [cell["streams"]["control"]["metrics"]["latency_user"]["chain"] for cell in cells]
    shares = [one["share"] for chain in chains for one in chain["worst"]["grew"] if one["from"] == "tx_soft"]
    assert len(shares) == len(cells) == 2
    assert row[table.headings.index("path")] == percent(sum(shares) / 2)


def test_hops_of_watched_packets_have_a_table_of_their_own_without_the_stages_of_streams(
    result: dict[str, Any],
) -> None:
    stages, hops = share_tables(typed(with_a_watched_flow(result, "control")), "latency")
    assert list(hops.headings) == ["cell", "stream", "a → b", "b → c"]
    assert {row[1:] for row in hops.rows} == {("seen.a-to-c", "75 %", "25 %")}
    assert "path" in stages.headings and "a → b" not in stages.headings
    assert "seen.a-to-c" not in {row[1] for row in stages.rows}


def test_few_tables_have_none_of_all_before_them(result: dict[str, Any]) -> None:
    assert share_tables(typed(result | {"cells": result["cells"][:2]}), "latency_user") == []
