"""Through XDP every packet arrives with the right checksum, and what would change that is noticed."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from latlab.testbed.agent_binary import find_agent
from support.guests.place import PACKETS, GuestPlace

pytestmark = pytest.mark.real

DATAGRAM, DATAGRAMS = 1000, 200
SIZE = DATAGRAM * DATAGRAMS
ADDRESS, PORT = "10.78.0.11", "7777"
BAD = re.compile(r"^(Tcp|Udp): (.*)$", re.MULTILINE)


def bad_checksums(snmp: str) -> int:
    """Packets that a kernel refused for their TCP or UDP checksums, of /proc/net/snmp."""
    lines = BAD.findall(snmp)
    counted = [dict(zip(names.split(), values.split(), strict=True)) for (_, names), (_, values) in _pairs(lines)]
    return sum(int(one["InCsumErrors"]) for one in counted)


def _pairs(lines: list[tuple[str, str]]) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    return list(zip(lines[::2], lines[1::2], strict=True))


def arrived(place: GuestPlace, *flags: str) -> int:
    """Bytes that arrived, of those that iperf3 sent between the sensor and the guest."""
    argv = [str(find_agent()), "in", str(place.guest_folder()), "iperf3", "--forceflush", "-s", "-1", "-p", PORT]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        while "Server listening" not in server.stdout.readline():
            assert server.poll() is None
        said = place.in_host("sensor", "iperf3", "-J", "-c", ADDRESS, "-p", PORT, *flags)
        server.stdout.read()
    end = json.loads(said)["end"]
    if "-u" in flags:
        return int((end["sum"]["packets"] - end["sum"]["lost_packets"]) * DATAGRAM)
    return int(end["sum_received"]["bytes"])


WAYS = {
    "UDP to the guest": ("-u", "-l", str(DATAGRAM), "-b", "4M", "-k", str(DATAGRAMS)),
    "UDP from the guest": ("-u", "-l", str(DATAGRAM), "-b", "4M", "-k", str(DATAGRAMS), "-R"),
    "TCP to the guest": ("-t", "1"),
    "TCP from the guest": ("-t", "1", "-R"),
}


def test_udp_and_tcp_arrive_with_right_checksums_both_ways(place: GuestPlace) -> None:
    got: dict[str, int] = {}
    refused: list[int] = []

    def exchange() -> None:
        got.update((way, arrived(place, *flags)) for way, flags in WAYS.items())
        refused.append(bad_checksums(place.in_guest("cat", "/proc/net/snmp").stdout))
        refused.append(bad_checksums(place.in_host("sensor", "cat", "/proc/net/snmp")))

    cell = place.measure("xdp", exchange, after_s=0.2, duration="8s").cell().document()
    assert (cell["status"], cell["reason"]) == ("ok", None)
    assert refused == [0, 0]
    assert {way: size >= SIZE // 2 for way, size in got.items()} == dict.fromkeys(WAYS, True), got
    assert cell["rechecks"]
    assert all(one["ok"] for one in cell["rechecks"])


def test_offloads_that_someone_turns_on_again_are_noticed(place: GuestPlace) -> None:
    before = place.trace()

    def turn_on() -> None:
        place.in_host("sensor", "ethtool", "-K", "eth0", "tx", "on")

    cell = place.measure("xdp", turn_on).cell().document()
    assert cell["status"] == "ok"
    (again,) = [one for one in cell["rechecks"] if not one["ok"]]
    assert (again["host"], again["title"]) == (
        "sensor",
        "have sensor.eth0 send complete frames, as on a cable",
    )
    assert (again["expected"], again["actual"][:3]) == ("off off off, gro on", "on ")
    document = place.latlab("report", "--json").document
    (told,) = [one for one in document["reasons"] if one["id"] == "tuning-in-force"]
    assert "complete frames" in told["where"] + told["actual"] + told["expected"]
    counts = document["cells"][0]["streams"]["control"]["counts"]
    assert (counts["sent"], counts["lost"] > 0) == (PACKETS, True)
    assert place.trace() == before
