"""Agents that run when another cannot be started are in cell.json still."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml

from latlab.model.errors import LabError
from latlab.run.matrix import run
from latlab.run.ptp import PtpWatch
from latlab.scenario import load_scenario

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("machine", "journals")]

COMPARED = {
    "name": "compared",
    "hosts": {"sensor": {"kind": "netns"}, "ecu": {"kind": "netns"}},
    "links": [{"ends": ["sensor.eth0", "ecu.eth0"]}],
    "clock": {"sync": "exchange"},
    "streams": {"control": {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B"}},
    "duration": "100ms",
}


def test_agents_that_compare_clocks_are_reported_where_nobody_can_watch_ptp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> None:
        raise LabError("ptp4l does not answer", where="ecu")

    monkeypatch.setattr(PtpWatch, "start", fails)
    path = tmp_path / "compared.yaml"
    path.write_text(yaml.safe_dump(COMPARED, sort_keys=False))
    folder = asyncio.run(run(load_scenario(path), tmp_path / "runs", lambda _: None))
    (cell,) = [one.cell().document() for one in folder.cells()]
    assert (cell["status"], cell["reason"]["what"]) == ("failed", "ptp4l does not answer")
    assert [one["verb"] for one in cell["agents"]] == ["listen", "talk", "clock", "clock"]
    assert all(one["done"] for one in cell["agents"][2:]), "they were stopped, and said what they had seen"
