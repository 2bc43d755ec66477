"""netperf of Debian, where the machine has none."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from latlab.model.errors import LabError
from latlab.testbed.images.packages import fetch, other_components, unpack


@pytest.fixture(scope="session")
def netperfs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """Where netperf and netserver are that are Debian's, unpacked and not installed; None: the machine has them."""
    if shutil.which("netperf") and shutil.which("netserver"):
        return None
    cache = tmp_path_factory.mktemp("netperf")
    try:
        files = fetch(other_components(cache).packages(["netperf"]), cache)
    except LabError as error:
        pytest.skip(f"netperf is not installed, and not to be had: {error.what}")
    for file in files:
        unpack(file, cache / "unpacked")
    return cache / "unpacked/usr/bin"


@pytest.fixture
def netperf(netperfs_folder: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing; netperf and netserver are on the PATH."""
    if netperfs_folder:
        monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{netperfs_folder}")
