"""One folder of images serves all tests here. What other tests have built and fetched is taken over from theirs."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from latlab.testbed.agent_binary import find_agent
from latlab.testbed.images import Image, build_image
from latlab.testbed.images.store import DESCRIPTION, locked, read_description

GUEST, BOARD = "debian-cloud", "debian-rt-board"


@pytest.fixture(scope="session")
def shared(pytestconfig: pytest.Config) -> Iterator[Path]:
    """The folder of images that outlives the tests."""
    with pytest.MonkeyPatch.context() as patch:
        folder = pytestconfig.cache.mkdir("images")
        for name in (GUEST, BOARD):
            _take_over(name, pytestconfig.cache.mkdir("emulated"), folder)
        patch.setenv("LATLAB_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def image(shared: Path) -> Image:
    """The ready-made image."""
    return build_image(agent=find_agent())


@pytest.fixture(scope="session")
def board(image: Image) -> Image:
    """The ready-made image of a board, which has the guests' in it."""
    return build_image(BOARD, agent=find_agent())


@pytest.fixture
def own(image: Image, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of images of this test's own, with the ready-made image and the fetched packages in it."""
    folder = tmp_path / "cache"
    shutil.copytree(shared, folder, ignore=shutil.ignore_patterns(BOARD), copy_function=_copy)
    monkeypatch.setenv("LATLAB_CACHE", str(folder))
    return folder


def _take_over(name: str, theirs: Path, ours: Path) -> None:
    """Link what is in one folder of images of that name, and all packages, into another, if it would not be rebuilt.

    No test writes into such a file: one that changes is another.
    """
    source, target = (folder / "images" / name for folder in (theirs, ours))
    if not source.exists():
        return
    with locked(source), locked(target):
        image = read_description(source / DESCRIPTION)
        there = read_description(target / DESCRIPTION)
        if not image or not image.is_up_to_date(find_agent()) or (there and there.digest == image.digest):
            return
        left_out = shutil.ignore_patterns(".*", DESCRIPTION, "snapshots", "nested")
        shutil.copytree(source, target, ignore=left_out, copy_function=_link, symlinks=True, dirs_exist_ok=True)
        (ours / "packages").mkdir(exist_ok=True)
        for package in (theirs / "packages").glob("*.deb"):
            _link(str(package), str(ours / "packages" / package.name))
        # Last, as where it is built: now it is there.
        (target / DESCRIPTION).unlink(missing_ok=True)
        _link(str(source / DESCRIPTION), str(target / DESCRIPTION))


def _link(source: str, target: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.link(source, target)


def _copy(source: str, target: str) -> None:
    """Nothing; a package is only lent, anything else is copied."""
    if source.endswith(".deb"):
        os.symlink(source, target)
    else:
        shutil.copy2(source, target)
