"""Snapshots belong to an image and a key; the newest are kept, and no part of one outlives its writer."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from latlab.testbed.images import KEEP, Image, is_whole, keep_newest, part_path, snapshot_path


@pytest.fixture
def kept(tmp_path: Path) -> Image:
    """An image that is not built: only its path counts."""
    return Image("one", tmp_path / "a/kernel", tmp_path / "a/initramfs", "", "rt", "6.1", "00", {}, "", 0)


def test_a_snapshot_is_another_for_another_key_and_another_image(kept: Image, tmp_path: Path) -> None:
    other = replace(kept, initramfs=tmp_path / "b/initramfs")
    paths = {snapshot_path(image, key) for image in (kept, other) for key in ("x", "y")}
    assert len(paths) == 4
    assert snapshot_path(kept, "x") == snapshot_path(kept, "x")
    assert snapshot_path(kept, "x").parent.parent == kept.folder


@pytest.mark.parametrize(
    ("contents", "whole"),
    [
        (b"QEVM and what follows ]}", True),
        (b"QEVM and what", False),
        (b"QEVM and what" + bytes(4096), False),
        (b"", False),
        (bytes(4096) + b"]}", False),
    ],
    ids=["whole", "cut short", "not wholly written", "empty", "without its beginning"],
)
def test_a_snapshot_has_a_beginning_and_an_end(tmp_path: Path, contents: bytes, whole: bool) -> None:
    path = tmp_path / "snapshot"
    assert not is_whole(path)
    path.write_bytes(contents)
    assert is_whole(path) == whole


def test_the_newest_are_kept(kept: Image) -> None:
    paths = [snapshot_path(kept, str(n)) for n in range(KEEP + 3)]
    paths[0].parent.mkdir(parents=True)
    for age, path in enumerate(paths):
        path.touch()
        os.utime(path, (1000 - age, 1000 - age))
    keep_newest(paths[0].parent)
    assert [path.exists() for path in paths] == [True] * KEEP + [False] * 3


def test_a_part_is_there_as_long_as_its_writer(kept: Image) -> None:
    path = snapshot_path(kept, "x")
    path.parent.mkdir(parents=True)
    dead = subprocess.Popen(["true"])
    dead.wait()
    of_the_dead = path.with_name(part_path(path).name.replace(str(os.getpid()), str(dead.pid)))
    for part in (of_the_dead, part_path(path)):
        part.touch()
    keep_newest(path.parent)
    assert (of_the_dead.exists(), part_path(path).exists()) == (False, True)
    os.replace(part_path(path), path)
    keep_newest(path.parent)
    assert path.exists()
