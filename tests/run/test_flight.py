"""What a listener reports of late packets reaches who traces, on the clock of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest

from latlab.run import flight as module
from latlab.run.agent import Agent
from latlab.run.events import ClockBound, Event, Interval, LatePackets, Phase
from latlab.run.flight import GUESSED_NS, Flight, WatchFlight
from latlab.run.specs import ENTRIES, KEPT_KIB, MARGIN_NS, BedFacts, entry_spec, listen_spec, trace_spec
from latlab.scenario import Scenario

Make = Callable[..., Scenario]
WINDOW = (1_000, 5_000)
STREAMS = {
    "control": {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B"},
    "own": {"talker": "sensor", "listener": "ecu", "period": "10ms", "size": "64B"},
}


class Told:
    """An agent on a host, that keeps what it receives."""

    def __init__(self, host: str, kernel: str = "one") -> None:
        self.host = type("Host", (), {"name": host, "shared_kernel": kernel})()
        self.known: list[list[tuple[int, int, int]]] = []
        self.kept: list[Interval] = []

    def know(self, clocks: Iterable[tuple[int, int, int]]) -> None:
        self.known.append(list(clocks))

    def keep(self, windows: Iterable[Interval]) -> None:
        self.kept.extend(windows)

    def agent(self) -> Agent:
        return cast(Agent, self)


@pytest.fixture
def heard() -> list[Event]:
    """What is passed on."""
    return []


def made(scenario: Scenario, heard: list[Event], listener: Told, *tracers: Told, live: bool = False) -> Flight:
    flight = Flight(scenario, heard.append, live=live)
    flight.judges(listener.agent())
    for tracer in tracers:
        flight.keeps("ecu", tracer.agent())
    return flight


def test_a_tracer_on_the_listeners_kernel_is_told_its_windows_as_they_are(scenario: Make, heard: list[Event]) -> None:
    listener, tracer = Told("ecu"), Told("ecu")
    flight = made(scenario(), heard, listener, tracer)
    flight.hear(LatePackets("ecu", (WINDOW, (7_000, 8_000))))
    assert tracer.kept == [WINDOW, (7_000, 8_000)]
    assert heard == []


def test_windows_are_moved_to_another_kernels_clock_and_grow_by_what_that_is_not_known_to(
    scenario: Make, heard: list[Event]
) -> None:
    listener, below = Told("ecu"), Told("machine", "another")
    flight = made(scenario(), heard, listener, below)
    # The guest's clock is 200 ± 50 ahead of its VM host's.
    flight.hear(ClockBound("machine", "ecu", 150, 250))
    flight.hear(LatePackets("ecu", (WINDOW,)))
    assert below.kept == [(1_000 - 200 - 50, 5_000 - 200 + 50)]


def test_between_clocks_that_nothing_compares_windows_are_moved_by_a_guess(
    scenario: Make, heard: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    listener, below = Told("ecu"), Told("machine", "another")
    now: dict[Any, int] = {listener: 5_000, below: 7_000}
    monkeypatch.setattr(module, "now_tai_ns", lambda agent: now[agent])
    made(scenario(), heard, listener, below).hear(LatePackets("ecu", (WINDOW,)))
    assert below.kept == [(1_000 + 2_000 - GUESSED_NS, 5_000 + 2_000 + GUESSED_NS)]


def test_a_listener_is_told_what_is_known_of_its_streams_clocks_each_time_that_changes(
    scenario: Make, heard: list[Event]
) -> None:
    listener = Told("ecu", "guest")
    flight = made(scenario(streams=STREAMS), heard, listener)
    flight.hear(ClockBound("relay", "sensor", 0, 0))
    assert listener.known[-1] == []
    flight.hear(ClockBound("ecu", "relay", -110, -90))
    assert listener.known[-1] == [(1, 100, 10), (2, 100, 10)]
    flight.hear(ClockBound("ecu", "relay", -130, -110))
    assert listener.known[-1] == [(1, 120, 10), (2, 120, 10)]


def test_clocks_are_passed_on_only_in_a_run_that_is_shown_live_and_all_else_always(
    scenario: Make, heard: list[Event]
) -> None:
    bound = ClockBound("sensor", "ecu", 0, 0)
    for live, passed in ((False, []), (True, [bound])):
        flight = made(scenario(), heard, Told("ecu"), live=live)
        flight.hear(bound)
        assert heard == passed
    flight.hear(Phase("measuring"))
    assert heard[-1] == Phase("measuring")


def test_the_agents_are_told_to_judge_and_to_keep_windows_only(scenario: Make) -> None:
    small = scenario(trigger="latency_user >= 500us", duration="60s")
    assert listen_spec(small, "ecu", BedFacts({}), "8f3c5e0d12ab34cd", "/run/listen")["trigger"] == {
        "metric": "latency_user",
        "above_ns": 499_999,
        "margin_ns": MARGIN_NS,
        "typical_ns": 600_000_000,
    }
    spec = trace_spec(small, "ecu", [4711], "8f3c5e0d12ab34cd", "/run/trace-ecu")
    whole = scenario(tuning={"ecu": {"listener": {"trace": True}}})
    full = trace_spec(whole, "ecu", [4711], "8f3c5e0d12ab34cd", "/run/trace-ecu")
    assert spec == {**full, "windows_only": True, "buffer_kib": KEPT_KIB}
    # One that is traced whole is not judged.
    both = scenario(trigger="latency > 5us", tuning={"ecu": {"listener": {"trace": True}}})
    assert "trigger" not in listen_spec(both, "ecu", BedFacts({}), "8f3c5e0d12ab34cd", "/run/listen")
    assert trace_spec(both, "ecu", [4711], "8f3c5e0d12ab34cd", "/run/trace-ecu") == full


def test_the_vm_host_of_a_guest_that_listens_keeps_windows_too(scenario: Make) -> None:
    parts = {
        "hosts": {"machine": {"kind": "netns"}, "sensor": {"kind": "netns"}},
        "links": [{"ends": ["sensor.eth0", "machine.eth0"]}],
        "guests": {"ecu": {"host": "machine", "uplink": "eth0", "bridge": "tap"}},
        "trigger": "latency > 500us",
    }
    small = scenario(**parts)
    assert (small.kept, small.entered) == (["ecu"], ["ecu"])
    spec = entry_spec(small, "ecu", [1, 2], "8f3c5e0d12ab34cd", "/run/entry-ecu")
    assert (spec["windows_only"], spec["buffer_kib"]) == (True, KEPT_KIB)
    assert set(ENTRIES) < set(spec["events"])
    # A timer in it needs all of them.
    timed = scenario(**parts, probes={"late": {"probe": "timer", "on": "ecu", "trace": "threads"}})
    assert "windows_only" not in entry_spec(timed, "ecu", [1, 2], "8f3c5e0d12ab34cd", "/run/entry-ecu")


def test_windows_of_watched_packets_reach_each_kernel_on_its_own_clock(
    heard: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "now_tai_ns", lambda agent: 700 if agent.host.name == "guest:vm1" else 0)
    here, guest = Told("machine"), Told("guest:vm1", kernel="two")
    flight = WatchFlight(heard.append)
    flight.traces |= {"machine": here.agent(), "guest:vm1": guest.agent()}
    flight.hear(LatePackets("machine", (WINDOW,)))
    flight.hear(Phase("watching"))
    assert here.kept == [WINDOW]
    assert guest.kept == [(WINDOW[0] + 700 - GUESSED_NS, WINDOW[1] + 700 + GUESSED_NS)]
    assert heard == [Phase("watching")]
