"""A listener is traced where the scenario says so: by which steps, and with what spec."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from latlab.hosts import MACHINE
from latlab.run.matrix import plan
from latlab.run.probe_specs import timer_spec
from latlab.run.specs import ENTRIES, EVENTS, TIMER_INTERRUPTS, entry_spec, trace_spec, waking_spec
from latlab.scenario import Scenario, load_scenario, parse
from latlab.testbed.guests.start import planned_site
from latlab.testbed.host_setup import tracing_steps
from support.run import BASE

Make = Callable[..., Scenario]
TRACED = {"ecu": {"listener": {"trace": True}}}
STREAMED = {
    "streams": {"control": {"talker": "sensor", "listener": "ecu", "period": "2ms", "size": "64B"}},
    "tuning": TRACED,
    "duration": "600ms",
}


def test_only_hosts_that_are_to_be_traced_are(scenario: Make) -> None:
    assert scenario().traced == []
    small = scenario(tuning=TRACED)
    assert small.traced == ["ecu"]
    (step,) = tracing_steps(small, planned_site(small))
    assert (step.host, step.do[1:], step.undo) == (MACHINE, ("timer", "--clear-traces"), step.do)


def test_its_agent_is_reported_the_listeners_thread_and_what_receives(scenario: Make) -> None:
    assert trace_spec(scenario(tuning=TRACED), "ecu", [4711], "8f3c5e0d12ab34cd", "/run/trace-ecu") == {
        "run_id": "8f3c5e0d12ab34cd",
        "recording": "/run/trace-ecu",
        "realtime": {"lock_memory": False},
        "events": list(EVENTS),
        "threads": [4711],
        "softirqs": [3],
    }


def test_who_answers_a_ping_is_traced_as_a_listener_is(scenario: Make) -> None:
    probes = {
        "rr": {"probe": "ping", "from": "sensor", "to": "ecu", "size": "64B", "period": "1ms"},
        "back": {"probe": "ping", "from": "ecu", "to": "sensor", "size": "64B", "period": "1ms"},
        "late": {"probe": "timer", "on": "ecu"},
    }
    small = scenario(tuning=TRACED, probes=probes)
    assert dict(small.receivers) == {"ecu": (None, "rr"), "sensor": ("back",)}
    assert small.traced == ["ecu"]


def test_its_threads_alone_take_two_events_and_nothing_that_receives(scenario: Make) -> None:
    small = scenario(tuning={"ecu": {"listener": {"trace": "threads"}}})
    assert small.traced == ["ecu"]
    spec = trace_spec(small, "ecu", [4711], "8f3c5e0d12ab34cd", "/run/trace-ecu")
    assert (spec["events"], spec["threads"]) == (["sched:sched_waking", "sched:sched_switch"], [4711])
    assert "softirqs" not in spec


def test_how_a_timers_thread_is_woken_is_traced_where_its_probe_says_so(scenario: Make) -> None:
    probes = {name: {"probe": "timer", "on": "ecu", "trace": trace} for name, trace in (("a", "threads"), ("b", True))}
    small = scenario(probes=probes)
    assert (small.traced, small.traced_timers) == ([], ["a"])
    assert [timer_spec(small, name, "8f3c5e0d12ab34cd", "/run/timer")["trace"] for name in probes] == [True, True]
    spec = waking_spec([4711], "8f3c5e0d12ab34cd", "/run/waking-a")
    assert spec["events"][: len(EVENTS)] == list(EVENTS)
    assert (spec["threads"], spec["softirqs"], spec["absent"]) == ([4711], [8], "skip")
    (step,) = tracing_steps(small, planned_site(small))
    assert step.do[1:] == ("timer", "--clear-traces")


def test_next_to_a_timer_in_a_guest_its_vm_host_is_traced(scenario: Make) -> None:
    parts = in_a_guest(False) | {"probes": {"late": {"probe": "timer", "on": "vm1", "trace": "threads"}}}
    small = scenario(**parts)
    assert (small.traced, small.traced_timers, small.entered) == ([], ["late"], ["vm1"])
    assert [step.host for step in tracing_steps(small, planned_site(small))] == [MACHINE]
    whole = scenario(**parts | {"tuning": in_a_guest(True)["tuning"]})
    assert whole.entered == ["vm1"]


def in_a_guest(trace: Any, **guest: Any) -> dict[str, Any]:
    """The parts of a scenario whose stream comes to a guest that is traced so."""
    return {
        "guests": {"vm1": {"host": "ecu", "uplink": "eth1", "bridge": "tap", **guest}},
        "streams": {"control": {"talker": "sensor", "listener": "vm1", "period": "2ms", "size": "64B"}},
        "tuning": {"vm1": {"listener": {"trace": trace}}},
    }


def test_next_to_a_guests_listener_its_vm_host_is_traced_and_cleared(scenario: Make) -> None:
    small = scenario(**in_a_guest(True))
    assert (small.traced, small.entered) == (["vm1"], ["vm1"])
    assert [step.host for step in tracing_steps(small, planned_site(small))] == [MACHINE]
    threads = scenario(**in_a_guest("threads"))
    assert (threads.traced, threads.entered) == (["vm1"], [])
    assert list(tracing_steps(threads, planned_site(threads))) == []


def test_of_a_vm_host_its_guests_interrupts_and_entries_are_recorded(scenario: Make) -> None:
    small = scenario(**in_a_guest(True))
    spec = entry_spec(small, "vm1", [11, 12], "8f3c5e0d12ab34cd", "/run/entry-vm1")
    # And how the threads are woken that send them on.
    assert spec["events"] == [*EVENTS, *TIMER_INTERRUPTS, *ENTRIES]
    assert (spec["threads"], spec["softirqs"], spec["absent"]) == ([11, 12], [3], "skip")
    many = entry_spec(small, "vm1", range(100), "8f3c5e0d12ab34cd", "/run/entry-vm1")
    assert many["threads"] == list(range(64))


def test_what_else_it_is_to_be_is_refused_with_what_it_can_be() -> None:
    found = parse(BASE | STREAMED | {"tuning": {"ecu": {"listener": {"trace": "all"}}}}).findings
    assert [finding.path for finding in found] == [("tuning", "ecu", "listener", "trace")]
    assert "true, false or threads" in str(found[0])


@pytest.mark.parametrize(
    ("probes", "remedy"),
    [
        ({}, "false, or a stream or a ping to it"),
        ({"late": {"probe": "timer", "on": "sensor"}}, "probes.late.trace: threads"),
    ],
    ids=["nothing", "a timer"],
)
def test_a_listener_that_receives_nothing_cannot_be_traced(probes: dict[str, Any], remedy: str) -> None:
    asked = STREAMED | {"tuning": {"sensor": {"listener": {"trace": True}}}, "probes": probes}
    (found,) = parse(BASE | asked).findings
    assert found.path == ("tuning", "sensor", "listener", "trace")
    assert "latlab receives nothing on sensor" in str(found)
    assert found.expected == remedy


def test_one_that_receives_in_some_cells_can_be_traced() -> None:
    ping = {"probe": "ping", "from": "ecu", "to": "sensor", "size": "64B", "period": "1ms"}
    asked = STREAMED | {"tuning": {"sensor": {"listener": {"trace": True}}}, "probes": {"back": ping}}
    assert not parse(BASE | asked | {"matrix": {"probes": ["none", "back"]}}).findings


def test_the_plan_has_a_timers_trace(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    late = {"late": {"probe": "timer", "on": "ecu", "trace": "threads"}}
    path.write_text(yaml.safe_dump(BASE | STREAMED | {"tuning": {}, "probes": late}, sort_keys=False))
    said = plan(load_scenario(path))
    assert "traces late, whose thread is `tid` of its `ready`" in said
    assert "irq_vectors:local_timer_entry" in said


def test_the_plan_has_it(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(BASE | STREAMED, sort_keys=False))
    assert "latlab-agent trace" in plan(load_scenario(path))
