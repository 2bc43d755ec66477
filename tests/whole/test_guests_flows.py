"""A flow that is watched on its way into a guest: from the sender's call, on the host, where QEMU reads it from the
guest's tap or macvtap, and in the guest, to the receiver's call.
"""

from __future__ import annotations

import json
import subprocess
import time
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest

from support.command import Place, read, until_measuring
from support.guests.runs import TWO_HOSTS, guest_run, write
from support.machine import run as say

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not Path("/sys/kernel/btf/vmlinux").exists(),
        reason="this kernel has no BTF, so no BPF program sees its packets",
    ),
]

MS, S = 10**6, 10**9
CALLS = "sensor.socket:out", "vm1.socket:in"
AT = ["sensor.eth0:out", "ecu.eth0:in", "vm1.tap:read", "vm1.eth0:in"]
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


def test_a_flow_is_followed_from_a_host_by_a_macvtap_into_a_guest_on_one_clock(images: Path, place: Place) -> None:
    before = place.trace()
    (guest,) = SCENARIO["guests"].values()
    run = guest_run(place, images, SCENARIO | {"guests": {"vm1": guest | {"bridge": "macvtap"}}})
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

    for first, second in combinations(range(4), 2):
        assert (transit(first, second)["n"], transit(first, second)["lost"]) == (COUNT, 0)
    # On the host there is one clock; the guest's is known by the page that both look at.
    assert transit(0, 2)["uncertainty_ns"] == 0
    into, whole = transit(2, 3), transit(0, 3)
    bound = whole["uncertainty_ns"]
    assert 0 < bound < 100 * MS
    assert streams["seen.vm1.tap-read-to-vm1.eth0-in"]["clock"] == "shared page"
    assert into["min"] >= -bound
    # A packet is seen before its own timestamp of leaving is taken, and after that of its arrival.
    path = streams["control"]["metrics"]["path"]
    assert whole["p50"] >= path["p50"] - bound - path["uncertainty_ns"]
    # In the sender's stack, in the receiver's, and from call to call.
    for begin, end in ((CALLS[0], AT[0]), (AT[-1], CALLS[1]), CALLS):
        figures = between(begin, end)
        assert (figures["n"], figures["lost"]) == (COUNT, 0)
        assert figures["min"] >= -figures["uncertainty_ns"]


APPLICATION_PORT = 11111
POINTS = [CALLS[0], *AT[:2], "vm1.tap:out", *AT[2:]]
FITS, TOO_LONG, MTU = 64, 900, 500


def namespace_of(host: str) -> str:
    """The lab's namespace for a host."""
    return next(name for name in say("ip", "netns").split() if name.endswith(f"-{host}"))


def sockperf(size: int) -> None:
    """An application that knows nothing of the lab: 50 messages a second, for two seconds."""
    asked = ("-i", "10.78.0.11", "-p", str(APPLICATION_PORT), "--mps", "50", "-t", "2", "-m", str(size))
    # It is not answered, and says so by its exit status.
    command = ["ip", "netns", "exec", namespace_of("sensor"), "sockperf", "under-load", *asked]
    subprocess.run(command, capture_output=True, check=False, timeout=30)


def test_an_application_s_packets_have_their_hops_into_the_guest_and_lost_ones_a_place_and_a_reason(
    images: Path, place: Place
) -> None:
    own = {"streams": None, "flows": {"app": {"match": f"udp dst port {APPLICATION_PORT}", "at": POINTS}}}
    scenario = {key: value for key, value in (SCENARIO | own | {"duration": "16s"}).items() if value}
    lab = place.start("run", write(place, scenario), LATLAB_CACHE=str(images))
    lab.until("16 s")
    until_measuring(place, lab)
    # What is seen before the first packet is due does not count.
    time.sleep(2)
    sockperf(FITS)
    ecu = namespace_of("ecu")
    (tap,) = json.loads(say("ip", "-n", ecu, "-j", "link", "show", "type", "tun"))
    say("ip", "-n", ecu, "link", "set", tap["ifname"], "mtu", str(MTU))
    sockperf(TOO_LONG)
    say("ip", "-n", ecu, "link", "set", tap["ifname"], "mtu", str(tap["mtu"]))
    ended = lab.ended()
    (cell,) = read(place.only_run() / "result.json")["cells"]
    assert cell["status"] == "ok", ended.err
    seen = cell["flows"][0]["packets"]
    sent, arrived = seen[POINTS[0]], seen[POINTS[-1]]
    assert seen == dict.fromkeys(POINTS[:3], sent) | dict.fromkeys(POINTS[3:], arrived)
    assert 0 < arrived < sent
    ways = [tuple(one["points"]) for one in cell["streams"].values()]
    # Both sizes as far as they go.
    assert [ways.count(hop) for hop in pairwise(POINTS)] == [2, 2, 1, 1, 1]
    for one in cell["streams"].values():
        if len(one["points"]) == 2:
            assert one["metrics"]["transit"]["lost"] == 0
    (lost,) = (one for one in cell["streams"].values() if one["losses"])
    (dropped,) = lost["losses"]["places"]
    assert (lost["points"], lost["losses"]["lost"], lost["losses"]["unplaced"]) == (["ecu.eth0:in"], sent - arrived, 0)
    assert (dropped["host"], dropped["device"], dropped["packets"]) == ("ecu", tap["ifname"], sent - arrived)
    # One command said all that.
    told = [line.split()[0] for line in ended.out.splitlines() if "-to-" in line]
    assert [name for name in told if name.endswith("-to-vm1.eth0-in")] == [
        "app.vm1.tap-read-to-vm1.eth0-in",
        "app.sensor.socket-out-to-vm1.eth0-in",
    ]
    assert f"{sent - arrived} lost: {sent - arrived} {dropped['place']} (" in ended.out, ended.out
