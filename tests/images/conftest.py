"""One folder of images serves all tests here and the emulated machine: packages are fetched once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from latlab.testbed.agent_binary import find_agent
from latlab.testbed.images import Image, build_image

BOARD = "debian-rt-board"


@pytest.fixture(scope="session")
def shared(pytestconfig: pytest.Config) -> Iterator[Path]:
    """The folder of images that outlives the tests."""
    with pytest.MonkeyPatch.context() as patch:
        folder = pytestconfig.cache.mkdir("images")
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


def _copy(source: str, target: str) -> None:
    """Nothing; a package is only lent, anything else is copied."""
    if source.endswith(".deb"):
        os.symlink(source, target)
    else:
        shutil.copy2(source, target)
