"""A switch between namespaces: every packet passes it, tags as they are, and the report names it."""

from __future__ import annotations

import pytest

from support.command import Place, cells_of

pytestmark = pytest.mark.real

STREAM = {"talker": "sensor", "listener": "ecu", "period": "2ms", "size": "64B"}
STREAMS = {
    "back": STREAM | {"talker": "ecu", "listener": "sensor", "offset": "300us"},
    "frames": STREAM | {"transport": "ethernet", "vlan": 5, "pcp": 7, "offset": "600us"},
    "plain": STREAM,
}
PACKETS = 500


def test_all_that_is_sent_passes_the_switch_and_the_machine_is_as_it_was(place: Place) -> None:
    before = place.trace()
    path = place.scenario(
        hosts={
            **{name: {"kind": "netns"} for name in ("sensor", "ecu", "third")},
            "switch": {"kind": "netns", "switch": ["p0", "p1", "p2"]},
        },
        links=[
            {"ends": ["sensor.eth0", "switch.p0"]},
            {"ends": ["switch.p1", "ecu.eth0"]},
            {"ends": ["third.eth0", "switch.p2"]},
        ],
        streams=STREAMS,
        loads={"cross": {"kind": "flood", "from": "third", "to": "ecu", "rate": "10Mbit/s"}},
        duration=f"{2 * PACKETS}ms",
        warmup="0ns",
        matrix={"loads": ["none", "cross"]},
    )
    ended = place.latlab("run", path, "--json")
    assert ended.status == 0, ended.err + ended.out
    assert place.trace() == before
    for measured in ended.document["cells"]:
        counts = {name: stream["counts"]["received"] for name, stream in measured["streams"].items()}
        assert counts == dict.fromkeys(STREAMS, PACKETS)
    for cell in cells_of(place.only_run()).values():
        assert cell["bridges"] == [
            {
                "kind": "switch",
                "title": "switch (kernel bridge)",
                "host": "switch",
                "uplink": "p0, p1, p2",
                "guests": [],
                "detail": "on the path: its delay is part of every latency",
            }
        ]
        again = {one["title"]: one["actual"] for one in cell["rechecks"]}
        assert [again[f"wait until switch.p{number} forwards"] for number in range(3)] == ["forwarding"] * 3
    assert "switch (kernel bridge)" in (place.only_run() / "report.html").read_text()
