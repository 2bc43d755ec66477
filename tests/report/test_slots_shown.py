"""Missed slots in the terminal and on the page: apart, with what the others' latency is."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

from rich.console import Console

from latlab.analysis.statistics import NAMES
from latlab.recordings.run_folder import RunFolder
from latlab.report.gates import SLOTS_TITLE, slot_rows
from latlab.report.html import render
from latlab.report.sections import Shown, parts_of
from latlab.report.terminal import print_parts
from latlab.result.store import typed

GATES = {
    "interface": "sensor.eth0",
    "traffic_class": 2,
    "promised": {"earliest_ns": 0, "latest_ns": 394_000, "worst_wait_ns": 394_000, "frame_ns": 95, "guard_ns": 95},
    "from": "tx_soft",
    "left": 987,
    "least_ns": 12_810,
    "most_ns": 1_412_500,
    "missed": 22,
    "windows_late": {"1": 20, "10": 2},
    "first_missed": 1,
    "last_missed": 935,
    "early": 0,
    "in_slot": {"latency": dict.fromkeys(NAMES) | {"n": 974, "mean": 169_700.4, "max": 401_900}},
}
KEPT = GATES | {"missed": 0, "windows_late": {}, "first_missed": None, "last_missed": None, "in_slot": {}}


def with_gates(result: dict[str, Any], gates: dict[str, Any]) -> dict[str, Any]:
    """The result with these gates of its first measured cell's first stream."""
    changed = deepcopy(result)
    cell = next(cell for cell in changed["cells"] if cell["streams"])
    next(iter(cell["streams"].values()))["gates"] = gates
    return changed


def test_a_result_without_gates_has_no_table_of_them(result: dict[str, Any]) -> None:
    assert parts_of("gates", Shown(typed(result), [])) == [] and list(slot_rows(typed(result))) == []


def test_missed_slots_are_counted_with_their_packets_and_the_others_latency(result: dict[str, Any]) -> None:
    (row,) = slot_rows(typed(with_gates(result, GATES)))
    assert row.promised == "0 to 394 µs" and row.left == "12.81 µs to 1.413 ms (tx_soft)"
    assert row.missed == "22 of 987, 1 to 10 windows late, packets 1 to 935"
    assert row.in_slot == "mean 169.7 µs, max 401.9 µs"
    assert row.texts[2:4] == ("control", "2")


def test_one_that_missed_and_those_that_were_early_are_reported(result: dict[str, Any]) -> None:
    one = GATES | {"missed": 1, "windows_late": {"1": 1}, "last_missed": 1, "early": 3}
    (row,) = slot_rows(typed(with_gates(result, one)))
    assert row.missed == "1 of 987, 1 window late, packet 1; 3 left before their own window"


def test_slots_that_were_all_kept_are_said_to_be(result: dict[str, Any]) -> None:
    (row,) = slot_rows(typed(with_gates(result, KEPT)))
    assert (row.missed, row.in_slot, row.texts[-2]) == ("", "", "none")
    (unknown,) = slot_rows(
        typed(with_gates(result, KEPT | {"from": None, "left": 0, "least_ns": None, "most_ns": None}))
    )
    assert unknown.left == "unknown"
    none = {"latency": dict.fromkeys(NAMES) | {"n": 0}}
    (all_missed,) = slot_rows(typed(with_gates(result, GATES | {"in_slot": none})))
    assert all_missed.in_slot == ""


def test_the_terminal_has_a_table_of_them(result: dict[str, Any]) -> None:
    console = Console(file=io.StringIO(), width=160)
    with console.capture() as captured:
        print_parts(parts_of("gates", Shown(typed(with_gates(result, GATES)), [])), console)
    lines = captured.get().splitlines()
    assert lines[0].startswith(SLOTS_TITLE)
    assert any("22 of 987" in line for line in lines)


def test_the_page_has_a_table_of_them(new_run: Callable[..., Path]) -> None:
    folder = RunFolder.open(str(new_run()))
    assert SLOTS_TITLE not in render(folder, {}).before
    folder.write_result(with_gates(folder.result(), GATES))
    page = render(folder, {}).before
    assert SLOTS_TITLE in page
    assert re.search(r'<td class="[^"]*bad"[^>]*>22 of 987, 1 to 10 windows late, packets 1 to 935</td>', page)
