"""A machine of each test's own, with the image that its boards start from."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from latlab.testbed.agent_binary import AGENT, find_agent, find_agents
from latlab.testbed.images import build_image
from support.boards.place import BoardPlace, board_place

ARCHITECTURE = "aarch64"
BOARD, OTHER_KERNEL = "debian-rt-board", "debian-rt"
"""The second is of guests that get a card."""


@pytest.fixture(scope="session")
def cache(pytestconfig: pytest.Config) -> Path:
    """Where the image of the boards is, with its snapshots."""
    if platform.machine() != "x86_64":
        pytest.skip(f"the boards of these tests are x86_64, and this machine is {platform.machine()}")
    cache = pytestconfig.cache.mkdir("emulated")
    with mock.patch.dict(os.environ, LATLAB_CACHE=str(cache)):
        for name in (BOARD, OTHER_KERNEL):
            build_image(name, agent=find_agent())
    return cache


@pytest.fixture(scope="session")
def arm_agent() -> Path:
    """The agent that such a board runs."""
    agents = find_agents(find_agent())
    assert ARCHITECTURE in agents, "`make agents` builds it"
    if os.uname().machine == ARCHITECTURE:
        pytest.skip("this machine is an ARM itself: its own boards are what the other tests measure")
    return Path(agents[ARCHITECTURE])


@pytest.fixture(scope="session")
def arm_cache(arm_agent: Path, pytestconfig: pytest.Config) -> Path:
    """Where the images of the board and of its guests are, with their snapshots."""
    cache = pytestconfig.cache.mkdir("emulated")
    with mock.patch.dict(os.environ, LATLAB_CACHE=str(cache)):
        for image in ("debian-rt-board", "debian-rt"):
            build_image(image, agent=arm_agent, architecture="arm64")
    return cache


@pytest.fixture
def place(tmp_path: Path, cache: Path) -> Iterator[BoardPlace]:
    """A machine, a folder and a journal of this test's own."""
    with board_place(tmp_path, cache) as made:
        yield made


@pytest.fixture
def arm_place(tmp_path: Path, arm_agent: Path, arm_cache: Path) -> Iterator[BoardPlace]:
    """A machine, a folder and a journal of this test's own, with agents for both architectures."""
    with board_place(tmp_path, arm_cache) as made:
        (tmp_path / f"{AGENT}-{ARCHITECTURE}").symlink_to(arm_agent)
        yield made
