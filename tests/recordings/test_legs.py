"""A probe's two legs in the packet table: their rows, their launches, and one clock for both."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from latlab.analysis.summary import summarise_cell
from latlab.analysis.way import filled_launches, round_trips
from latlab.recordings.packets import join_cell
from latlab.recordings.run_folder import CellFolder
from support.recordings import CLOCKS, Row, cell_document, recording_bytes, stream_of

START = 1_000_000
APART = {"from": "sensor", "to": "ecu", "source": "exchange", "lower_ns": 4990, "upper_ns": 5010, "windows": []}
"""The answerer's clock is 5000 ns ahead of the asker's, ± 10."""
REAL = 37_000_000_000


def leg(which: str, **changes: Any) -> dict[str, Any]:
    """A leg of cell.json: five questions, one every 1000 ns."""
    ends = {"talker": "sensor", "listener": "ecu"} if which == "up" else {"talker": "ecu", "listener": "sensor"}
    number = 1 if which == "up" else 2
    own = {"name": f"rr.{which}", "probe": "rr", "leg": which, "count": 5, "start_tai_ns": START, "frames": 1}
    return stream_of(number) | own | ends | changes


def cell(**changes: Any) -> dict[str, Any]:
    """A cell.json with one probe, asked at a rate."""
    probe = {"name": "rr", "probe": "ping", "from": "sensor", "to": "ecu", "period_ns": 1000, "timeout_ns": 600}
    return cell_document([leg("up"), leg("down")], probes=[probe], clocks=[APART], **changes)


def folder_of(path: Path, document: Mapping[str, Any], **tables: list[Row]) -> CellFolder:
    """A cell's folder with both agents' recordings; a table that is not given (`ping_sent`) has no rows."""
    path.mkdir(parents=True, exist_ok=True)
    folder = CellFolder(path)
    folder.write_cell(dict(document))
    for verb in ("ping", "pong"):
        for table in ("sent", "stamps", "received", "clocks"):
            rows = tables.get(f"{verb}_{table}", CLOCKS if table == "clocks" else [])
            folder.recording(verb, "rr", table).write_bytes(recording_bytes(table, [rows]))
    return folder


def asked(n: int, launch: int | None = None) -> Row:
    due = START + n * 1000 if launch is None else launch
    return (1, n, due, due, due + 10, due + 20, 0, 0)


def came_up(n: int, took: int = 200, launch: int | None = None) -> Row:
    """Question n at the answerer, by its clock."""
    due = START + n * 1000 if launch is None else launch
    at = due + took + 5000
    return (1, n, due, None, at - 50 - REAL, at)


def answered(n: int, took: int = 200) -> Row:
    at = START + n * 1000 + took + 5000
    return (2, n, at, at, at, at + 30, 0, 0)


def came_down(n: int, took: int = 500) -> Row:
    """The answer to question n, by the asker's clock: `took` after the question's launch."""
    at = START + n * 1000 + took
    return (2, n, START + n * 1000 + 5200, None, at - 40 - REAL, at)


def whole(numbers: range | list[int] = range(5)) -> dict[str, list[Row]]:
    return {
        "ping_sent": [asked(n) for n in numbers],
        "pong_received": [came_up(n) for n in numbers],
        "pong_sent": [answered(n) for n in numbers],
        "ping_received": [came_down(n) for n in numbers],
    }


def legs_of(packets: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    up, down = (packets.filter(pl.col("stream") == number) for number in (1, 2))
    return up, down


def test_both_legs_are_on_the_clock_of_who_asks_and_the_round_trip_is_exact(tmp_path: Path) -> None:
    joined = join_cell(folder_of(tmp_path, cell(), **whole()))
    up, down = legs_of(joined.packets)
    launch = up["launch_tai_ns"]
    assert launch.to_list() == [START + n * 1000 for n in range(5)]
    assert (up["rx_user_tai_ns"] - launch).to_list() == [200] * 5, "less the offset"
    assert (down["launch_tai_ns"] == up["rx_user_tai_ns"]).all()
    assert (down["submit_tai_ns"] - down["launch_tai_ns"]).to_list() == [30] * 5
    assert (down["rx_user_tai_ns"] - launch).to_list() == [500] * 5, "the asker's clock is left as it is"
    assert up["clock_bound_ns"].to_list() == down["clock_bound_ns"].to_list() == [10] * 5
    assert not any(found.stray or found.launch_mismatched for found in joined.findings.values())
    trips = round_trips(up, down)
    way = ["launch", "wake", "submit", "rx_soft", "rx_user", "answer_submit", "answer_rx_soft", "answered"]
    stops = [trips[f"{name}_tai_ns"] for name in way]
    assert [int((b - a)[0]) for a, b in pairwise(stops)] == [10, 10, 130, 50, 30, 230, 40]


def test_a_question_that_never_came_leaves_an_answer_that_was_never_due(tmp_path: Path) -> None:
    there = [0, 1, 3, 4]
    tables = whole(there) | {"ping_sent": [asked(n) for n in range(5)]}
    folder = folder_of(tmp_path, cell(), **tables)
    up, down = legs_of(join_cell(folder).packets)
    assert up["arrival"].to_list() == [0, 1, None, 2, 3]
    assert down["launch_tai_ns"].is_null().to_list() == [False, False, True, False, False]
    blocks = summarise_cell(folder.cell(), join_cell(folder).packets).document()["streams"]
    assert [blocks[name]["counts"]["lost"] for name in ("rr.up", "rr.down")] == [1, 0]
    assert [blocks["rr.down"]["counts"][name] for name in ("scheduled", "sent", "unsent")] == [4, 4, 0]
    counts = blocks["rr"]["counts"]
    assert [counts[name] for name in ("sent", "answered", "unanswered", "late")] == [5, 4, 1, 0]


def test_answers_that_change_places_in_the_warm_up_are_not_reordered_in_a_metric(tmp_path: Path) -> None:
    """Of the five the first two are warm-up; of their questions one never came."""
    tables = whole([1, 2, 3, 4]) | {"ping_sent": [asked(n) for n in range(5)]}
    tables["ping_received"] = [came_down(2, 300), came_down(1, 1400), came_down(3), came_down(4)]
    folder = folder_of(tmp_path, cell(), **tables)
    down = summarise_cell(folder.cell(), join_cell(folder).packets).document()["streams"]["rr.down"]
    assert (down["counts"]["reordered"], down["metrics"]["latency_user"]["reordered"]) == (1, 0)


def test_an_answer_that_is_lost_is_the_way_downs(tmp_path: Path) -> None:
    tables = whole() | {"ping_received": [came_down(n) for n in (0, 1, 2, 4)]}
    folder = folder_of(tmp_path, cell(), **tables)
    blocks = summarise_cell(folder.cell(), join_cell(folder).packets).document()["streams"]
    assert [blocks[name]["counts"]["lost"] for name in ("rr.up", "rr.down")] == [0, 1]
    assert blocks["rr"]["counts"]["unanswered"] == 1
    assert blocks["rr"]["metrics"]["round_trip"]["lost"] == 1
    assert blocks["rr"]["metrics"]["round_trip"]["n"] == 2, "two are of the warm-up"


def test_an_answer_after_its_timeout_counts_as_late(tmp_path: Path) -> None:
    # Of 600 ns, from when the question was due: it was sent 20 ns after that.
    late = [came_down(n, {2: 600, 3: 610}.get(n, 500)) for n in range(5)]
    folder = folder_of(tmp_path, cell(), **whole() | {"ping_received": late})
    blocks = summarise_cell(folder.cell(), join_cell(folder).packets).document()["streams"]
    assert blocks["rr"]["counts"]["late"] == 1
    assert blocks["rr"]["metrics"]["round_trip"]["max"] == 610


def test_a_closed_loop_has_as_many_rows_as_were_asked_and_its_warm_up_comes_first(tmp_path: Path) -> None:
    launches = [START, START + 900, START + 1900, START + 2500]
    document = cell()
    document["streams"] = [leg(which, period_ns=None, count=None) for which in ("up", "down")]
    answers = [(2, n, at + 5200, at + 5200, at + 5200, at + 5230, 0, 0) for n, at in enumerate(launches)]
    tables: dict[str, list[Row]] = {
        "ping_sent": [asked(n, at) for n, at in enumerate(launches)],
        "pong_received": [came_up(n, launch=at) for n, at in enumerate(launches)],
        "pong_sent": answers,
        "ping_received": [(2, n, at + 5200, None, at + 400 - REAL, at + 450) for n, at in enumerate(launches)],
    }
    folder = folder_of(tmp_path, document, **tables)
    joined = join_cell(folder)
    up, down = legs_of(joined.packets)
    assert up["launch_tai_ns"].to_list() == launches
    assert up["warmup"].to_list() == down["warmup"].to_list() == [True, True, True, False]
    assert not any(found.stray or found.launch_mismatched for found in joined.findings.values())
    blocks = summarise_cell(folder.cell(), joined.packets).document()["streams"]
    assert blocks["rr"]["metrics"]["round_trip"]["n"] == 1
    assert blocks["rr.up"]["anomalies"] is None, "without a period there is nothing to hold packets against"
    assert "arrival_offset" not in blocks["rr.up"]["metrics"]


def test_without_a_bound_the_ways_are_unbounded_and_the_round_trip_stays_exact(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, cell() | {"clocks": []}, **whole())
    blocks = summarise_cell(folder.cell(), join_cell(folder).packets).document()["streams"]
    for name in ("rr.up", "rr.down"):
        latency = blocks[name]["metrics"]["latency_user"]
        assert (latency["n"], latency["unbounded"]) == (0, 3)
    round_trip = blocks["rr"]["metrics"]["round_trip"]
    assert (round_trip["n"], round_trip["min"], round_trip["max"], round_trip["uncertainty_ns"]) == (3, 500, 500, 0)


@pytest.mark.parametrize("verb", ["ping", "pong"])
def test_a_recording_that_is_cut_short_is_told_by_the_probes_name(tmp_path: Path, verb: str) -> None:
    folder = folder_of(tmp_path, cell(), **whole())
    path = folder.recording(verb, "rr", "received")
    path.write_bytes(path.read_bytes()[:-8])
    findings = join_cell(folder).findings
    assert [name for name, found in findings.items() if not found.complete] == [f"{verb}-rr.received"]


def cut_after(folder: CellFolder, verb: str, table: str, rows: list[Row], number: int) -> None:
    """The recording with its first rows only, and without its end."""
    data = recording_bytes(table, [rows[:number]])
    folder.recording(verb, "rr", table).write_bytes(data[:-8])


@pytest.mark.parametrize(
    ("verb", "table", "expected"),
    [
        ("ping", "received", {"rr": (3, 0, 2), "rr.up": (5, 0, 0), "rr.down": (3, 0, 2)}),
        ("ping", "sent", {"rr": (5, 0, 0), "rr.up": (5, 0, 0), "rr.down": (5, 0, 0)}),
        ("pong", "received", {"rr": (5, 0, 0), "rr.up": (3, 0, 2), "rr.down": (5, 0, 0)}),
        ("pong", "sent", {"rr": (5, 0, 0), "rr.up": (5, 0, 0), "rr.down": (5, 0, 0)}),
    ],
)
def test_what_a_cut_recording_does_not_say_of_a_probe_is_unknown(
    tmp_path: Path, verb: str, table: str, expected: dict[str, tuple[int, int, int]]
) -> None:
    folder = folder_of(tmp_path, cell(), **whole())
    cut_after(folder, verb, table, whole()[f"{verb}_{table}"], 3)
    blocks = summarise_cell(folder.cell(), join_cell(folder).packets).document()["streams"]
    counts = {name: block["counts"] for name, block in blocks.items()}
    found = {"rr": tuple(counts["rr"][name] for name in ("answered", "unanswered", "unknown"))}
    legs = {name: tuple(counts[name][one] for one in ("received", "lost", "unknown")) for name in ("rr.up", "rr.down")}
    assert found | legs == expected
    assert all(count["unsent"] == 0 for count in counts.values())


def test_launches_after_the_last_known_one_go_on_at_their_rate() -> None:
    launch = pl.Series([None, 10, None, 30, None, None], dtype=pl.Int64)
    assert filled_launches(launch).tolist() == [0, 10, 20, 30, 40, 50]
