"""All packages, built once for all tests here."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from latlab.testbed.agent_binary import find_agent, find_agents
from latlab.testbed.architecture import ARCHITECTURES
from support.packages.debian import Dist, quickly_built


@pytest.fixture(scope="session")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the agent for each architecture."""
    folder = tmp_path_factory.mktemp("agents")
    found = find_agents(find_agent())
    for architecture in ARCHITECTURES:
        assert architecture in found, f"there is no agent for {architecture}: `make agents`"
        shutil.copy(found[architecture], folder / f"latlab-agent-{architecture}")
    return folder


@pytest.fixture(scope="session")
def dist(agents: Path, tmp_path_factory: pytest.TempPathFactory) -> Dist:
    """What `make package` makes."""
    folder = tmp_path_factory.mktemp("dist")
    quickly_built(folder, agents)
    return Dist(folder, agents)
