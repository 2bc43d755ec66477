"""A cell with everything at once: streams both ways, frames and datagrams, this machine itself, clocks compared."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml

from latlab.evaluation.run import make_result
from latlab.run.events import CellEnded, CellStarted, Event, Packets, Phase, RunStarted
from latlab.run.matrix import run
from latlab.scenario import load_scenario
from support.machine import dump

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("machine")]

EVERYTHING = {
    "name": "everything",
    "hosts": {"sensor": {"kind": "netns"}, "ecu": {"kind": "local"}},
    "links": [{"ends": ["sensor.eth0", "ecu.lat0"]}],
    "clock": {"sync": "exchange"},
    "streams": {
        "control": {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B", "priority": 7},
        "frames": {"talker": "sensor", "listener": "ecu", "period": "2ms", "size": "200B", "vlan": 5, "pcp": 6},
        "back": {"talker": "ecu", "listener": "sensor", "period": "5ms", "size": "1400B", "offset": "1ms"},
    },
    "duration": "1s",
    "warmup": "100ms",
}
PACKETS = {"control": 1000, "frames": 500, "back": 200}


def test_streams_of_every_kind_in_both_directions_are_measured_against_the_bound_of_the_clocks(
    tmp_path: Path, journals: Path
) -> None:
    path = tmp_path / "everything.yaml"
    path.write_text(yaml.safe_dump(EVERYTHING, sort_keys=False))
    before, events = dump(), list[Event]()
    folder = asyncio.run(run(load_scenario(path), tmp_path / "runs", events.append))
    assert dump() == before
    assert list(journals.iterdir()) == []

    (cell,) = make_result(folder).document()["cells"]
    assert (cell["status"], cell["reason"]) == ("ok", None)
    for name, packets in PACKETS.items():
        counts = cell["streams"][name]["counts"]
        whole = dict.fromkeys(counts, 0) | dict.fromkeys(("scheduled", "sent", "received"), packets)
        assert counts == whole | {"warmup": packets // 10}
    uncertain = [stream["metrics"]["latency"]["uncertainty_ns"] for stream in cell["streams"].values()]
    assert all(one and one > 0 for one in uncertain)

    (document,) = [one.cell().document() for one in folder.cells()]
    (clock,) = document["clocks"]
    assert (clock["source"], clock["lost"]) == ("exchange", 0)
    assert clock["lower_ns"] <= 0 <= clock["upper_ns"], "one kernel: the clocks are the same"
    assert [(one["host"], one["verb"]) for one in document["agents"]] == [
        *(("ecu", "listen"), ("sensor", "listen"), ("sensor", "talk"), ("ecu", "talk")),
        *(("sensor", "clock"), ("ecu", "clock")),
    ]

    kinds = [type(event) for event in events if not isinstance(event, Packets)]
    assert kinds == [RunStarted, CellStarted, *[Phase] * 5, CellEnded]
    phases = [event.name for event in events if isinstance(event, Phase)]
    assert phases == ["setting up", "measuring", "stopping", "tearing down", "joining"]
