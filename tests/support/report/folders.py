"""Fixtures: run folders made of numbers, to read and to change."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.report.run import BRIEF_NS, NAME, made_once, write_run


@pytest.fixture(scope="session")
def pristine_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder that no test writes to."""
    return made_once(tmp_path_factory, "pristine", NAME, write_run)


@pytest.fixture(scope="session")
def brief_pristine_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with about half of the packets."""
    return made_once(tmp_path_factory, "brief", NAME, lambda folder: write_run(folder, duration_ns=BRIEF_NS))


@pytest.fixture
def new_run(tmp_path: Path, pristine_run: Path) -> Callable[..., Path]:
    """A function that makes a separate run folder, of another name or with options of `write_run`, and returns it."""

    def make(name: str = NAME, **options: Any) -> Path:
        folder = tmp_path / name
        if name == NAME and not options:
            return Path(shutil.copytree(pristine_run, folder))
        folder.mkdir()
        return write_run(folder, **options)

    return make


@pytest.fixture
def brief_run(tmp_path: Path, brief_pristine_run: Path) -> Path:
    """A separate run folder, for tests that analyse it again and need few packets."""
    return Path(shutil.copytree(brief_pristine_run, tmp_path / NAME))


@pytest.fixture(scope="session")
def shared_run(tmp_path_factory: pytest.TempPathFactory, pristine_run: Path) -> Path:
    """A run folder for tests that only read it; its report is written to it."""
    return Path(shutil.copytree(pristine_run, tmp_path_factory.mktemp("runs") / NAME))


@pytest.fixture
def result(shared_run: Path) -> dict[str, Any]:
    """The result document of the shared run."""
    document: dict[str, Any] = json.loads((shared_run / "result.json").read_text())
    return document
