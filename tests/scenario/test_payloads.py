"""Streams of IEC 61850: what a scenario may say of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from latlab.scenario import Loaded

With = Callable[..., Loaded]
Said = Callable[[dict[str, Any]], list[str]]

C = "streams.control."
SV = {"loads": None, C + "payload": "iec61850-sv", C + "size": "64B"}
GOOSE = {"loads": None, C + "payload": "iec61850-goose", C + "size": "64B"}


@pytest.mark.parametrize(("changes", "ethertype"), [(SV, 0x88BA), (GOOSE, 0x88B8), ({"loads": None}, 0x88B5)])
def test_a_payload_has_frames_with_its_ethertype(with_: With, changes: dict[str, Any], ethertype: int) -> None:
    stream = with_(changes).scenario.streams["control"]
    assert stream.ethertype == ethertype
    assert stream.transport == ("udp" if ethertype == 0x88B5 else "ethernet")


def test_frames_go_to_a_group_that_a_stream_names(with_: With) -> None:
    stream = with_({"loads": None, C + "group": "01:0C:CD:04:00:01"}).scenario.streams["control"]
    assert (stream.transport, stream.group) == ("ethernet", "01:0c:cd:04:00:01")


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({C + "group": "02:0c:cd:04:00:01"}, "'02:0c:cd:04:00:01' is not a group's address"),
        ({C + "group": "ff:ff:ff:ff:ff:ff"}, "'ff:ff:ff:ff:ff:ff' is not a group's address"),
        ({C + "group": "224.0.0.1"}, "'224.0.0.1' is not a MAC address"),
        ({C + "group": "01:0c:cd:04:00:01", C + "transport": "udp"}, "a UDP socket writes no MAC address"),
        (SV | {C + "size": "65B"}, "iec61850-sv has no room for 65B"),
        (GOOSE | {C + "size": "1001B"}, "iec61850-goose has no room for 1001B"),
        (SV | {C + "transport": "udp"}, "iec61850-sv is in frames, not in UDP"),
        (SV | {C + "ethertype": 0x88B5}, "iec61850-sv has another EtherType"),
    ],
)
def test_what_a_payload_has_no_room_for_is_one_finding(said: Said, changes: dict[str, Any], finding: str) -> None:
    assert [one for one in said(changes) if finding in one]


def pair(size: str, mtu_a: int, mtu_b: int, **more: Any) -> dict[str, Any]:
    """A PRP pair, of which control goes by LAN A."""
    first = {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": size, "group": "01:0c:cd:04:00:01", **more}
    return {
        "loads": None,
        "links": [{"ends": [f"sensor.eth{n}", f"ecu.eth{n}"], "mtu": mtu} for n, mtu in ((0, mtu_a), (1, mtu_b))],
        "streams": {
            "control": first | {"via": "sensor.eth0"},
            "copy": first | {"via": "sensor.eth1", "prp": "control"},
        },
    }


@pytest.mark.parametrize(
    ("values", "findings"),
    [
        (pair("1494B", 1500, 1500), []),
        (pair("1500B", 1500, 1600), ["streams.control.size: 1500B do not fit into a frame; expected 1494B or less"]),
        (pair("1500B", 1600, 1500), ["streams.copy.size: 1500B do not fit into a frame; expected 1494B or less"]),
        (pair("863B", 1000, 1600, payload="iec61850-goose"), ["streams.control.size: 863B do not fit into a frame"]),
        (pair("862B", 1000, 1600, payload="iec61850-goose"), []),
    ],
)
def test_frames_of_both_lans_have_room_for_the_trailer(said: Said, values: dict[str, Any], findings: list[str]) -> None:
    found = said(values)
    assert len(found) == len(findings)
    assert all(one.startswith(finding) for one, finding in zip(found, findings, strict=True))
