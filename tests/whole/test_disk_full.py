"""A disk that fills up: said clearly, nothing lost silently, and the machine as it was."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lab_machine import run
from latlab_command import SMALL, Place, cells_of

from latlab.data.recordings import read_recording

pytestmark = pytest.mark.real

DENSE = {"control": SMALL["streams"]["control"] | {"period": "50us"}}


def disk(place: Place, size: str) -> Path:
    """The folder for the runs, on a file system of this size."""
    place.runs.mkdir()
    run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place.runs))
    return place.runs


@pytest.mark.parametrize("size", ["24k", "160k"])
def test_a_disk_that_fills_up_is_told_with_a_remedy_whenever_it_happens(place: Place, size: str) -> None:
    before = place.trace()
    disk(place, size)
    ended = place.latlab("run", place.scenario(streams=DENSE, matrix=None, loads=None))
    assert ended.status == 3
    assert "No space left on device" in ended.out + ended.err
    assert "free space, or choose another folder for the runs" in ended.out + ended.err
    assert place.trace() == before
    for cell in cells_of(place.only_run()).values():
        assert cell["status"] == "failed"
    for path in place.only_run().rglob("*.sent.arrow"):
        sent = read_recording(path, "sent").table["sequence"].to_list()
        assert sent == list(range(len(sent)))


def test_what_the_agent_could_still_save_is_told_though_no_other_file_can_be_written(place: Place) -> None:
    disk(place, "1m")
    ended = place.latlab("run", place.scenario(streams=DENSE, matrix=None, loads=None))
    assert re.search(r"(talk|listen): \S+\.arrow: cannot write: .*; \d+ rows before it are safe", ended.out + ended.err)


def test_a_disk_that_is_full_already_is_told_before_anything_is_begun(place: Place) -> None:
    before = place.trace()
    (disk(place, "16k") / "other").write_bytes(bytes(16 << 10))
    ended = place.latlab("run", place.scenario())
    assert ended.status in (2, 3)
    assert "No space left on device" in ended.err
    assert len(ended.err.splitlines()) == 1
    assert place.trace() == before
