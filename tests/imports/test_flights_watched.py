"""What flight recorders kept of watched packets, and what of it makes a verdict suspect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from numbered_frames import goose
from recorded import RUN_ID, recording_bytes

from latlab.imports.base import ImportProblem
from latlab.imports.watched import read_watched
from latlab.recordings.cell import Watched

START = 1_763_830_000 * 10**9
TABLES = ("trace", "tasks", "kept")
KEPT = {"kept": {"windows": 0, "overran": 0, "overwritten": 0}}


def problems(folder: Path, trace: dict[str, Any], recorded: tuple[str, ...] = TABLES) -> list[ImportProblem]:
    """Those of a watch, of whose flight recorder this is known, and which has recorded these tables."""
    frame = goose(1, 0)
    rows = [(START, 0, False, True, len(frame), frame, 1)]
    (folder / "watch-0.watched.arrow").write_bytes(recording_bytes("watched", [rows]))
    for table in recorded:
        (folder / f"watch-0.{table}.arrow").write_bytes(recording_bytes(table, []))
    judged = {"judged": 1, "late": 0, "typical": 0, "unjudged": 0}
    kernel = {"host": "machine", "recording": "watch-0", "ready": {"tai_ns": START}, "done": {"judged": judged}}
    kernel |= {"trace": {"host": "machine", "verb": "trace", **trace}}
    watch: dict[str, Any] = {"flow": "goose", "filter": {}, "snap": 128, "run_id": RUN_ID}
    point = {"name": "eth0", "kernel": 0, "number": 0, "directions": ["in"]}
    watched = Watched.model_validate(watch | {"points": [point], "kernels": [kernel], "trigger": "latency > 500us"})
    found = read_watched(watched, folder)
    assert [one.host for one in found.flights] == ["machine"]
    return list(found.problems)


def test_a_flight_recorder_that_came_to_its_end_is_no_problem(tmp_path: Path) -> None:
    assert problems(tmp_path, {"done": KEPT}) == []


@pytest.mark.parametrize(
    ("trace", "recorded", "why"),
    [
        ({"error": {"what": "no tracefs", "where": "", "remedy": ""}}, (), "no tracefs"),
        ({}, TABLES, "it reported no end"),
        ({"done": KEPT}, ("trace", "tasks"), "watch-0.kept.arrow: "),
    ],
)
def test_one_that_ended_early_or_left_no_file_is_one_problem(
    tmp_path: Path, trace: dict[str, Any], recorded: tuple[str, ...], why: str
) -> None:
    (found,) = problems(tmp_path, trace, recorded)
    assert (found.id, found.finding, found.severity, found.where) == (
        "trace-whole",
        "the flight recorder ended early",
        "suspect",
        "machine",
    )
    assert found.actual.startswith(why)
