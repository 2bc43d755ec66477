"""Every direction that packets can take between guests and hosts, many streams at once, idle and next to loads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.command import Place
from support.guests.runs import TWO_HOSTS, GuestRun, assert_in_order, assert_whole, guest_run, image_cache
from support.machine import private_network

pytestmark = [pytest.mark.real, pytest.mark.alone]

DURATION_MS = 1500
BOTH_WAYS = ["flood-down", "flood-up", "iperf3-down", "iperf3-up"]
LOADED = "loads=" + "+".join(BOTH_WAYS)

ACROSS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "host to guest": ("sensor", "vm1", {"period": "5ms", "size": "64B", "priority": 7}),
    "guest to host": ("vm1", "sensor", {"period": "5ms", "size": "1472B", "priority": 3}),
    "guest to its neighbour": ("vm1", "vm2", {"period": "10ms", "size": "40B", "priority": 1}),
    "neighbour to guest": ("vm2", "vm1", {"period": "15ms", "size": "1000B"}),
    "guest over the cable to another": ("vm1", "vm3", {"period": "10ms", "size": "200B", "priority": 15}),
    "guest over the cable from it": ("vm3", "vm1", {"period": "25ms", "size": "1200B", "priority": 2}),
    "tagged to guest": ("sensor", "vm1", {"period": "10ms", "size": "64B", "priority": 5, "vlan": 5}),
    "tagged from guest": ("vm1", "sensor", {"period": "10ms", "size": "1500B", "priority": 7, "vlan": 4094, "pcp": 6}),
    "tagged to neighbour": ("vm2", "vm1", {"period": "10ms", "size": "300B", "priority": 4, "vlan": 6}),
    "frames to neighbour": ("sensor", "vm2", {"period": "10ms", "size": "1500B", "transport": "ethernet"}),
}
"""What it is: talker, listener, and how it is sent."""
WITH_ITS_HOST: dict[str, tuple[str, str, dict[str, Any]]] = {
    "VM host to its guest": ("ecu", "vm1", {"period": "10ms", "size": "80B", "priority": 6}),
    "guest to its VM host": ("vm2", "ecu", {"period": "10ms", "size": "90B"}),
}
BEYOND = "vm3"
HERE = {words: way for words, way in ACROSS.items() if BEYOND not in way[:2]}
BRIDGES = {
    "tap": ACROSS | WITH_ITS_HOST,
    "macvtap": HERE,
    "xdp": HERE | WITH_ITS_HOST,
    "ovs": HERE | WITH_ITS_HOST,
}
"""A third guest, on the other end of the cable, costs a cell some seconds: one bridge has it."""


def name_of(words: str) -> str:
    """The stream's name."""
    return words.lower().replace(" ", "-")


def streams_of(ways: dict[str, tuple[str, str, dict[str, Any]]]) -> dict[str, Any]:
    """The scenario's streams, so that no two begin at once."""
    return {
        name_of(words): {"talker": talker, "listener": listener, "offset": f"{400 * number}us", **how}
        for number, (words, (talker, listener, how)) in enumerate(ways.items())
    }


def guests_of(bridge: str) -> dict[str, str]:
    """Guest → host: two on one end of the cable, and one on the other where a stream needs it."""
    ends = {end for talker, listener, _ in BRIDGES[bridge].values() for end in (talker, listener)}
    return {name: host for name, host in {"vm1": "ecu", "vm2": "ecu", BEYOND: "sensor"}.items() if name in ends}


def all_ways(bridge: str) -> dict[str, Any]:
    """The scenario with all its streams at once."""
    places = guests_of(bridge)
    return {
        "name": f"directions-{bridge}",
        **TWO_HOSTS,
        "guests": {name: {"host": host, "uplink": "eth0", "bridge": bridge} for name, host in places.items()},
        "streams": streams_of(BRIDGES[bridge]),
        "duration": f"{DURATION_MS}ms",
        "warmup": "100ms",
    }


def loaded(scenario: dict[str, Any]) -> dict[str, Any]:
    """The scenario next to four loads at once."""
    flood = {"kind": "flood", "size": "1000B", "rate": "1Mbit/s"}
    iperf3 = {"kind": "iperf3", "size": "1000B", "rate": "500kbit/s", "instances": 2}
    loads = {
        "flood-down": flood | {"from": "sensor", "to": "vm1", "flows": 2},
        "flood-up": flood | {"from": "vm2", "to": "sensor"},
        "iperf3-down": iperf3 | {"from": "sensor", "to": "vm2"},
        "iperf3-up": iperf3 | {"from": "vm1", "to": "sensor"},
    }
    return scenario | {"loads": loads, "matrix": {"loads": [BOTH_WAYS]}}


@pytest.fixture(scope="module")
def runs(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, GuestRun]]:
    """By bridge, the run with all its streams, made when it is first asked for."""
    yield _Runs(pytestconfig, tmp_path_factory)


class _Runs(dict[str, GuestRun]):
    def __init__(self, config: pytest.Config, folders: pytest.TempPathFactory) -> None:
        super().__init__()
        self._cache, self._folders = image_cache(config), folders

    def __missing__(self, bridge: str) -> GuestRun:
        self[bridge] = self.run(all_ways(bridge))
        return self[bridge]

    def run(self, scenario: dict[str, Any]) -> GuestRun:
        with private_network(), Place(self._folders.mktemp(scenario["name"])) as place:
            before = place.trace()
            found = guest_run(place, self._cache, scenario)
            assert place.trace() == before, found
        return found


