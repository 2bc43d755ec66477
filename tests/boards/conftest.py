"""A machine of each test's own, with the image that its boards start from."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml

sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("lab", "whole")]

from lab_machine import private_network, run
from latlab_command import Place

from latlab.lab.agent_binary import find_agent
from latlab.lab.images import build_image
from latlab.lab.site import STATE

BOARD = "debian-rt-board"


class BoardPlace(Place):
    """A place whose scenarios are made on one board, two namespaces on it with a link between them."""

    def board_scenario(self, **parts: Any) -> Path:
        """A file: one stream over the link; parts of it replaced."""
        whole: dict[str, Any] = {
            "name": "on-a-board",
            "hosts": {
                "board1": {"kind": "board", "cpus": 2},
                "sensor": {"kind": "netns", "on": "board1"},
                "ecu": {"kind": "netns", "on": "board1"},
            },
            "links": [{"ends": ["sensor.eth0", "ecu.eth0"]}],
            "streams": {"control": {"talker": "sensor", "listener": "ecu", "period": "5ms", "size": "64B"}},
            "duration": "1s",
        }
        path = self.folder / "board.yaml"
        path.write_text(yaml.safe_dump(whole | parts))
        return path


@pytest.fixture(scope="session")
def cache(pytestconfig: pytest.Config) -> Path:
    """Where the image of the boards is, with its snapshots."""
    if platform.machine() != "x86_64":
        pytest.skip(f"the boards of these tests are x86_64, and this machine is {platform.machine()}")
    cache = pytestconfig.cache.mkdir("emulated")
    with mock.patch.dict(os.environ, LATLAB_CACHE=str(cache)):
        build_image(BOARD, agent=find_agent())
    return cache


@pytest.fixture
def place(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BoardPlace]:
    """A machine, a folder and a journal of this test's own."""
    with private_network():
        os.makedirs(STATE, exist_ok=True)
        run("mount", "-t", "tmpfs", "tmpfs", STATE)
        monkeypatch.setenv("LATLAB_CACHE", str(cache))
        made = BoardPlace(tmp_path)
        yield made
        made.end_all()
