"""The lab's machine with two boards next to it, and the scenarios that use them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from latlab_command import Ended, Lab, Place
from own_boards import CABLE, Board


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

    def latlab(self, *arguments: object, **environment: Any) -> Ended:
        """What came of the command."""
        return self.place.latlab(*arguments, **environment)

    def start(self, *arguments: object) -> Lab:
        """The command, running."""
        return self.place.start(*arguments)
