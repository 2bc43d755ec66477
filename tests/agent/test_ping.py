"""Ping and pong: every question is answered once, and both legs of its way are recorded on both sides."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from support.agent.bed import Bed
from support.agent.rounds import DOWN, NO_STAMPS, UP, Pair, Trips, assert_legs_follow, assert_whole, trip
from support.agent.streams import MS

pytestmark = pytest.mark.real

KINDS: dict[str, dict[str, Any]] = {
    "udp": {"kind": "udp"},
    "tcp": {"kind": "tcp"},
    "ethernet": {"kind": "ethernet"},
    "vlan": {"kind": "ethernet", "vlan": 5, "pcp": 6},
}
LOOPS: dict[str, dict[str, Any]] = {"open": {}, "closed": {"count": None}}
MODES: dict[str, dict[str, Any]] = {"spin": {"mode": "spin"}, "busy-poll": {"mode": "busy-poll", "busy_poll_us": 50}}
KERNEL = tuple(int(part) for part in os.uname().release.split(".")[:2])
KEYS = [
    "payload",
    pytest.param("id", marks=pytest.mark.skipif(KERNEL < (6, 13), reason="SCM_TS_OPT_ID came with Linux 6.13")),
]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_question_is_answered_and_recorded_on_both_sides(bed: Bed, tmp_path: Path, kind: str, loop: str) -> None:
    tripped = trip(bed, tmp_path, Trips(**KINDS[kind], **LOOPS[loop]))
    assert_whole(tripped, stamped=kind != "tcp")
    assert_legs_follow(tripped, kernel=kind != "tcp")
    if loop == "open":
        launches = tripped.table("ping.sent")["launch_tai_ns"].to_list()
        assert launches == [tripped.start_tai_ns + n * MS for n in range(200)]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kind", ["udp", "tcp", "ethernet"])
@pytest.mark.parametrize("mode", MODES)
def test_however_both_sides_wait_every_question_is_answered(
    bed: Bed, tmp_path: Path, mode: str, kind: str, loop: str
) -> None:
    tripped = trip(bed, tmp_path, Trips(**KINDS[kind], **LOOPS[loop]), ping=MODES[mode], pong=MODES[mode])
    assert_whole(tripped, stamped=kind != "tcp")
    assert_legs_follow(tripped, kernel=kind != "tcp")


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kind", ["udp", "ethernet"])
def test_without_timestamps_the_rest_is_the_same(bed: Bed, tmp_path: Path, kind: str, loop: str) -> None:
    bare = {"stamps": NO_STAMPS}
    pair = Pair(bed, tmp_path, Trips(**KINDS[kind], **LOOPS[loop]), ping=bare, pong=bare)
    assert all("stamp_key" not in agent.events[0] for agent in (pair.ping, pair.pong))
    pair.begin()
    tripped = pair.end()
    assert_whole(tripped, stamped=False)
    assert_legs_follow(tripped, kernel=True)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("kind", ["udp", "vlan"])
def test_timestamps_find_their_packets_by_either_key(bed: Bed, tmp_path: Path, kind: str, key: str) -> None:
    keyed = {"stamps": {"sched": True, "software": True, "hardware": False, "key": key}}
    pair = Pair(bed, tmp_path, Trips(**KINDS[kind]), ping=keyed, pong=keyed)
    assert [agent.events[0]["stamp_key"] for agent in (pair.ping, pair.pong)] == [key, key]
    pair.begin()
    assert_whole(pair.end(), stamped=True)


SIZES = [
    *[("udp", size) for size in (40, 1472, 1473, 9000, 65507)],
    *[("tcp", size) for size in (40, 1448, 1449, 65507)],
    *[("ethernet", size) for size in (40, 1500)],
]


@pytest.mark.parametrize(("kind", "size"), SIZES)
def test_probes_of_every_size_go_there_and_back(bed: Bed, tmp_path: Path, kind: str, size: int) -> None:
    tripped = trip(bed, tmp_path, Trips(**KINDS[kind], count=50, period_ns=2 * MS, size=size))
    assert tripped.ping["sent"] == 50
    assert_whole(tripped, stamped=kind != "tcp")
    assert_legs_follow(tripped, kernel=kind != "tcp")


def test_a_frame_larger_than_the_mtu_is_refused_by_the_kernel_and_each_refusal_recorded(
    bed: Bed, tmp_path: Path
) -> None:
    tripped = trip(bed, tmp_path, Trips(kind="ethernet", size=1501, count=20, timeout_ns=50 * MS))
    assert (tripped.ping["sent"], tripped.ping["send_errors"], tripped.ping["unanswered"]) == (0, 20, 0)
    assert set(tripped.table("ping.sent")["error"]) == {90}  # EMSGSIZE
    assert tripped.pong["received"] == 0


def test_both_say_what_they_are_and_how_far(bed: Bed, tmp_path: Path) -> None:
    pair = Pair(bed, tmp_path, Trips(count=2500))
    for agent in (pair.ping, pair.pong):
        ready = agent.events[0]
        assert ready["verb"] == agent.verb
        assert ready["realtime"]["policy"] == "SCHED_OTHER"
    assert pair.pong.events[0]["local"] == ["10.78.0.2:5557"]
    assert pair.ping.events[0]["local"][0].startswith("10.78.0.1:")
    pair.begin()
    for agent in (pair.ping, pair.pong):
        streams = agent.until("progress")["streams"]
        assert [entry["stream"] for entry in streams] == [UP, DOWN]
    assert_whole(pair.end(), stamped=True)
    assert all(event["event"] != "complete" for event in pair.ping.events + pair.pong.events)
