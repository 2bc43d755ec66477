"""An application's packets that are watched on their way over a board, through its guest's kernel to the socket."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from latlab.analysis.around import joined
from latlab.analysis.interrupts import SWITCH
from latlab.analysis.way import ONE_CLOCK, TWO_HOSTS
from latlab.recordings.arrow import read_recording
from support.boards.place import BoardPlace, board_place
from support.command import read
from support.programs import PROGRAMS

MS = 1_000_000
PORT = 5201
APPLICATION = f"udp dst port {PORT}"
"""Of iperf3, which knows nothing of the lab."""
GUEST: dict[str, Any] = {
    "host": "ecu",
    "uplink": "eth0",
    "bridge": "tap",
    "vhost": "on",
    "acceleration": "kvm",
    "image": "debian-rt",
    "memory": "256MiB",
}
MESSAGES, STOPPED_MS = 300, 60
"""One each 2 ms; so long the server does not read in the midst of them."""
BEGUN_S = 0.5
"""The cell has begun when the client does."""
SERVER = f"""\
iperf3 --server --one-off --port {PORT} >/dev/null 2>&1 &
server=$!
until ss -ltn | grep -q :{PORT}; do sleep 0.01; done
"""
CLIENT = f"iperf3 --client 10.78.0.11 --port {PORT} --udp --length 100"


def later(command: str) -> str:
    """Has the command done once the cell has begun."""
    return f"(sleep {BEGUN_S}; exec {command}) >/dev/null 2>&1 &"


def accompanied(place: BoardPlace, path: Path, commands: Mapping[str, str]) -> dict[str, Any]:
    """The one cell of a run whose hosts do these commands before it begins."""
    before = place.trace()
    by = (sys.executable, str(PROGRAMS / "accompanied_lab.py"), json.dumps(commands))
    ended = place.start("run", path, before=by).ended()
    assert ended.status == 0, ended.err + ended.out
    assert place.trace() == before
    (cell,) = read(place.only_run() / "result.json")["cells"]
    assert cell["status"] == "ok"
    return dict(cell)


# From the host through two switches, the second of which takes off the tag that the first one adds, into the guest.


WAY = [
    *("sensor.socket:out", "sensor.eth0:out", "left.p1:out", "right.p0:in", "ecu.eth0:in", "vm1.tap:out"),
    *("vm1.tap:read", "vm1.eth0:in", "vm1.socket:in"),
]
VLAN = 5
FLOWS: dict[str, Any] = {
    "app": {"match": APPLICATION, "at": WAY},
    "tagged": {"match": f"vlan {VLAN} and {APPLICATION}", "at": ["left.p1:out", "right.p0:in"]},
    "plain": {"match": f"not vlan and {APPLICATION}", "at": ["left.p0:in", "right.p1:out"]},
}


def told_apart(access: str, trunk: str) -> str:
    """What makes a switch distinguish VLANs: untagged frames of its port `access` have a tag at the port `trunk`."""
    bridge = f"$(basename $(readlink /sys/class/net/{access}/master))"
    return "; ".join(
        (
            f"ip link set dev {bridge} type bridge vlan_filtering 1",
            f"bridge vlan add dev {access} vid {VLAN} pvid untagged",
            f"bridge vlan add dev {trunk} vid {VLAN}",
        )
    )


@pytest.fixture(scope="module")
def watched(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The cell of an application that sends from the board into its guest, where it is stopped for a while."""
    stopped = (
        f"(sleep {BEGUN_S + 0.3}; kill -STOP $server; sleep {STOPPED_MS / 1000}; kill -CONT $server) >/dev/null 2>&1 &"
    )
    commands = {
        "left": told_apart("p0", "p1"),
        "right": told_apart("p1", "p0"),
        "vm1": f"{SERVER}{stopped}",
        # The server's buffer is as small as the client's.
        "sensor": later(f"{CLIENT} --bitrate 400K --window 4K --blockcount {MESSAGES}"),
    }
    switch = {"kind": "netns", "on": "board1", "switch": ["p0", "p1"]}
    with board_place(tmp_path_factory.mktemp("watched"), cache) as place:
        path = place.board_scenario(
            # The board of irq-latency-board, with its guests' image: they have one snapshot.
            hosts={
                "board1": {"kind": "board", "time": "virtual", "cpus": 2, "memory": "1536MiB"},
                "sensor": {"kind": "netns", "on": "board1"},
                "left": switch,
                "right": switch,
                "ecu": {"kind": "netns", "on": "board1"},
            },
            links=[
                {"ends": ["sensor.eth0", "left.p0"]},
                {"ends": ["left.p1", "right.p0"]},
                {"ends": ["right.p1", "ecu.eth0"]},
            ],
            guests={"vm1": GUEST},
            # A CPU that polls takes the board's clock from the other.
            tuning={"ecu": {"halt_poll": 0}},
            watch_drops="always",
            streams={},
            flows=FLOWS,
            duration="1500ms",
            settle="500ms",
        )
        return accompanied(place, path, commands)


