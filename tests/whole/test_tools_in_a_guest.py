"""Tools that are in a guest's image: they measure there as on any host."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from latlab.testbed.agent_binary import find_agent
from latlab.testbed.images import build_image
from support.command import Place
from support.guests.runs import GuestRun, guest_run, image_cache
from support.machine import private_network

pytestmark = pytest.mark.real

IMAGE = "debian-rt-tools"
SCENARIO: dict[str, Any] = {
    "name": "tools",
    "hosts": {"sensor": {"kind": "netns"}, "ecu": {"kind": "netns"}},
    "links": [{"ends": ["sensor.eth0", "ecu.eth0"]}],
    "guests": {"vm1": {"host": "ecu", "uplink": "eth0", "bridge": "tap", "image": IMAGE, "memory": "384MiB"}},
    "probes": {
        "tracer": {"probe": "timerlat", "on": "vm1", "period": "10ms"},
        "cyclic": {"probe": "cyclictest", "on": "vm1", "period": "10ms"},
        "trips": {"probe": "netperf", "from": "sensor", "to": "vm1", "test": "UDP_RR", "size": "64B"},
    },
    "duration": "2s",
    "warmup": "100ms",
    "matrix": {"probes": ["tracer", "cyclic", "trips"]},
}


@pytest.fixture(scope="module")
def run(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory, netperfs_folder: Path | None
) -> Iterator[GuestRun]:
    """A cell of each."""
    cache = image_cache(pytestconfig)
    path = os.pathsep.join(filter(None, (os.environ["PATH"], str(netperfs_folder or ""))))
    with mock.patch.dict("os.environ", LATLAB_CACHE=str(cache)):
        build_image(IMAGE, flavour="rt", packages=["rtla", "rt-tests", "netperf"], agent=find_agent())
    with (
        private_network(),
        Place(tmp_path_factory.mktemp("tools")) as place,
        mock.patch.dict("os.environ", PATH=path),
    ):
        yield guest_run(place, cache, SCENARIO)


def block(run: GuestRun, probe: str) -> dict[str, Any]:
    """What the result has of the probe, which was measured."""
    cell = run.result[f"probes={probe}"]
    assert (cell["status"], cell["reason"]) == ("ok", None), run
    found: dict[str, Any] = cell["streams"][probe]
    return found


def test_the_kernels_tracer_tells_of_the_interrupt_and_of_the_thread(run: GuestRun) -> None:
    metrics = block(run, "tracer")["metrics"]
    assert metrics["wakeup"]["n"] > 50
    # Both count from the planned expiry, and the thread runs after the interrupt that wakes it.
    assert 0 <= metrics["interrupt"]["min"] <= metrics["wakeup"]["max"]
    assert metrics["interrupt"]["mean"] <= metrics["wakeup"]["mean"]


def test_cyclictest_counts_each_of_its_instants(run: GuestRun) -> None:
    wakeup = block(run, "cyclic")["metrics"]["wakeup"]
    assert wakeup["n"] > 50 and 0 <= wakeup["min"] <= wakeup["mean"] <= wakeup["max"]


def test_netperf_is_answered_by_the_netserver_in_the_guest(run: GuestRun) -> None:
    trips = block(run, "trips")["metrics"]["round_trip"]
    assert trips["n"] > 50 and 0 < trips["min"] <= trips["mean"] <= trips["max"]
