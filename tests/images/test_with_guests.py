"""A board's initial file system for guests of images that the board's own does not have."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from latlab.model.errors import LabError
from latlab.testbed.images import Image
from latlab.testbed.images.kinds import DEFAULTS, GUEST_KIND
from latlab.testbed.images.store import DESCRIPTION, NESTED_INITRAMFS, home
from latlab.testbed.images.with_guests import KEEP, PUT_TOGETHER_MODULE, nested_path, put_together
from support.images.cpio import read

OWN = b"all that the board has"
OWN_NAME = DEFAULTS[GUEST_KIND]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Image]:
    """Images by name, in a folder of this test's own: a board that has the first of three guests'."""
    monkeypatch.setenv("LATLAB_CACHE", str(tmp_path))
    found = {name: _image(name) for name in ("board", OWN_NAME, "other", "third")}
    found["board"] = replace(found["board"], kind="board", nested_image=found[OWN_NAME].digest)
    (found["board"].folder / NESTED_INITRAMFS).write_bytes(OWN)
    return found


def _image(name: str) -> Image:
    folder = home(name) / name
    folder.mkdir(parents=True)
    for part in ("kernel", "initramfs"):
        (folder / part).write_text(f"{part} of {name}")
    (home(name) / DESCRIPTION).write_text(json.dumps({"name": name}))
    digest = name.encode().hex().ljust(64, "0")
    return Image(name, folder / "kernel", folder / "initramfs", "", "rt", "6", digest, {}, "", 0)


def test_guests_of_the_board_s_own_image_need_nothing_else(made: dict[str, Image]) -> None:
    assert nested_path(made["board"], [made[OWN_NAME]]) == made["board"].nested_initramfs
    assert nested_path(made["board"], []) == made["board"].nested_initramfs


def test_other_images_come_after_all_that_the_board_has(made: dict[str, Image]) -> None:
    guests = [made[name] for name in ("other", OWN_NAME, "third")]
    put_together(made["board"], guests)
    whole = nested_path(made["board"], guests).read_bytes()
    assert whole.startswith(OWN)
    files = {one.name: one.data for one in read(whole.removeprefix(OWN)) if one.data}
    parts = ("kernel", "initramfs", "image.json")
    assert files.keys() == {f"usr/share/latlab/images/{name}/{part}" for name in ("other", "third") for part in parts}
    assert files["usr/share/latlab/images/other/kernel"] == b"kernel of other"


def test_one_of_another_name_and_the_same_content_is_put_there_by_its_name(made: dict[str, Image]) -> None:
    same = replace(made["other"], digest=made[OWN_NAME].digest)
    put_together(made["board"], [same])
    assert b"usr/share/latlab/images/other/kernel" in nested_path(made["board"], [same]).read_bytes()


def test_no_room_is_reported_with_where_and_how_much_and_leaves_nothing(made: dict[str, Image]) -> None:
    with pytest.raises(LabError, match="not enough space: building it takes about 10000") as caught:
        put_together(made["board"], [replace(made["other"], size=10**16)])
    assert caught.value.where == str(made["board"].folder / "nested")
    assert list((made["board"].folder / "nested").iterdir()) == []


def test_each_set_of_images_has_its_own_and_another_build_of_one_is_another(made: dict[str, Image]) -> None:
    board, other, third = made["board"], made["other"], made["third"]
    rebuilt = replace(other, digest="f" * 64)
    paths = [nested_path(board, guests) for guests in ([other], [third], [other, third], [rebuilt])]
    assert len({*paths}) == 4
    assert nested_path(board, [third, other]) == paths[2]


def test_the_newest_are_kept_and_nothing_half_written(made: dict[str, Image]) -> None:
    for number in range(KEEP + 2):
        put_together(made["board"], [replace(made["other"], digest=f"{number:064x}")])
    folder = made["board"].folder / "nested"
    assert len(list(folder.iterdir())) == KEEP
    made["third"].kernel.unlink()
    with pytest.raises(FileNotFoundError):
        put_together(made["board"], [made["third"]])
    assert len(list(folder.iterdir())) == KEEP


def test_an_image_that_is_not_there_is_named(made: dict[str, Image]) -> None:
    command = (sys.executable, "-m", PUT_TOGETHER_MODULE, "debian-rt-board", "debian-rt")
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == "a board's initial file system: there is no image debian-rt-board, debian-rt\n"
