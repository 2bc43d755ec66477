"""A listener is traced where the scenario says so: by which steps, and what its agent is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from measured_cell import BASE

from latlab.host import MACHINE
from latlab.lab.guests.planned import planned_site
from latlab.lab.tracing import tracing_steps
from latlab.measure.run import plan
from latlab.measure.trace_specs import ENTRIES, EVENTS, entry_spec, trace_spec
from latlab.scenario import Scenario, load_scenario, parse

Make = Callable[..., Scenario]
TRACED = {"ecu": {"listener": {"trace": True}}}
STREAMED = {
    "streams": {"control": {"talker": "sensor", "listener": "ecu", "period": "2ms", "size": "64B"}},
    "tuning": TRACED,
    "duration": "600ms",
}


def test_only_hosts_that_listen_and_are_to_be_traced_are(scenario: Make) -> None:
    assert scenario().traced == []
    both = {"ecu": {"listener": {"trace": True}}, "sensor": {"listener": {"trace": True}}}
    small = scenario(tuning=both)
    assert small.traced == ["ecu"]
    (step,) = tracing_steps(small, planned_site(small))
    assert (step.host, step.do[1:], step.undo) == (MACHINE, ("timer", "--clear-traces"), step.do)


def test_its_agent_is_told_the_listeners_thread_and_what_receives(scenario: Make) -> None:
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


def in_a_guest(trace: Any, **guest: Any) -> dict[str, Any]:
    """The parts of a scenario whose stream comes to a guest that is traced so."""
    return {
        "guests": {"vm1": {"host": "ecu", "uplink": "eth1", "bridge": "tap", **guest}},
        "streams": {"control": {"talker": "sensor", "listener": "vm1", "period": "2ms", "size": "64B"}},
        "tuning": {"vm1": {"listener": {"trace": trace}}},
    }


def test_beside_a_guests_listener_its_vm_host_is_traced_and_cleared(scenario: Make) -> None:
    small = scenario(**in_a_guest(True))
    assert (small.traced, small.entered) == (["vm1"], ["vm1"])
    assert [step.host for step in tracing_steps(small, planned_site(small))] == [MACHINE]
    threads = scenario(**in_a_guest("threads"))
    assert (threads.traced, threads.entered) == (["vm1"], [])
    assert list(tracing_steps(threads, planned_site(threads))) == []


def test_of_a_vm_host_its_guests_interrupts_and_entries_are_recorded() -> None:
    spec = entry_spec([11, 12], "8f3c5e0d12ab34cd", "/run/entry-vm1")
    assert spec["events"] == list(ENTRIES)
    assert (spec["threads"], spec["absent"]) == ([11, 12], "skip")


def test_what_else_it_is_to_be_is_refused_with_what_it_can_be() -> None:
    found = parse(BASE | STREAMED | {"tuning": {"ecu": {"listener": {"trace": "all"}}}}).findings
    assert [finding.path for finding in found] == [("tuning", "ecu", "listener", "trace")]
    assert "true, false or threads" in str(found[0])


def test_the_plan_has_it(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(BASE | STREAMED, sort_keys=False))
    assert "latlab-agent trace" in plan(load_scenario(path))
