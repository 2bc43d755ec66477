"""Run folders made of numbers: known distributions, a stall, losses, and a cell that could not be built."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from latlab.analysis.statistics import NAMES
from latlab.recordings.run_folder import RunFolder
from latlab.report.build import write_report
from support.report.matrix import write_matrix_run
from support.report.run import BRIEF_NS, MATRIX_NAME, NAME, made_once, write_run


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


@pytest.fixture(scope="session")
def matrix_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of guests behind 4 bridges with 3 loads, both ways and 3 times; one bridge is not to be had."""
    return made_once(
        tmp_path_factory, "matrix", MATRIX_NAME, lambda folder: write_report(write_matrix_run(folder), formats=())
    )


@pytest.fixture(scope="session")
def slow_matrix_run(tmp_path_factory: pytest.TempPathFactory, matrix_run: Path) -> Path:
    """The same with figures as wide as they get: of seconds, with every percentile, in cells with long names."""
    folder = Path(shutil.copytree(matrix_run, tmp_path_factory.mktemp("runs") / MATRIX_NAME))
    run = RunFolder(folder)
    result = run.result()
    for cell in result["cells"]:
        cell["cell"] = {"guests": "vm1.bridge ovs-afxdp + vm2.bridge macvtap", "loads": ["load-down", "load-up"]}
        for block in cell["streams"].values():
            for figures in block["metrics"].values():
                figures |= dict.fromkeys(NAMES, 1_234_567_890) | {"n": 123_456}
    run.write_result(result)
    write_report(folder, formats=())
    return folder


@pytest.fixture
def matrix(matrix_run: Path) -> dict[str, Any]:
    """Its result document."""
    document: dict[str, Any] = json.loads((matrix_run / "result.json").read_text())
    return document


@pytest.fixture(scope="session")
def reported_run(shared_run: Path) -> Path:
    """The shared run with its page."""
    write_report(shared_run, formats=())
    return shared_run