@pytest.mark.parametrize("bridge", BRIDGES)
def test_every_way_between_guests_and_hosts_carries_all_its_packets_at_once(
    runs: dict[str, GuestRun], bridge: str
) -> None:
    run = runs[bridge]
    assert run.ended.status == 0, run
    assert_whole(run, "all", [name_of(words) for words in BRIDGES[bridge]])
    bridges = run.result["all"]["bridges"]
    found = {guest: (one["kind"], one["host"]) for one in bridges for guest in one["guests"]}
    assert found == {guest: (bridge, host) for guest, host in guests_of(bridge).items()}
    (cell,) = run.cells.values()
    for stream in cell["streams"]:
        _, _, how = BRIDGES[bridge][next(words for words in BRIDGES[bridge] if name_of(words) == stream["name"])]
        assert f"{stream['period_ns'] // 1_000_000}ms" == how["period"]
        assert f"{stream['size']}B" == how["size"]
        assert (stream["priority"], stream["vlan"]) == (how.get("priority", 0), how.get("vlan"))


def test_loads_into_guests_and_out_of_them_run_at_their_rates_next_to_the_streams(runs: _Runs) -> None:
    run = runs.run(loaded(all_ways("tap")))
    cell = run.result[LOADED]
    assert cell["status"] == "ok", run
    for load in cell["loads"]:
        assert load["sent_bps"] == pytest.approx(load["asked_bps"], rel=0.3), load["name"]
        assert load["received_bps"] > 0.5 * load["sent_bps"], load["name"]
    ends = {load["name"]: (load["kind"], load["from"], load["to"]) for load in cell["loads"]}
    assert ends == {
        "flood-down": ("flood", "sensor", "vm1"),
        "flood-up": ("flood", "vm2", "sensor"),
        "iperf3-down": ("iperf3", "sensor", "vm2"),
        "iperf3-up": ("iperf3", "vm1", "sensor"),
    }
    instances = {load["name"]: len(load["detail"].get("instances", [])) for load in cell["loads"]}
    assert instances == {"flood-down": 0, "flood-up": 0, "iperf3-down": 2, "iperf3-up": 2}
    for name, found in cell["streams"].items():
        counts = found["counts"]
        assert counts["sent"] == counts["scheduled"], name
        assert counts["received"] + counts["lost"] == counts["sent"], name
        packets = run.packets(LOADED, name)
        arrived = packets.drop_nulls("arrival")
        assert arrived.height == counts["received"] > 0, name
        if counts["lost"] == counts["reordered"] == 0:
            assert_in_order(packets, name)


@pytest.fixture(scope="module")
def inner(runs: _Runs) -> GuestRun:
    """Guests without an uplink, on three hosts at once."""
    places = {"vm1": ("ecu", "tap"), "vm2": ("plc", "xdp"), "vm3": ("plc", "xdp"), "vm4": ("robot", "ovs")}
    ways = {
        "into a tap": ("ecu", "vm1"),
        "out of a tap": ("vm1", "ecu"),
        "beside XDP into": ("plc", "vm2"),
        "across XDP": ("vm2", "vm3"),
        "beside XDP out of": ("vm3", "plc"),
        "into a switch": ("robot", "vm4"),
        "out of a switch": ("vm4", "robot"),
    }
    how = {"period": "10ms", "size": "64B"}
    return runs.run(
        {
            "name": "without-uplink",
            "hosts": {name: {"kind": "netns"} for name in ("ecu", "plc", "robot")},
            "guests": {name: {"host": host, "bridge": bridge} for name, (host, bridge) in places.items()},
            "streams": streams_of({words: (talker, listener, how) for words, (talker, listener) in ways.items()}),
            "duration": f"{DURATION_MS}ms",
            "warmup": "100ms",
        }
    )


def test_guests_without_an_uplink_reach_their_host_and_each_other(inner: GuestRun) -> None:
    assert inner.ended.status == 0, inner
    (cell,) = inner.cells.values()
    assert [(one["kind"], one["uplink"], one["guests"]) for one in cell["bridges"]] == [
        ("tap", None, ["vm1"]),
        ("xdp", None, ["vm2", "vm3"]),
        ("ovs", None, ["vm4"]),
    ]
    assert_whole(inner, "all", [stream["name"] for stream in cell["streams"]])
    assert len(cell["streams"]) == 7


@pytest.mark.parametrize(
    ("guest", "stream", "words"),
    [
        ({"bridge": "macvtap", "uplink": "eth0"}, {"talker": "ecu"}, "not to ecu itself"),
        ({"bridge": "user", "uplink": "eth0"}, {"talker": "sensor", "vlan": 5}, "carries no Ethernet frames"),
        ({"bridge": "xdp"}, {"talker": "ecu"}, "XDP redirects from port to port, and vm1 has the only one"),
    ],
)
def test_a_way_that_a_bridge_does_not_have_is_unavailable_with_its_reason(
    images: Path, place: Place, guest: dict[str, Any], stream: dict[str, Any], words: str
) -> None:
    scenario = {
        "name": "no-such-way",
        **TWO_HOSTS,
        "guests": {"vm1": {"host": "ecu", **guest}},
        "streams": {"into": {"listener": "vm1", "period": "10ms", "size": "64B", **stream}},
        "duration": "100ms",
    }
    run = guest_run(place, images, scenario)
    assert run.ended.status == 3, run
    (cell,) = run.cells.values()
    assert cell["status"] == "unavailable"
    assert words in cell["reason"]["what"]
    assert cell["reason"]["remedy"]
