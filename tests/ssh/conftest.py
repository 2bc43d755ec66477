"""A machine of each test's own, with two boards beside it that are reached over ssh."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml

sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("lab", "whole")]

from lab_machine import private_network, run
from latlab_command import Ended, Lab, Place
from own_boards import CABLE, Board, own_boards

from latlab.lab.agent_binary import find_agent
from latlab.lab.images import build_image
from latlab.lab.site import STATE


@dataclass(frozen=True)
class Bench:
    """The lab's machine, and the boards by name."""

    place: Place
    boards: dict[str, Board]

    def scenario(self, **parts: Any) -> Path:
        """A file: a stream each way over the cable between the boards; parts of it replaced."""
        config = str(self.place.folder / "boards" / "config")
        stream = {"period": "2ms", "size": "64B"}
        whole: dict[str, Any] = {
            "name": "boards",
            "hosts": {name: {"kind": "ssh", "ssh": {"config": config}} for name in self.boards},
            "links": [{"ends": [f"{name}.{CABLE}" for name in self.boards]}],
            "streams": {
                "there": {"talker": "board1", "listener": "board2", **stream},
                "back": {"talker": "board2", "listener": "board1", **stream},
            },
            "duration": "500ms",
        }
        path = self.place.folder / "boards.yaml"
        path.write_text(yaml.safe_dump(whole | parts))
        return path

    def traces(self) -> dict[str, Any]:
        """What a run could have left on each machine."""
        return {name: board.trace() for name, board in self.boards.items()}

    def latlab(self, *arguments: object, **environment: str) -> Ended:
        """What came of the command."""
        return self.place.latlab(*arguments, **environment)

    def start(self, *arguments: object) -> Lab:
        """The command, running."""
        return self.place.start(*arguments)


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
        with own_boards(tmp_path / "boards") as boards:
            place = Place(tmp_path)
            yield Bench(place, boards)
            place.end_all()
