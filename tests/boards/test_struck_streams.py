"""What happens to gates and streams while they are measured: a clock is stepped, an interface goes down."""

from __future__ import annotations

import sys
from typing import Any

from board_place import STRUCK_LAB, BoardPlace
from latlab_command import Ended, cells_of, read

HOSTS: dict[str, Any] = {
    "board1": {"kind": "board", "time": "virtual"},
    "sensor": {"kind": "netns", "on": "board1"},
    "ecu": {"kind": "netns", "on": "board1"},
}
GATES = {"kind": "taprio", "mode": "software", "map": {7: 0}, "rest": 1, "gates": [{"open": [0, 1], "for": "500us"}]}
PACKETS = 1000


def struck(place: BoardPlace, command: str) -> tuple[Ended, dict[str, Any], dict[str, Any]]:
    """What came of a run whose board had the command done in the midst of its streams; its cell, and that as judged."""
    before = place.trace()
    path = place.board_scenario(
        hosts=HOSTS,
        links=[{"ends": ["sensor.eth0", "ecu.eth0"], "queues": 4}],
        streams={"control": {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B", "priority": 7}},
        shapers={"sensor.eth0": GATES},
    )
    ended = place.latlab("run", path, before=(sys.executable, str(STRUCK_LAB), f"sleep 0.5; {command}"))
    assert place.trace() == before
    folder = place.only_run()
    (cell,) = cells_of(folder).values()
    (judged,) = read(folder / "result.json")["cells"]
    return ended, cell, judged | {"reasons": {one["check"]: one for one in read(folder / "result.json")["reasons"]}}


def test_a_clock_that_is_stepped_is_told_and_nothing_measured_across_it_is_trusted(place: BoardPlace) -> None:
    ended, cell, judged = struck(place, 'date -s "@$(($(date +%s) + 100))"')
    assert (ended.status, cell["status"], judged["verdict"]) == (4, "ok", "untrusted")
    told = judged["reasons"]["clocks were not stepped"]
    assert told["actual"].startswith("a step of 9") or told["actual"].startswith("a step of 10")


def test_an_interface_that_goes_down_loses_what_is_sent_meanwhile_and_comes_back_with_its_gates(
    place: BoardPlace,
) -> None:
    ns = "$(ip netns list | grep -o 'latlab-[^ ]*-sensor')"
    down = f"ip -n {ns} link set dev eth0 down; sleep 0.1; ip -n {ns} link set dev eth0 up"
    _, cell, judged = struck(place, down)
    assert cell["status"] == "ok"
    counts = judged["streams"]["control"]["counts"]
    missing = counts["send_errors"] + counts["lost"]
    assert counts["received"] + missing == PACKETS
    assert missing >= 100
    assert "every send succeeded" in judged["reasons"] or counts["lost"] >= 100
    assert [one["ok"] for one in cell["rechecks"] if "taprio" in one["title"]] == [True]
