"""PTP started by the lab on an emulated board's cards: locked, recorded, and true by readings it has no part in."""

from __future__ import annotations

from typing import Any

from support.boards.place import BoardPlace, received
from support.command import cells_of, read

HOSTS: dict[str, Any] = {
    "board1": {"kind": "board", "time": "virtual", "nics": 2, "memory": "1536MiB"},
    "sensor": {"kind": "netns", "on": "board1", "cards": ["eth0"]},
    "ecu": {"kind": "netns", "on": "board1", "cards": ["eth1"]},
}
GATES = {
    "kind": "taprio",
    "mode": "software",
    "map": {7: 0, 5: 1},
    "rest": 1,
    "gates": [{"open": [0, 1], "for": "101us"}, {"open": [1], "for": "402us"}],
}
STREAM = {"talker": "sensor", "listener": "ecu", "period": "1006us", "size": "64B", "priority": 7}
NEAR_NS = 150
"""Both cards count the same instructions. An 82576's frequency has steps of 119 ppb, and Syncs are 1 s apart."""


def test_cards_are_kept_alike_through_gates_and_what_ptp4l_says_is_so(place: BoardPlace) -> None:
    before = place.trace()
    path = place.board_scenario(
        hosts=HOSTS,
        links=[{"ends": ["sensor.eth0", "ecu.eth1"], "queues": 2}],
        clock={"ptp": {"ports": {"sensor.eth0": "master", "ecu.eth1": "slave"}, "priority": 5, "profile": "default"}},
        shapers={"sensor.eth0": GATES},
        streams={"control": STREAM},
        duration="2s",
    )
    ended = place.latlab("run", path)
    assert ended.status == 0, ended.err + ended.out
    assert place.trace() == before
    folder = place.only_run()
    (cell,) = cells_of(folder).values()
    assert received(cell) == [1989]
    steps = [step["title"] for step in cell["steps"]]
    order = [
        "set board1's TAI offset",
        "the clock of sensor.eth0 follows board1's clock",
        "run ptp4l at sensor.eth0, as master",
        "run ptp4l at ecu.eth1, as slave",
        "taprio shapes sensor.eth0",
        "ecu.eth1 is locked before streams start",
    ]
    assert [title for title in steps if title in order] == order

    document = read(folder / "result.json")
    assert document["verdict"] == "trusted", document["reasons"]
    ports = {port["port"]: port for port in document["cells"][0]["ptp"]}
    master, slave = ports["sensor.eth0"], ports["ecu.eth1"]
    assert (master["states"].keys(), slave["states"].keys()) == ({"MASTER"}, {"SLAVE"})
    assert (slave["unanswered"], slave["unlocked"], master["unlocked"]) == (0, [], [])
    assert max(abs(slave["offset_ns"]["min"]), abs(slave["offset_ns"]["max"])) <= NEAR_NS
    # A frame takes no time in the hub that is the cable, and 0 is what ptp4l says of a delay that it does not know.
    assert slave["path_delay_ns"] is None or abs(slave["path_delay_ns"]["p50"]) <= NEAR_NS
    # How each card's clock is turned was read every time.
    assert all(port["frequency_ppb"]["n"] == port["readings"] > 0 for port in (master, slave))
    # Our own readings of both cards, by the system's clock, know better than to a microsecond, and agree.
    checked = slave["checked"]
    assert checked["n"] == slave["readings"] >= 6
    assert checked["half_p50_ns"] < 1_000
    assert (checked["outside_max_ns"], checked["apart"]) == (0, 0)
    cards = {clock["from"]: clock for clock in cell["clocks"] if clock["source"] == "card"}
    assert cards.keys() == {"sensor.eth0", "ecu.eth1"}
    for clock in cards.values():
        assert -1_000 < clock["lower_ns"] <= clock["upper_ns"] < 1_000
