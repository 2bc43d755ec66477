"""A flow that is watched on its way into a guest: from the sender's call, on the host, at the guest's tap, and in the
guest, to the receiver's call.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from guest_runs import TWO_HOSTS, guest_run
from latlab_command import Place

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not Path("/sys/kernel/btf/vmlinux").exists(),
        reason="this kernel has no BTF, so no BPF program sees its packets",
    ),
]

MS, S = 10**6, 10**9
CALLS = "sensor.socket:out", "vm1.socket:in"
AT = ["sensor.eth0:out", "ecu.eth0:in", "vm1.tap:out", "vm1.eth0:in"]
PERIOD_MS, DURATION_S = 20, 3
COUNT = DURATION_S * 1000 // PERIOD_MS
SCENARIO: dict[str, Any] = {
    "name": "into-the-guest",
    **TWO_HOSTS,
    "guests": {"vm1": {"host": "ecu", "uplink": "eth0", "bridge": "tap", "vhost": "off", "acceleration": "tcg"}},
    "streams": {
        "control": {"talker": "sensor", "listener": "vm1", "period": f"{PERIOD_MS}ms", "size": "100B", "port": 5700}
    },
    "flows": {"seen": {"match": "udp port 5700", "at": [*AT, *CALLS]}},
    "duration": f"{DURATION_S}s",
    "settle": "4s",
}


def test_a_flow_is_followed_from_a_host_into_a_guest_on_one_clock(images: Path, place: Place) -> None:
    before = place.trace()
    run = guest_run(place, images, SCENARIO)
    assert place.trace() == before
    cell = run.result["all"]
    assert cell["status"] == "ok", run
    assert cell["flows"][0]["packets"] == dict.fromkeys((*AT, *CALLS), COUNT)
    streams = cell["streams"]

    def between(first: str, second: str) -> dict[str, Any]:
        name = "seen." + "-to-".join(point.replace(":", "-") for point in (first, second))
        return dict(streams[name]["metrics"]["transit"])

    def transit(first: int, second: int) -> dict[str, Any]:
        return between(AT[first], AT[second])

    for first in range(3):
        for second in range(first + 1, 4):
            assert (transit(first, second)["n"], transit(first, second)["lost"]) == (COUNT, 0)
    # On the host there is one clock; the guest's is known by the page that both look at.
    assert transit(0, 2)["uncertainty_ns"] == 0
    into, whole = transit(2, 3), transit(0, 3)
    bound = whole["uncertainty_ns"]
    assert 0 < bound < 100 * MS
    assert streams["seen.vm1.tap-out-to-vm1.eth0-in"]["clock"] == "shared page"
    assert into["min"] >= -bound
    # A packet is seen before its own timestamp of leaving is taken, and after that of its arrival.
    path = streams["control"]["metrics"]["path"]
    assert whole["p50"] >= path["p50"] - bound - path["uncertainty_ns"]
    # In the sender's stack, in the receiver's, and from call to call.
    for begin, end in ((CALLS[0], AT[0]), (AT[3], CALLS[1]), CALLS):
        figures = between(begin, end)
        assert (figures["n"], figures["lost"]) == (COUNT, 0)
        assert figures["min"] >= -figures["uncertainty_ns"]
