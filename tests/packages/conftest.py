"""All packages, built once for all tests here."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

sys.path += [str(Path(__file__).parents[1] / "testbed"), str(Path(__file__).parents[2] / "tools")]

from debian_root import Dist, quickly_built

from latlab.testbed.agent_binary import find_agent, find_agents
from latlab.testbed.architecture import ARCHITECTURES


@pytest.fixture(scope="session")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an agent for each architecture; for one that was not built, this machine's under its name."""
    folder = tmp_path_factory.mktemp("agents")
    own = find_agent()
    found = find_agents(own)
    here = os.uname().machine
    for architecture, known in ARCHITECTURES.items():
        path = folder / f"latlab-agent-{architecture}"
        if architecture in found:
            shutil.copy(found[architecture], path)
            continue
        content = own.read_bytes().replace(f", built for {here}".encode(), f", built for {architecture}".encode())
        path.write_bytes(content[:18] + known.elf.to_bytes(2, "little") + content[20:])
        path.chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def dist(agents: Path, tmp_path_factory: pytest.TempPathFactory) -> Dist:
    """What `make package` makes."""
    folder = tmp_path_factory.mktemp("dist")
    quickly_built(folder, agents)
    return Dist(folder, agents)
