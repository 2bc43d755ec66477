"""Run folders made of numbers: known distributions, a stall, losses, and a cell that could not be built."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from latlab.analysis.statistics import NAMES
from latlab.recordings.run_folder import RunFolder
from latlab.report.build import write_report
from support.report.folders import brief_pristine_run, brief_run, new_run, pristine_run, result, shared_run
from support.report.judged import judged
from support.report.matrix import write_matrix_run
from support.report.run import MATRIX_NAME, made_once

__all__ = ["brief_pristine_run", "brief_run", "judged", "new_run", "pristine_run", "result", "shared_run"]


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
