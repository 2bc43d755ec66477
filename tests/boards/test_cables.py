"""Two boards with a cable between their cards: streams both ways, a guest behind one of them, one that is killed."""

from __future__ import annotations

import sys
from typing import Any

import polars as pl
import pytest

import latlab
from support.boards.place import BoardPlace, received
from support.command import cells_of
from support.programs import PROGRAMS

CABLED: dict[str, Any] = {
    "hosts": {"board1": {"kind": "board", "nics": 1}, "board2": {"kind": "board", "nics": 1}},
    "links": [{"ends": ["board1.eth0", "board2.eth0"]}],
}
THERE = {"talker": "board1", "listener": "board2", "period": "5ms", "size": "64B"}
BACK = THERE | {"talker": "board2", "listener": "board1"}
FRAMES = THERE | {"transport": "ethernet", "vlan": 5}
PACKETS = 200
YEAR_NS = 365 * 86_400 * 10**9
CARDS = ("0e:56:2b:47:00:00", "0e:56:2b:47:01:00")
"""The boards' cards, the same in every run: the last octets are the board's place among the hosts and the card's."""


# A board that is held up for 100 ms has its qdisc (CoDel) drop a packet.
@pytest.mark.alone
def test_streams_go_both_ways_through_a_cable_between_two_boards(place: BoardPlace) -> None:
    before = place.trace()
    # Frames that are written with a tag pass the VLAN interface by.
    streams = {
        "there": THERE | {"via": "board1.eth0"},
        "back": BACK | {"via": "board2.eth0"},
        "frames": FRAMES | {"via": "board1.eth0"},
        "tagged": THERE | {"via": "board1.eth0.5", "priority": 7},
    }
    links = [CABLED["links"][0] | {"vlans": {5: {}}}]
    ended = place.latlab("run", place.board_scenario(**CABLED | {"links": links}, streams=streams))
    assert ended.status == 0, ended.err + ended.out
    (cell,) = cells_of(place.only_run()).values()
    assert received(cell) == [PACKETS] * 4
    assert cell["label"] == "functional only"
    assert place.trace() == before
    actual = {step["title"]: step["actual"] for step in cell["steps"]}
    for end, mac, address in (("board1.eth0", CARDS[0], "10.78.0.1/24"), ("board2.eth0", CARDS[1], "10.78.0.2/24")):
        assert actual[f"{end} is the card at its cable"] == mac
        assert actual[f"give {end} its queues"] == "1"
        assert actual[f"give {end} its address"] == address
        assert actual[f"wait until {end} is up"] == actual[f"wait until {end}.5 is up"] == "UP"
        assert actual[f"give {end}.5 its address"] == address.replace("78", "80")
    (clock,) = cell["clocks"]
    assert clock["source"] == "exchange"
    packets = latlab.load(place.only_run()).packets("all")
    assert packets.height == 4 * PACKETS
    for stamp in ("submit_tai_ns", "tx_sched_tai_ns", "tx_soft_tai_ns", "rx_soft_tai_ns", "rx_user_tai_ns"):
        assert packets[stamp].null_count() == 0, stamp
    for stamp in ("tx_hard_tai_ns", "rx_hard_tai_ns"):
        assert packets[stamp].null_count() == packets.height, stamp
    # However far apart the clocks were set, nothing arrives before it left.
    assert packets.select(
        (pl.col("rx_soft_tai_ns") + pl.col("clock_bound_ns") >= pl.col("tx_sched_tai_ns")).all()
    ).item()


def test_a_killed_board_fails_its_cell_and_leaves_the_board_at_the_cables_other_end_for_the_next(
    place: BoardPlace,
) -> None:
    before = place.trace()
    path = place.board_scenario(**CABLED, streams={"there": THERE}, duration="3s", repeat=2)
    lab = place.start("run", path, "--verbose")
    _, second = place.killed(lab, "board2")
    assert second["status"] == "ok"
    assert received(second) == [3 * PACKETS]
    assert place.trace() == before


# With half of the CPUs the guest is stopped for seconds, and then nothing bounds its clock.
@pytest.mark.long
@pytest.mark.alone
def test_a_guest_nested_in_one_board_is_reached_from_the_other_through_vhost_under_a_load(place: BoardPlace) -> None:
    before = place.trace()
    hosts = {"board1": {"kind": "board", "nics": 1}, "board2": {"kind": "board", "nics": 1}}
    guest = {"host": "board2", "uplink": "eth0", "bridge": "macvtap", "acceleration": "kvm", "vhost": "on"}
    stream = {"talker": "board1", "listener": "vm1", "period": "20ms", "size": "64B"}
    streams = {
        "in": stream,
        "out": stream | {"talker": "vm1", "listener": "board1"},
        "host": stream | {"listener": "board2"},
    }
    load = {"kind": "flood", "from": "board1", "to": "vm1", "rate": "100kbit/s", "size": "500B"}
    parts = CABLED | {"hosts": hosts, "guests": {"vm1": guest}, "streams": streams, "loads": {"bulk": load}}
    path = place.board_scenario(**parts)
    ended = place.start("run", path).ended()
    assert ended.status == 0, ended.err + ended.out
    (cell,) = cells_of(place.only_run()).values()
    assert sorted(received(cell)) == [50] * 3
    (bridge,) = cell["bridges"]
    assert (bridge["uplink"], "vhost-net" in bridge["detail"]) == ("eth0", True)
    assert {(clock["from"], clock["to"], clock["source"]) for clock in cell["clocks"]} == {
        ("board1", "board2", "exchange"),
        ("board1", "vm1", "exchange"),
    }
    assert place.trace() == before


def test_a_cable_to_a_board_in_virtual_time_is_refused_before_anything_starts(place: BoardPlace) -> None:
    hosts = CABLED["hosts"] | {"board2": {"kind": "board", "nics": 1, "time": "virtual"}}
    ended = place.latlab("run", place.board_scenario(**CABLED | {"hosts": hosts}, streams={"there": THERE}))
    assert ended.status == 2
    assert "hosts.board2.time: a board in virtual time excludes other machines: board1 is not on board2" in ended.err
    assert not place.runs.exists()


def test_more_queues_than_a_boards_card_has_make_a_cell_unavailable(place: BoardPlace) -> None:
    links = [CABLED["links"][0] | {"queues": 9}]
    ended = place.latlab("run", place.board_scenario(**CABLED | {"links": links}, streams={"there": THERE}))
    assert ended.status == 3
    (cell,) = cells_of(place.only_run()).values()
    assert (cell["status"], cell["reason"]["where"]) == ("unavailable", "links[0].queues")
    assert "9 queues" in cell["reason"]["what"]


@pytest.mark.alone
def test_a_board_whose_clock_stands_at_1970_is_measured_all_the_same(place: BoardPlace) -> None:
    by = (sys.executable, str(PROGRAMS / "early_lab.py"))
    path = place.board_scenario(**CABLED, streams={"there": THERE, "back": BACK})
    ended = place.start("run", path, before=by).ended()
    assert ended.status == 0, ended.err + ended.out
    (cell,) = cells_of(place.only_run()).values()
    assert received(cell) == [PACKETS] * 2
    (clock,) = cell["clocks"]
    assert all(abs(window["lower_ns"]) > YEAR_NS for window in clock["windows"]), "board2 is decades behind"
    packets = latlab.load(place.only_run()).packets("all")
    assert packets.height == 2 * PACKETS
    assert packets.select(
        (pl.col("rx_soft_tai_ns") + pl.col("clock_bound_ns") >= pl.col("tx_sched_tai_ns")).all()
    ).item()