def packets_of(cell: Mapping[str, Any], flow: str) -> dict[str, int]:
    """How many packets each point of the flow has seen."""
    (found,) = (one for one in cell["flows"] if one["name"] == flow)
    return dict(found["packets"])


def between(cell: Mapping[str, Any], first: str, second: str, flow: str = "app") -> dict[str, Any]:
    """The stream from one point of the flow to another."""
    name = "-to-".join(point.replace(":", "-") for point in (first, second))
    return dict(cell["streams"][f"{flow}.{name}"])


def test_an_application_s_packets_have_their_hops_through_both_kernels_to_the_guest_s_socket(
    watched: dict[str, Any],
) -> None:
    seen = packets_of(watched, "app")
    sent, received = seen[WAY[0]], seen[WAY[-1]]
    assert sent >= MESSAGES
    assert seen == dict.fromkeys(WAY[:-1], sent) | {WAY[-1]: received}
    for first, second in pairwise(WAY):
        figures = between(watched, first, second)["metrics"]["transit"]
        assert figures["n"] == min(seen[first], seen[second])
        # On the board, and in the guest, there is one clock each.
        assert (figures["uncertainty_ns"] > 0) == ((first, second) == ("vm1.tap:read", "vm1.eth0:in"))
        assert figures["min"] >= -figures["uncertainty_ns"]
    chain = between(watched, WAY[0], WAY[-1])["metrics"]["transit"]["chain"]
    assert chain["stops"] == WAY
    assert (chain["packets"], chain["split"]) == (received, received)
    assert chain["clocks"] == [*[ONE_CLOCK] * 6, TWO_HOSTS, ONE_CLOCK]


def test_what_the_guest_s_socket_has_no_room_for_is_lost_there_and_for_that_reason(watched: dict[str, Any]) -> None:
    seen = packets_of(watched, "app")
    lost = seen[WAY[0]] - seen[WAY[-1]]
    # What came while the server was stopped, but for what its buffer holds.
    assert 0 < lost < STOPPED_MS
    for first, second in pairwise(WAY[:-1]):
        stream = between(watched, first, second)
        assert (stream["metrics"]["transit"]["lost"], stream["losses"]) == (0, None)
    last = between(watched, *WAY[-2:])
    assert last["metrics"]["transit"]["lost"] == last["losses"]["lost"] == lost
    assert last["losses"]["unplaced"] == 0
    full, *others = last["losses"]["places"]
    assert (full["host"], full["reason"]) == ("vm1", "SOCKET_RCVBUFF")
    # What has come once the client says that it was all goes unread with the socket.
    unread = [one["packets"] for one in others if one["function"] == "udp_destruct_common"]
    assert len(others) == len(unread) and full["packets"] + sum(unread) == lost
    assert sum(unread) <= 1


