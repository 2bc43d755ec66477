"""Cells that send a stream as different packets: each says what it sent, and a comparison shows it."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from latlab.analysis.described import sent_as
from latlab.recordings.cell import RecordedStream
from latlab.recordings.run_folder import RunFolder
from latlab.report.build import write_report
from latlab.report.markdown import result_markdown
from latlab.report.rows import summaries
from latlab.result.store import typed
from latlab.result.types import Result
from support.report.compared import with_comparisons
from support.results import partial

TAGGED = {"transport": "ethernet", "vlan": 5, "interface": "eth0", "port": "eth0"}
OVER_VLAN = {"transport": "udp", "vlan": 5, "interface": "eth0.5", "port": "eth0"}
SAID = "down is UDP over the VLAN interface eth0.5 in bridge xdp, and raw frames in VLAN 5 elsewhere"


@pytest.mark.parametrize(
    ("stream", "what"),
    [
        (TAGGED, "raw frames in VLAN 5"),
        (OVER_VLAN, "UDP over the VLAN interface eth0.5"),
        (TAGGED | {"vlan": None}, "raw frames"),
        (OVER_VLAN | {"interface": "eth0", "vlan": None}, "UDP"),
        ({"transport": "udp", "interface": "eth0", "vlan": None}, "UDP"),
        ({"transport": "udp", "probe": "rr", "interface": "eth0"}, None),
        ({}, None),
    ],
)
def test_a_stream_is_sent_as(stream: dict[str, Any], what: str | None) -> None:
    assert sent_as(partial(RecordedStream, stream)) == what


@pytest.fixture
def sent(matrix: dict[str, Any]) -> dict[str, Any]:
    """A result in which one stream goes through one of its bridges otherwise than through the others."""
    for cell in matrix["cells"]:
        for name, block in cell["streams"].items():
            over = name == "down" and cell["cell"]["guests.vm1.bridge"] == "xdp"
            block["sent_as"] = sent_as(partial(RecordedStream, OVER_VLAN if over else TAGGED))
    return with_comparisons(matrix)


def test_the_tables_of_that_stream_say_so(sent: dict[str, Any]) -> None:
    down, up = summaries(typed(sent), "latency")
    assert SAID in down.notes
    assert up.notes == ()


def test_a_load_at_another_rate_is_named(sent: dict[str, Any]) -> None:
    for cell in sent["cells"]:
        if cell["cell"]["loads"] == ["load-up"]:
            rate = 6e7 if cell["cell"]["guests.vm1.bridge"] == "tap" else 3e7
            cell["loads"] = [{"name": "load-up", "asked_bps": rate}]
    (table, _) = summaries(partial(Result, sent), "latency")
    assert "load-up is 60 Mbit/s in bridge tap, loads load-up, and 30 Mbit/s elsewhere" in table.notes


def test_what_the_matrix_varies_is_in_the_cells_names_already(sent: dict[str, Any]) -> None:
    for cell in sent["cells"]:
        cell["cell"]["streams.down.transport"] = "udp"
    assert not any(SAID in table.notes for table in summaries(typed(sent), "latency"))


def test_a_stream_that_all_cells_send_alike_has_no_note(matrix: dict[str, Any]) -> None:
    assert not any("is UDP" in note for table in summaries(typed(matrix), "latency") for note in table.notes)


def test_what_compares_the_cells_says_so(sent: dict[str, Any]) -> None:
    assert all(one["notes"][0] == SAID for one in sent["comparisons"])
    assert SAID in result_markdown(typed(sent), ["latency"])


def test_the_page_says_so_and_describes_the_stream_as_both(
    sent: dict[str, Any], matrix_run: Path, tmp_path: Path
) -> None:
    folder = copytree(matrix_run, tmp_path / matrix_run.name)
    RunFolder(folder).write_result(sent)
    write_report(folder, formats=())
    page = (folder / "report.html").read_text()
    assert SAID in page
    assert "raw frames in VLAN 5 or UDP over the VLAN interface eth0.5" in page
