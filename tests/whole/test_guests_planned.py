"""A plan with a guest and a bridge of ours, pasted into a shell: it measures, and leaves the machine as it was."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from support.command import Place
from support.guests.runs import TWO_HOSTS, image_cache, write
from support.machine import dump, private_network

pytestmark = pytest.mark.real

PACKETS = 50
SCENARIO: dict[str, Any] = {
    "name": "planned",
    **TWO_HOSTS,
    "guests": {"vm1": {"host": "ecu", "uplink": "eth0", "bridge": "xdp"}},
    "streams": {"down": {"talker": "sensor", "listener": "vm1", "period": "10ms", "size": "64B"}},
    "duration": "500ms",
}
PATIENCE_S = 240


def test_a_plan_with_a_guest_behind_the_xdp_bridge_can_be_pasted_whole(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cache = image_cache(pytestconfig)
    with private_network(), Place(tmp_path_factory.mktemp("planned")) as place:
        planned = place.latlab("plan", write(place, SCENARIO), LATLAB_CACHE=str(cache))
        before = dump()
        # What a program of the plan left in the background would keep the output open.
        with (place.folder / "said").open("w") as said:
            pasted = subprocess.run(
                ["sh", "-e"],
                input=planned.out,
                text=True,
                cwd=place.folder,
                stdout=said,
                stderr=said,
                timeout=PATIENCE_S,
            )
        told = (place.folder / "said").read_text()
        assert pasted.returncode == 0, told
        assert [stream["received"] for event in done(told) for stream in event["streams"] if "received" in stream] == [
            PACKETS
        ]
        assert dump() == before
        assert not list(place.folder.glob("LOGS/*.told"))


def done(told: str) -> list[dict[str, Any]]:
    """What the agents said last of all."""
    events = [json.loads(line) for line in told.splitlines() if line.startswith('{"event":"done"')]
    return [event for event in events if "streams" in event]