def test_packets_are_recognised_though_one_bridge_adds_a_tag_and_another_removes_it(watched: dict[str, Any]) -> None:
    sent = packets_of(watched, "app")[WAY[0]]
    for flow in ("tagged", "plain"):
        first, second = FLOWS[flow]["at"]
        assert packets_of(watched, flow) == {first: sent, second: sent}
        assert between(watched, first, second, flow)["metrics"]["transit"]["n"] == sent


# The flight recorder works in real time.


JUDGED = ["ecu.eth0:in", "vm1.eth0:in", "vm1.tap:read"]
"""Packets are judged by the board's kernel, from the first point to the last."""
LATE_MS, HELD_MS = 100, 300


def test_around_late_packets_events_of_the_board_s_kernel_and_of_its_guest_s_are_kept(place: BoardPlace) -> None:
    # Now and then the guest's tap holds what is to leave by it.
    held = f"""\
tap=$(basename $(dirname $(ls -d /sys/class/net/*/tun_flags)))
tc qdisc add dev $tap root netem delay 0ms
(
    for time in 1 2 3; do
        sleep 1
        tc qdisc change dev $tap root netem delay {HELD_MS}ms
        sleep {HELD_MS / 1000}
        tc qdisc change dev $tap root netem delay 0ms
    done
) >/dev/null 2>&1 &
"""
    path = place.board_scenario(
        hosts={
            "board1": {"kind": "board", "cpus": 2, "memory": "1536MiB"},
            "sensor": {"kind": "netns", "on": "board1"},
            "ecu": {"kind": "netns", "on": "board1"},
        },
        guests={"vm1": GUEST},
        streams={},
        flows={"seen": {"match": APPLICATION, "at": JUDGED, "trigger": f"latency > {LATE_MS}ms"}},
        duration="4s",
        settle="2s",
    )
    commands = {"vm1": SERVER, "ecu": held, "sensor": later(f"{CLIENT} --bitrate 80K --time 2")}
    cell = accompanied(place, path, commands)
    (folder,) = place.only_run().glob("cells/*/*")
    (number,) = (
        one["stream"]
        for one in read(folder / "cell.json")["streams"]
        if one["name"] == "seen.ecu.eth0-in-to-vm1.tap-read"
    )
    packets = pl.read_parquet(folder / "packets.parquet").filter(pl.col("stream") == number)
    late = packets.filter(pl.col("second_point_tai_ns") - pl.col("first_point_tai_ns") > LATE_MS * MS)
    assert 0 < late.height < packets.height
    (flow,) = cell["flows"]
    judged, other = flow["flights"]
    assert (judged["host"], judged["judged"]["late"], other["host"], other["judged"]) == (
        "ecu",
        late.height,
        "vm1",
        None,
    )
    windows = {}
    for host in ("ecu", "vm1"):
        kept = joined(read_recording(folder / f"flow-seen-{host}.kept.arrow", "kept").table)
        assert kept["whole"].all()
        windows[host] = kept.select("from_tai_ns", "to_tai_ns").rows()
        trace = read_recording(folder / f"flow-seen-{host}.trace.arrow", "trace").table
        inside = [trace.filter(pl.col("tai_ns").is_between(*window)) for window in windows[host]]
        # In each of them threads took turns, and nothing else is recorded.
        assert inside and all((events["event"] == SWITCH).any() for events in inside)
        assert sum(events.height for events in inside) == trace.height
    for begin, end in late.select(pl.col("first_point_tai_ns") - MS, pl.col("second_point_tai_ns") + MS).iter_rows():
        assert [1 for window in windows["ecu"] if window[0] <= begin and end <= window[1]] == [1]
    # By the guest's own clock: of what arrived there most of what was late did so in one of the windows.
    arrived = read_recording(folder / "flow-seen-vm1.watched.arrow", "watched").table["tai_ns"]
    assert sum(arrived.is_between(*window).sum() for window in windows["vm1"]) > late.height / 2
    named = {one["comm"] for window in judged["windows"] for what in ("ran", "waited") for one in window[what]}
    assert "CPU 0/KVM" in named
