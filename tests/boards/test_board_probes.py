"""Probes between namespaces of an emulated board: round trips, over DDS too, and timers, to the nanosecond."""

from __future__ import annotations

from support.boards.place import BoardPlace
from support.command import cells_of, read

ASKED = 50
EACH = {"from": "sensor", "to": "ecu", "size": "64B", "period": "10ms"}
PROBES = {
    "udp": EACH | {"probe": "ping"},
    "dds": EACH | {"probe": "dds", "offset": "3ms"},
    "tcp": EACH | {"probe": "ping", "transport": "tcp", "offset": "6ms"},
    "tick": {"probe": "timer", "on": "ecu", "period": "10ms", "offset": "8ms"},
}
"""Far enough apart for the one CPU to be done with each before the next."""
LONGEST_NS = 1_000_000
"""Of a round trip: a hundred thousand instructions, and nothing else is on that CPU for milliseconds."""


def test_probes_on_a_board_in_virtual_time_repeat_to_the_nanosecond(place: BoardPlace) -> None:
    before = place.trace()
    hosts = {
        "board1": {"kind": "board", "time": "virtual"},
        "sensor": {"kind": "netns", "on": "board1"},
        "ecu": {"kind": "netns", "on": "board1"},
    }
    path = place.board_scenario(hosts=hosts, streams={}, probes=PROBES, duration="500ms")
    ended = place.latlab("run", path, "--check-repeat")
    assert ended.status == 0, ended.err + ended.out
    assert place.trace() == before
    result = read(place.only_run() / "result.json")
    assert len(result["cells"]) == len(cells_of(place.only_run())) == 2
    for cell in result["cells"]:
        assert cell["status"] == "ok" and cell["label"] == "virtual time"
        for name in ("udp", "dds", "tcp"):
            metric = cell["streams"][name]["metrics"]["round_trip"]
            assert (metric["n"], metric["max"] < LONGEST_NS) == (ASKED, True), (name, metric)
    (alike,) = result["repeats"]
    # Questions and answers of three probes, and a timer's instants.
    assert (alike["packets"], alike["only_in_one"], alike["repetitions"]) == (7 * ASKED, 0, 2)
    assert alike["largest_ns"] == 0, alike
