"""Scenarios with gate schedules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from latlab.scenario import MatrixCell, load_scenario

GATES = [
    {"open": [0, 1], "for": "101us"},
    {"open": [1], "for": "103us"},
    {"open": [1, 2], "for": "109us"},
    {"open": [1, 3], "for": "190us"},
]
TAPRIO: dict[str, Any] = {"kind": "taprio", "mode": "software", "map": {"7": 0, "5": 1}, "rest": 3, "gates": GATES}
STREAM = {"talker": "sensor", "listener": "ecu", "period": "1006us", "size": "64B", "priority": 7}
SCENARIO: dict[str, Any] = {
    "name": "gates",
    "hosts": {"sensor": {"kind": "netns"}, "ecu": {"kind": "netns"}},
    "links": [{"ends": ["sensor.eth0", "ecu.eth0"], "queues": 4}],
    "shapers": {"sensor.eth0": TAPRIO},
    "streams": {"control": STREAM},
    "duration": "1s",
}
NETPERF = {"kind": "netperf", "from": "sensor", "to": "ecu"}
"""Priority 0: class 3."""


def cells_of(tmp_path: Path, **parts: Any) -> list[MatrixCell]:
    path = tmp_path / "gates.yaml"
    path.write_text(yaml.safe_dump(SCENARIO | parts))
    return list(load_scenario(path).combinations)
