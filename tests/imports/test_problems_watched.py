"""What makes the verdict of watched packets doubtful: clocks that are set, and flight recorders that miss something."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from latlab.imports.watched import read_watched
from latlab.model.reasons import Reason
from latlab.recordings.cell import Watched
from support.imports.frames import goose
from support.recordings import RUN_ID, recording_bytes

MS = 1_000_000
START = 1_763_830_000 * 10**9
TABLES = ("trace", "tasks", "kept")
JUDGED = {"judged": 1000, "late": 0, "typical": 0, "unjudged": 0}
KEPT = {"windows": 0, "overran": 0, "overwritten": 0}


def problems(
    folder: Path, *, at_ms: Sequence[int] = (0,), direction: str = "in", sockets: bool = False, **more: Any
) -> list[Reason]:
    """Those of a point that saw packets at these instants. more: of its kernel, such as `trace`, with a trigger."""
    rows = []
    for number, at in enumerate(at_ms):
        frame = goose(1, number)
        rows.append((START + at * MS, 0, direction == "out", True, len(frame), frame, 1))
    (folder / "watch-0.watched.arrow").write_bytes(recording_bytes("watched", [rows]))
    kernel = {"host": "machine", "recording": "watch-0", "ready": {"tai_ns": START}, "done": {}, **more}
    point = {"name": "point", "kernel": 0, "number": 0, "directions": [direction], "is_sockets": sockets}
    watch = {"flow": "goose", "filter": {}, "snap": 128, "run_id": RUN_ID, "points": [point], "kernels": [kernel]}
    return list(read_watched(Watched.model_validate(watch | {"trigger": "latency > 500us"}), folder).problems)


def flight(
    folder: Path, trace: dict[str, Any], recorded: tuple[str, ...] = TABLES, judged: dict[str, int] = JUDGED
) -> list[Reason]:
    """Those of a flight recorder of which this is known, and which has recorded these tables."""
    for table in recorded:
        (folder / f"watch-0.{table}.arrow").write_bytes(recording_bytes(table, []))
    trace = {"host": "machine", "verb": "trace", **trace}
    return problems(folder, trace=trace, done={"judged": judged})


def test_a_flight_recorder_that_came_to_its_end_and_judged_all_is_no_problem(tmp_path: Path) -> None:
    assert flight(tmp_path, {"done": {"kept": KEPT}}) == []


@pytest.mark.parametrize(
    ("trace", "recorded", "why"),
    [
        ({"error": {"what": "no tracefs", "where": "", "remedy": ""}}, (), "no tracefs"),
        ({}, TABLES, "it reported no end"),
        ({"done": {"kept": KEPT}}, ("trace", "tasks"), "watch-0.kept.arrow: "),
    ],
)
def test_one_that_ended_early_or_left_no_file_is_one_problem(
    tmp_path: Path, trace: dict[str, Any], recorded: tuple[str, ...], why: str
) -> None:
    (found,) = flight(tmp_path, trace, recorded)
    assert (found.id, found.finding, found.severity, found.where) == (
        "trace-whole",
        "the flight recorder ended early",
        "suspect",
        "machine",
    )
    assert found.actual.startswith(why)


@pytest.mark.parametrize(("sockets", "direction"), [(False, "in"), (False, "out"), (True, "in")])
def test_a_clock_that_is_stepped_back_is_a_problem(tmp_path: Path, sockets: bool, direction: str) -> None:
    (found,) = problems(tmp_path, at_ms=(0, 50, 20), sockets=sockets, direction=direction)
    assert (found.id, found.where) == ("clock-stepped", f"point:{direction}")
    assert problems(tmp_path, at_ms=(0, 20, 50), sockets=sockets, direction=direction) == []


def test_send_calls_of_two_threads_are_recorded_in_any_order(tmp_path: Path) -> None:
    assert problems(tmp_path, at_ms=(0, 50, 20), sockets=True, direction="out") == []


@pytest.mark.parametrize(("judged", "unjudged"), [(990, 10), (1, 0)])
def test_up_to_1_percent_of_packets_may_be_unjudged(tmp_path: Path, judged: int, unjudged: int) -> None:
    counts = JUDGED | {"judged": judged, "unjudged": unjudged}
    assert flight(tmp_path, {"done": {"kept": KEPT}}, judged=counts) == []


@pytest.mark.parametrize(
    ("judged", "unjudged", "actual"),
    [
        (989, 11, "11 of 1000 not judged"),
        (0, 5, "5 of 5 not judged"),
        (0, 0, "no packet reached the last point"),
    ],
)
def test_a_flight_recorder_that_judged_too_few_packets_is_one_problem(
    tmp_path: Path, judged: int, unjudged: int, actual: str
) -> None:
    counts = JUDGED | {"judged": judged, "unjudged": unjudged}
    (found,) = flight(tmp_path, {"done": {"kept": KEPT}}, judged=counts)
    assert (found.id, found.severity, found.actual) == ("trace-whole", "suspect", actual)
    assert "within 10 s" in found.remedy and "more than 65,536" in found.remedy


def test_incomplete_windows_are_a_problem_whose_remedy_holds_for_a_flow_of_a_scenario(tmp_path: Path) -> None:
    (found,) = flight(tmp_path, {"done": {"kept": KEPT | {"windows": 3, "overran": 2}}})
    assert (found.id, found.actual) == ("trace-whole", "2 of 3 windows incomplete")
    assert "--" not in found.remedy
