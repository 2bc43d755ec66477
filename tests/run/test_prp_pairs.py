"""PRP pairs: the same frames by two LANs, of which the first copy counts, and one LAN may be cut."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from latlab.run.events import Event
from latlab.scenario import parse
from support.run import BASE, Bench, namespace

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("machine")]

GROUP = "01:0c:cd:04:00:01"
LANS: dict[str, Any] = {
    "hosts": {
        "mu": {"kind": "netns"},
        "lan-b": {"kind": "netns", "switch": ["p0", "p1"]},
        "ied": {"kind": "netns"},
    },
    "links": [{"ends": ["mu.eth0", "ied.eth0"]}, {"ends": ["mu.eth1", "lan-b.p0"]}, {"ends": ["lan-b.p1", "ied.eth1"]}],
}
"""LAN A is a cable, LAN B has a switch."""
FIRST: dict[str, Any] = {
    "talker": "mu",
    "listener": "ied",
    "via": "mu.eth0",
    "payload": "iec61850-sv",
    "period": "5ms",
    "size": "64B",
    "group": GROUP,
}
STREAMS = {"sv": FIRST, "sv-b": FIRST | {"via": "mu.eth1", "prp": "sv"}}
TIMES = {"duration": "2s", "warmup": "0ns", "settle": "1s"}
COUNT = 400
WATCHED = {"match": "ether proto sv", "at": ["mu.eth0:out", "mu.eth1:out", "ied.eth0:in", "ied.eth1:in"]}


@pytest.fixture
def measure(tmp_path: Path, journals: Path) -> Bench:
    """Runs the small scenario."""
    return Bench(tmp_path, journals)


def figures(cell: dict[str, Any], stream: str, metric: str) -> dict[str, Any]:
    return dict(cell["streams"][stream]["metrics"][metric])


def test_of_a_pair_with_both_lans_the_first_copy_of_each_frame_counts(measure: Bench) -> None:
    cell, folder, _ = measure.measured(**LANS, **TIMES, streams=STREAMS)
    assert cell["status"] == "ok", cell.get("reason")
    assert list(cell["streams"]) == ["sv", "sv-b", "sv.pair"]
    for name in cell["streams"]:
        found = figures(cell, name, "latency_user")
        assert (found["n"], found["lost"], found["missing"], found["uncertainty_ns"]) == (COUNT, 0, 0, 0)
        assert figures(cell, name, "path")["n"] == COUNT
    rows = folder.packets().sort("sequence")
    a, b, pair = (rows.filter(pl.col("stream") == number)["rx_user_tai_ns"] for number in (1, 2, 3))
    assert pair.to_list() == [min(both) for both in zip(a, b, strict=True)]
    arrivals = rows.filter(pl.col("stream") == 3).sort("rx_user_tai_ns")["arrival"]
    assert arrivals.to_list() == list(range(COUNT))


def test_with_one_lan_cut_its_frames_are_lost_and_none_of_the_pair(measure: Bench) -> None:
    cutting: list[subprocess.Popen[bytes]] = []

    def cut(event: Event) -> None:
        if switch := namespace(event, "lan-b"):
            command = f"sleep 1.5; ip -n {switch} link set p1 down"
            cutting.append(subprocess.Popen(("sh", "-c", command)))

    cell, _, _ = measure.measured(cut, **LANS, **TIMES, streams=STREAMS, flows={"seen": WATCHED})
    assert [one.wait() for one in cutting] == [0]
    assert cell["status"] == "ok"
    lost = {name: figures(cell, name, "latency_user")["lost"] for name in ("sv", "sv-b", "sv.pair")}
    assert lost == {"sv": 0, "sv-b": lost["sv-b"], "sv.pair": 0}
    assert 0 < lost["sv-b"] <= COUNT
    # A drop is of either copy.
    assert [cell["streams"][name]["losses"]["places"] for name in lost] == [[], [], []]
    # Who only watches sees the same.
    end = "seen.mu.prp-out-to-ied.prp-in"
    assert (figures(cell, end, "transit")["n"], figures(cell, end, "transit")["lost"]) == (COUNT, 0)
    assert figures(cell, "seen.mu.eth0-out-to-ied.eth0-in", "transit")["lost"] == 0
    assert figures(cell, "seen.mu.eth1-out-to-ied.eth1-in", "transit")["lost"] == lost["sv-b"]
    assert not [name for name in cell["streams"] if "eth0-out-to-ied.eth1" in name or "eth1-out-to-ied.eth0" in name]
    both = COUNT - lost["sv-b"]
    (flow,) = cell["flows"]
    (note,) = (one for one in flow["notes"] if one.startswith("ied.prp:in"))
    assert f"of {COUNT} frames {both} passed in both copies, {lost['sv-b']} by LAN A only and 0 by LAN B only" in note


@pytest.mark.parametrize(
    ("change", "where", "what"),
    [
        ({"prp": "none"}, "prp", "unknown stream 'none'"),
        ({"prp": "sv-b"}, "prp", "sv-b has a copy already, or is one"),
        ({"period": "4ms"}, "period", "a copy of sv has the same period"),
        ({"via": "mu.eth0"}, "via", "a copy goes by another link than sv"),
    ],
)
def test_what_is_no_copy_is_one_finding(change: dict[str, Any], where: str, what: str) -> None:
    streams = STREAMS | {"sv-b": STREAMS["sv-b"] | change}
    (found,) = parse(BASE | LANS | TIMES | {"streams": streams}).findings
    assert (found.path, found.what) == (("streams", "sv-b", where), what)


def test_the_frames_of_a_pair_go_to_a_group_and_a_limit_may_be_of_the_pair() -> None:
    bare = {name: {key: one for key, one in stream.items() if key != "group"} for name, stream in STREAMS.items()}
    (found,) = parse(BASE | LANS | TIMES | {"streams": bare}).findings
    assert found.what == "the frames of both LANs go to one address"
    limits = {"sv.pair.latency_user.max": "1ms", "sv-b.pair.latency_user.max": "1ms"}
    (found,) = parse(BASE | LANS | TIMES | {"streams": STREAMS, "accept": limits}).findings
    assert found.what == "sv-b is a stream: it has no leg pair"
