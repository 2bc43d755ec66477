"""The specs of both sides of a probe over DDS, and where it cannot be measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from latlab.run.entries import probe_entries, stream_entries
from latlab.run.probe_specs import ping_spec, pings, pong_spec, verb_of
from latlab.run.specs import BedFacts
from latlab.scenario import Scenario
from latlab.scenario.parts import End
from latlab.testbed.guests.start import planned_site
from latlab.testbed.places import Places
from latlab.testbed.probes import plan_probes
from latlab.testbed.probes.base import DdsOptions
from latlab.testbed.unavailable import unavailable

Make = Callable[..., Scenario]
DDS = {"probe": "dds", "from": "sensor", "to": "ecu", "size": "64B"}
RUN = "8f3c5e0d12ab34cd"


def told(small: Scenario, bed: BedFacts) -> tuple[dict[str, Any], dict[str, Any]]:
    """The specs of who asks and of who answers."""
    asks, answers = ping_spec(small, "rr", bed, RUN, "/r/ping-rr"), pong_spec(small, "rr", bed, RUN, "/r/pong-rr")
    return dict(asks), dict(answers)


def test_each_side_knows_the_other_by_its_address_and_its_own_interface(scenario: Make) -> None:
    small = scenario(probes={"rr": DDS | {"period": "1ms", "offset": "250us"}})
    # The answerer's end is a port of a bridge, which has the address.
    ping, pong = told(small, BedFacts({}, places=Places(devices={End("ecu", "eth1"): "br0"})))
    for spec, interface, peer in ((ping, "eth0", "10.78.0.2"), (pong, "br0", "10.78.0.1")):
        assert spec["interface"] == interface
        assert f'<NetworkInterface name="{interface}"/>' in spec["transport"]["config"]
        assert f'<Peer address="{peer}"/>' in spec["transport"]["config"]
        assert spec["transport"]["domain"] == 40
    assert (ping["role"], ping["recording"], pong["role"], pong["recording"]) == (
        *("ping", "/r/ping-rr"),
        *("pong", "/r/pong-rr"),
    )
    assert [ping[key] for key in ("up", "down", "period_ns", "offset_ns", "count")] == [2, 3, 1_000_000, 250_000, 2000]
    assert pings(small) == ["rr"]
    assert [verb_of(small, "rr", role) for role in ("ping", "pong")] == ["dds", "dds"]


@pytest.mark.parametrize("take", ["listener", "waitset", "spin"])
def test_cyclones_receiving_thread_runs_as_who_asks_and_who_answers(scenario: Make, take: str) -> None:
    tuning = {"sensor": {"talker": {"fifo": 41, "cpus": [1]}}, "ecu": {"listener": {"fifo": 42, "cpus": [0]}}}
    small = scenario(probes={"rr": DDS | {"take": take, "threads": {"tev": 7}}}, tuning=tuning)
    ping, pong = told(small, BedFacts({}))
    for spec, priority, cpu in ((ping, 41, 1), (pong, 42, 0)):
        config = spec["transport"]["config"]
        assert f'<Thread name="recvUC"><Scheduling><Class>realtime</Class><Priority>{priority}<' in config
        assert '<Thread name="tev"><Scheduling><Class>realtime</Class><Priority>7<' in config
        assert spec["transport"]["cpus"] == (None if take == "spin" else [cpu]), "a thread that spins leaves nothing"
    assert ping["realtime"]["fifo"] == 41
    assert pong["realtime"].get("fifo") == (None if take == "listener" else 42), "with a listener Cyclone's answers"


def test_its_legs_are_told_to_be_ddss(scenario: Make) -> None:
    small = scenario(streams={}, probes={"rr": DDS})
    assert [(leg.transport, leg.frames, leg.port) for leg in stream_entries(small)] == [
        ("dds", None, "eth0"),
        ("dds", None, "eth1"),
    ]
    (entry,) = probe_entries(small)
    assert (entry.asked.domain, entry.asked.reliable, entry.period_ns) == (40, True, None)


def test_ddsperf_is_reported_the_same_of_interfaces_and_addresses(scenario: Make) -> None:
    small = scenario(streams={}, probes={"peer": DDS | {"probe": "ddsperf", "domain": 5, "reliable": False}})
    (plan,) = plan_probes(small, Places(devices={End("ecu", "eth1"): "br0"}))
    assert (plan.asker_interface, plan.answerer_interface) == ("eth0", "br0")
    assert (plan.source_address, plan.sink_address) == ("10.78.0.1", "10.78.0.2")
    assert plan.dds == DdsOptions(5, reliable=False, take="listener")


@pytest.mark.parametrize("kind", ["dds", "ddsperf"])
def test_a_guest_behind_user_nat_cannot_be_found(scenario: Make, kind: str) -> None:
    guests = {"vm1": {"host": "ecu", "uplink": "eth1", "bridge": "user"}}
    small = scenario(streams={}, guests=guests, probes={"rr": DDS | {"probe": kind, "to": "vm1"}})
    reasons = [str(reason) for reason in unavailable(small, planned_site(small))]
    assert any("probes.rr: " in one and "hides the addresses" in one for one in reasons)
