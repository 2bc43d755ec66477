"""Gate schedules on the page and as a picture: what a run asked for, where its cells have it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from latlab.evaluation.gates import run_schedules
from latlab.model.part import Keys
from latlab.recordings.run_folder import RunFolder
from latlab.report.build import write_report
from latlab.report.charts.gates import gates_chart, port_chart
from latlab.report.gates import entry_rows, port_title
from support.report.charts import lines, points, texts

GATES = [{"open": [0, 1], "for": "101us"}, {"open": [1], "for": "99us"}, {"open": [1, 2], "for": "300us"}]
TAPRIO = {"kind": "taprio", "mode": "software", "map": {7: 0, 5: 1}, "rest": 2, "gates": GATES}
STREAM = {"talker": "sensor", "listener": "ecu", "size": "64B"}


def scenario(**parts: Any) -> dict[str, Any]:
    """Two streams through gates of 500 µs: one at four phases of the cycle, one at two hundred."""
    return {
        "name": "gated",
        "hosts": {"sensor": {"kind": "netns"}, "ecu": {"kind": "netns"}},
        "links": [{"ends": ["sensor.eth0", "ecu.eth0"], "queues": 4}],
        "streams": {
            "control": STREAM | {"period": "625us", "priority": 7, "offset": "10us"},
            "bulk": STREAM | {"period": "502500ns", "priority": 5},
        },
        "shapers": {"sensor.eth0": TAPRIO},
        "duration": "1s",
    } | parts


def gated(folder: Path, **parts: Any) -> RunFolder:
    """A run's folder with the scenario alone."""
    path = folder / "gated"
    path.mkdir()
    (path / "scenario.yaml").write_text(yaml.safe_dump(scenario(**parts)))
    return RunFolder(path)


def test_lanes_have_their_gates_their_launches_and_words(tmp_path: Path) -> None:
    ((_, (promised,)),) = run_schedules(gated(tmp_path))
    assert port_title(promised.port).startswith("sensor.eth0: cycle of 500 µs")
    piece = port_chart(promised).pieces()[0]
    left, width = min(lines(piece, "lane")[0])[0], max(lines(piece, "lane")[0])[0] - min(lines(piece, "lane")[0])[0]
    assert [(x - left) / width for x, _ in points(piece, "launch")] == pytest.approx([0.02, 0.27, 0.52, 0.77])
    assert "class 0: open 0 to 101 µs; control is launched at 4 phases of the cycle" in piece.told
    # Too many launches are drawn as intervals of time.
    assert "class 1: its gate never closes; bulk is launched at 200 phases of the cycle" in piece.told
    assert "class 2: open 200 to 500 µs" in piece.told
    assert next(entry_rows(promised.port)) == ("0", "101", "101", "0 (control) · 1 (bulk)")


def test_cells_with_schedules_of_their_own_are_drawn_apart(tmp_path: Path) -> None:
    other = TAPRIO | {"gates": [{"open": [0, 1, 2], "for": "250us"}]}
    folder = gated(tmp_path, matrix={"shapers.sensor.eth0": [TAPRIO, other]})
    found = run_schedules(folder)
    labels: dict[str, Keys] = {slugs[0]: {"gates": number} for number, (slugs, _) in enumerate(found)}
    pieces = gates_chart("gated", found, labels).pieces()
    named = [text for piece in pieces for text in texts(piece) if "1 cell" in text]
    assert named == ["1 cell, gates 0", "1 cell, gates 1"]
    first, second = [one.told for one in pieces if one.told]
    assert "cycle 500 µs" in first and "cycle 250 µs" in second
    assert second.count("its gate never closes") == 3


@pytest.mark.slow
def test_page_and_pictures_have_the_schedule_of_a_run_with_gates_only(new_run: Callable[..., Path]) -> None:
    folder = new_run()
    page = write_report(folder, formats=("svg",), pictured=()).read_text()
    assert 'id="gates"' not in page and 'href="#gates"' not in page
    assert not (folder / "pictures" / "gates.svg").exists()
    (folder / "scenario.yaml").write_text(yaml.safe_dump(scenario()))
    page = write_report(folder, formats=("svg",), pictured=()).read_text()
    assert 'id="gates"' in page and 'href="#gates"' in page
    assert "open 0 to 101 µs; control is launched at 4 phases of the cycle" in page
    assert "sensor.eth0" in (folder / "pictures" / "gates.svg").read_text()
