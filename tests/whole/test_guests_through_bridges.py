"""A guest behind each virtual bridge, both ways at once: every packet counted, stamped and in order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import median
from typing import Any

import polars as pl
import pytest

from support.command import Place, read
from support.guests.runs import TWO_HOSTS, GuestRun, assert_whole, guest_run, image_cache
from support.machine import private_network

pytestmark = [pytest.mark.real, pytest.mark.alone]

TITLES = {
    "user": "user NAT",
    "tap": "tap + kernel bridge",
    "macvtap": "macvtap",
    "xdp": "tap + XDP",
    "ovs": "Open vSwitch",
    "ovs-afxdp": "Open vSwitch + AF_XDP",
}
CARRIERS = {"ovs-afxdp": "packets carried by Open vSwitch (vhost-user)"}
MAKINGS = {"xdp": "eth0 native", "ovs": "datapath", "ovs-afxdp": "; eth0 native; "}
"""What a bridge of several makings says of itself."""
STREAMS = ["down", "up"]
PACKETS = 300
SCENARIO: dict[str, Any] = {
    "name": "through-bridges",
    **TWO_HOSTS,
    "guests": {"vm1": {"host": "ecu", "uplink": "eth0", "vhost": "off", "acceleration": "tcg"}},
    "streams": {
        "down": {"talker": "sensor", "listener": "vm1", "period": "5ms", "size": "64B", "priority": 7},
        "up": {"talker": "vm1", "listener": "sensor", "period": "5ms", "offset": "2500us", "size": "64B"},
    },
    "duration": f"{5 * PACKETS}ms",
    "warmup": "100ms",
    "matrix": {"guests.vm1.bridge": [*TITLES, "vfio"]},
}


@pytest.fixture(scope="module")
def run(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestRun]:
    """The matrix of bridges, run once."""
    cache = image_cache(pytestconfig)
    with private_network(), Place(tmp_path_factory.mktemp("bridges")) as place:
        before = place.trace()
        found = guest_run(place, cache, SCENARIO)
        assert place.trace() == before, found
        yield found


def cell_of(run: GuestRun, bridge: str) -> dict[str, Any]:
    """The cell.json of a bridge's cell."""
    cell: dict[str, Any] = run.cells[f"{slug_of(bridge)}/r1"]
    return cell


def slug_of(bridge: str) -> str:
    """The name of a bridge's cell."""
    return f"guests.vm1.bridge={bridge}"


def test_every_bridge_is_measured_but_the_one_this_machine_has_no_card_for(run: GuestRun) -> None:
    states = {bridge: cell_of(run, bridge)["status"] for bridge in (*TITLES, "vfio")}
    assert states == dict.fromkeys(TITLES, "ok") | {"vfio": "unavailable"}, run
    assert run.ended.status == 0, run
    reason = cell_of(run, "vfio")["reason"]
    assert reason["where"] == "guests.vm1.bridge: vfio"
    assert reason["what"] and reason["remedy"]
    assert not (run.folder / "cells" / slug_of("vfio") / "r1" / "packets.parquet").exists()


@pytest.mark.parametrize("bridge", TITLES)
def test_idle_nothing_is_lost_doubled_or_reordered_and_every_timestamp_is_there(run: GuestRun, bridge: str) -> None:
    assert_whole(run, slug_of(bridge), STREAMS)
    for name in STREAMS:
        packets = run.packets(slug_of(bridge), name)
        assert packets.height == PACKETS
        assert packets["tx_hard_tai_ns"].null_count() == packets["rx_hard_tai_ns"].null_count() == PACKETS


def test_half_of_all_packets_and_more_have_their_clocks_bounded_to_a_microsecond(run: GuestRun) -> None:
    bounds = pl.concat([run.packets(slug_of(bridge))["clock_bound_ns"] for bridge in TITLES])
    assert bounds.null_count() == 0 and median(bounds) <= 1_000, bounds.describe()


@pytest.mark.parametrize("bridge", TITLES)
def test_the_cell_says_which_bridge_it_was_and_what_carried_its_packets(run: GuestRun, bridge: str) -> None:
    (found,) = cell_of(run, bridge)["bridges"]
    assert (found["kind"], found["title"], found["host"]) == (bridge, TITLES[bridge], "ecu")
    assert (found["uplink"], found["guests"]) == ("eth0", ["vm1"])
    assert found["detail"].endswith(CARRIERS.get(bridge, "packets carried by QEMU"))
    assert MAKINGS.get(bridge, "") in found["detail"]


def test_the_streams_packets_were_redirected_by_the_xdp_bridge_and_none_were_dropped(run: GuestRun) -> None:
    (found,) = cell_of(run, "xdp")["bridges"]
    counts = re.search(r"frames redirected (\d+), passed \d+, dropped 0;", found["detail"])
    assert counts and int(counts[1]) >= len(STREAMS) * PACKETS, found["detail"]
    reasons = read(run.folder / "result.json")["reasons"]
    assert reasons and not [reason for reason in reasons if "xdp" in reason["id"]]


@pytest.mark.parametrize("bridge", TITLES)
def test_figures_of_an_emulated_guest_are_labelled_and_carry_the_bound_of_its_clock(run: GuestRun, bridge: str) -> None:
    cell = cell_of(run, bridge)
    assert cell["label"] == run.result[slug_of(bridge)]["label"] == "functional only"
    (guest,) = cell["guests"]
    assert (guest["name"], guest["acceleration"], guest["started"]) == ("vm1", "tcg", "snapshot")
    assert list(guest["vcpu_threads"]) == ["0"] and guest["vcpu_threads"]["0"] > 1
    assert {(leg["from"], leg["to"], leg["source"]) for leg in cell["clocks"]} >= {("ecu", "vm1", "shared page")}
    for name in STREAMS:
        found = run.result[slug_of(bridge)]["streams"][name]
        assert found["clock"] == "shared page"
        assert found["metrics"]["wakeup"]["uncertainty_ns"] == 0
        uncertainty = found["metrics"]["latency"]["uncertainty_ns"]
        assert 0 < uncertainty < found["metrics"]["latency"]["min"]
        assert uncertainty == run.packets(slug_of(bridge), name).filter(~pl.col("warmup"))["clock_bound_ns"].max()


@pytest.mark.parametrize("bridge", TITLES)
def test_the_facts_are_those_of_the_guest_as_well(run: GuestRun, bridge: str) -> None:
    for when in ("before", "after"):
        facts = read(run.folder / "cells" / slug_of(bridge) / "r1" / f"facts-{when}.json")
        assert set(facts) == {"sensor", "ecu", "vm1"}
        assert facts["vm1"]["machine"]["hypervisor"]["signature"] == "TCGTCGTCGTCG"
