"""A machine of each test's own, with two boards next to it that are reached over ssh."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from latlab.testbed.agent_binary import find_agent
from latlab.testbed.images import build_image
from latlab.testbed.site import STATE
from support.command import Place
from support.machine import private_network, run
from support.ssh import Bench, own_boards


@pytest.fixture(scope="session")
def cache(pytestconfig: pytest.Config) -> Path:
    """Where the image of the guests is."""
    cache = pytestconfig.cache.mkdir("emulated")
    with mock.patch.dict(os.environ, LATLAB_CACHE=str(cache)):
        build_image("debian-cloud", agent=find_agent())
    return cache


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """The machines, and a folder and a journal of this test's own."""
    with private_network():
        os.makedirs(STATE, exist_ok=True)
        run("mount", "-t", "tmpfs", "tmpfs", STATE)
        (tmp_path / "boards").mkdir()
        with own_boards(tmp_path / "boards") as boards, Place(tmp_path) as place:
            yield Bench(place, boards)
