"""The wheel alone: what it has in it, and that it measures in an empty environment of Python's."""

from __future__ import annotations

import json
import os
import subprocess
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

import latlab
from components import AGENT
from latlab.testbed.architecture import ARCHITECTURES
from package import SHELL_FILES
from support.machine import private_network
from support.packages.debian import FINISHED, Dist, agents_in, quickly_built

pytestmark = pytest.mark.real

WHEEL_MB = 25


@pytest.fixture(scope="module")
def wheel(agents: Path, tmp_path_factory: pytest.TempPathFactory) -> Dist:
    """The wheel of what `make package` makes."""
    folder = tmp_path_factory.mktemp("wheel")
    quickly_built(folder, agents, ["wheel"])
    return Dist(folder, agents)


@pytest.mark.long
def test_from_the_wheel_in_an_empty_environment_the_first_scenario_is_measured(wheel: Dist, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    here = tmp_path / "venv/bin"
    command = (here / "pip", "install", "--quiet", "--disable-pip-version-check", wheel.only("*.whl"))
    subprocess.run(command, check=True, timeout=1200)
    alone = {key: value for key, value in os.environ.items() if not key.startswith(("LATLAB_", "PYTHON"))}
    alone |= {"LATLAB_STATE": str(tmp_path / "state")}
    said = subprocess.run((here / "latlab", "--version"), check=True, capture_output=True, text=True, env=alone).stdout
    assert agents_in(said) == dict.fromkeys(ARCHITECTURES, latlab.__version__)
    assert str(tmp_path / "venv/lib") in said
    with private_network():
        ran = subprocess.run(
            (here / "latlab", "run", "first"), cwd=tmp_path, capture_output=True, text=True, env=alone, timeout=600
        )
    assert ran.returncode in FINISHED, ran.stderr
    (result,) = tmp_path.glob("runs/*/result.json")
    assert len(json.loads(result.read_text())["cells"]) == 2
    for path in ("man/man1/latlab-run.1", *SHELL_FILES.values()):
        assert (tmp_path / "venv/share" / path).is_file()


def test_the_wheel_is_small_and_has_both_agents_as_they_were_built(wheel: Dist) -> None:
    path = wheel.only("*.whl")
    assert path.stat().st_size <= WHEEL_MB * 1_000_000
    with ZipFile(path) as packed:
        for architecture in ARCHITECTURES:
            entry = packed.getinfo(f"latlab/agents/{AGENT}-{architecture}")
            assert entry.external_attr >> 16 & 0o111 == 0o111
            assert packed.read(entry) == (wheel.agents / entry.filename.rpartition("/")[2]).read_bytes()
