"""A run whose scenario says how it is judged, and what was found of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from latlab.recordings.run_folder import RunFolder

RT, SETTINGS = "preempt-rt", "rt-settings"
STREAM = {"talker": "sensor", "listener": "ecu", "size": "64B"}
SCENARIO: dict[str, Any] = {
    "name": "first",
    "hosts": {"sensor": {"kind": "netns"}, "ecu": {"kind": "netns"}},
    "links": [{"ends": ["sensor.eth0", "ecu.eth0"]}],
    "streams": {"control": STREAM | {"period": "1006us"}, "status": STREAM | {"period": "10ms"}},
    "loads": {name: {"kind": "flood", "from": "sensor", "to": "ecu"} for name in ("flood1", "iperf3")},
    "matrix": {"loads": ["none", "flood1", "iperf3"]},
    "duration": "9s",
}
OFF = {RT: "bridges are compared", SETTINGS: "the board has no cpuidle"}


@pytest.fixture
def judged(brief_run: Path) -> Callable[..., RunFolder]:
    """A run folder whose scenario has this `trust`; its clocks are known to within 3 µs, and no cell failed."""

    def made(**trust: Any) -> RunFolder:
        folder = RunFolder(brief_run)
        folder.scenario_path.write_text(yaml.safe_dump(SCENARIO | {"trust": trust}, sort_keys=False))
        for cell in folder.cells():
            document = cell.cell().document()
            if document["status"] != "ok":
                document["start_tai_ns"] = 0
            for clock in document["clocks"]:
                clock["lower_ns"], clock["upper_ns"] = -3_000, 3_000
            cell.write_cell(document)
        return folder

    return made


def checks(result: dict[str, Any], key: str = "reasons") -> set[str]:
    return {reason["id"] for reason in result[key]}
