"""A folder, a journal and scenarios whose test bed is made on one board."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from latlab_command import Place


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


def received(cell: dict[str, object]) -> list[int]:
    """The packets of each stream that arrived, as the listeners counted them."""
    return [
        stream["received"]
        for agent in cell["agents"]  # type: ignore[attr-defined]
        if agent["verb"] == "listen"
        for stream in agent["done"]["streams"]
    ]
