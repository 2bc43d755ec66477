"""A disk that fills up: said clearly, nothing lost silently, and the machine as it was."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from latlab.recordings.arrow import read_recording
from latlab.recordings.run_folder import RunFolder
from support.command import SMALL, Ended, Place
from support.machine import run

pytestmark = pytest.mark.real

DENSE = {"control": SMALL["streams"]["control"] | {"period": "50us"}}


def disk(place: Place, size: str) -> Path:
    """The folder for the runs, on a file system of this size."""
    place.runs.mkdir()
    run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place.runs))
    return place.runs


def run_while_it_fills(place: Place, phase: str, left: int) -> Ended:
    """The result of a run whose disk another process fills, up to so many bytes, at the given phase."""
    runs = disk(place, "16m")
    lab = place.start("run", place.scenario(streams=DENSE, matrix=None, loads=None), "--verbose")
    lab.until(f": {phase}")
    (runs / "other").write_bytes(bytes(shutil.disk_usage(runs).free - left))
    return lab.ended()


@pytest.mark.parametrize(("phase", "left"), [("setting up", 0), ("measuring", 160 << 10)])
def test_a_disk_that_fills_up_is_reported_with_a_remedy_whenever_it_happens(
    place: Place, phase: str, left: int
) -> None:
    before = place.trace()
    ended = run_while_it_fills(place, phase, left)
    assert ended.status == 3
    assert "No space left on device" in ended.out + ended.err
    assert "free space, or choose another folder" in ended.out + ended.err
    assert place.trace() == before
    (place.runs / "other").unlink()
    for folder in RunFolder(place.only_run()).cells():
        assert folder.cell().status in ("failed", "interrupted")
    for path in place.only_run().rglob("*.sent.arrow"):
        sent = read_recording(path, "sent").table["sequence"].to_list()
        assert sent == list(range(len(sent)))


def test_what_the_agent_could_still_save_is_reported_though_no_other_file_can_be_written(place: Place) -> None:
    ended = run_while_it_fills(place, "measuring", 640 << 10)
    assert re.search(r"(talk|listen): \S+\.arrow: cannot write: .*; \d+ rows before it are safe", ended.out + ended.err)


def test_a_disk_that_is_full_already_is_reported_before_anything_is_begun(place: Place) -> None:
    before = place.trace()
    (disk(place, "16k") / "other").write_bytes(bytes(16 << 10))
    ended = place.latlab("run", place.scenario())
    assert ended.status in (2, 3)
    assert "of disk, 0 B are free" in ended.err
    assert len(ended.err.splitlines()) == 1
    assert place.trace() == before
