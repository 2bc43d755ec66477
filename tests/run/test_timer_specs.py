"""The spec of a timer's agent, and how the tools that measure timers are called."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from latlab.hosts import MACHINE
from latlab.model.errors import LabError
from latlab.run.entries import stream_entries
from latlab.run.matrix import plan
from latlab.run.probe_specs import timer_spec
from latlab.run.room import check_room
from latlab.scenario import MatrixCell, Scenario, load_scenario
from latlab.testbed.guests.start import planned_site
from latlab.testbed.host_setup import tracing_steps
from latlab.testbed.machine import Machine
from latlab.testbed.places import Places
from latlab.testbed.probes import plan_probes
from latlab.testbed.probes.cyclictest import CYCLICTEST
from latlab.testbed.probes.timerlat import TIMERLAT
from latlab.testbed.unavailable import unavailable

Make = Callable[..., Scenario]
TIMER = {"probe": "timer", "on": "ecu", "period": "1ms"}


def test_a_timer_is_reported_what_the_scenario_says_of_it(scenario: Make) -> None:
    own = {"offset": "250us", "how": "timerfd", "threshold": "20us", "window": "1s", "trace": False}
    small = scenario(probes={"irq": TIMER | own}, tuning={"ecu": {"talker": {"fifo": 70, "cpus": [1]}}})
    spec = dict(timer_spec(small, "irq", "8f3c5e0d12ab34cd", "/r/timer-irq"))
    realtime = spec.pop("realtime")
    assert (realtime["fifo"], realtime["cpus"]) == (70, [1])
    assert spec == {
        "run_id": "8f3c5e0d12ab34cd",
        "recording": "/r/timer-irq",
        "stream": 2,
        "name": "irq",
        "period_ns": 1_000_000,
        "count": 2000,
        "offset_ns": 250_000,
        "how": "timerfd",
        "threshold_ns": 20_000,
        "window_ns": 1_000_000_000,
        "trace": False,
    }


def test_no_two_ways_of_measuring_have_the_same_number(scenario: Make) -> None:
    ping = {"probe": "ping", "from": "sensor", "to": "ecu", "size": "64B", "period": "1ms"}
    small = scenario(probes={"irq": TIMER, "rr": ping, "irq2": TIMER | {"on": "sensor"}})
    assert {one.name: one.stream for one in stream_entries(small)} == {
        "control": 1,
        "irq": 2,
        "rr.up": 4,
        "rr.down": 5,
        "irq2": 6,
    }
    assert [timer_spec(small, name, "", "")["stream"] for name in ("irq", "irq2")] == [2, 6]


def test_only_what_is_traced_clears_the_kernels_tracing(scenario: Make) -> None:
    probes = {"irq": TIMER, "on-guest": TIMER | {"on": "vm1"}, "whole": TIMER | {"on": "sensor", "trace": False}}
    small = scenario(probes=probes, guests={"vm1": {"host": "ecu", "uplink": "eth1"}})
    (step,) = tracing_steps(small, planned_site(small))
    assert (step.host, step.do[1:], step.undo) == (MACHINE, ("timer", "--clear-traces"), step.do)


def test_instants_need_room_as_packets_do(scenario: Make, tmp_path: Any) -> None:
    endless = scenario(probes={"irq": TIMER | {"period": "1us"}}, duration="4000s")
    with pytest.raises(LabError, match="4003"):
        check_room([MatrixCell({}, "all", endless)], 1_000_000, tmp_path)


def test_the_plan_has_the_timers_command_and_what_it_is_reported(tmp_path: Path) -> None:
    probes = {"irq": TIMER, "ct": {"probe": "cyclictest", "on": "ecu"}}
    small = {"name": "small", "hosts": {"ecu": {"kind": "local"}}, "probes": probes, "duration": "2s"}
    path = tmp_path / "s.yaml"
    path.write_text(json.dumps(small))
    text = plan(load_scenario(path))
    assert "latlab-agent timer" in text
    assert "30000" in text
    assert "cyclictest --quiet" in text


def test_cyclictest_runs_as_its_hosts_talker_does(scenario: Make) -> None:
    tuning = {"ecu": {"talker": {"fifo": 70, "cpus": [1, 3], "cpu_dma_latency": "20us"}}}
    probes = {"ct": {"probe": "cyclictest", "on": "ecu", "period": "250us"}}
    (own,) = plan_probes(scenario(probes=probes, tuning=tuning), Places())
    assert CYCLICTEST.client(own).argv == (
        *("cyclictest", "--quiet", "--threads=1", "--interval=250", "--duration=1", "--mlockall"),
        *("--policy=fifo", "--priority=70", "--affinity=1,3", "--latency=20", "--histogram=100000", "--json=ct.log"),
    )
    ordinary = {"ecu": {"talker": {"fifo": None, "lock_memory": False, "cpu_dma_latency": None}}}
    (other,) = plan_probes(scenario(probes=probes, tuning=ordinary), Places())
    argv = CYCLICTEST.client(other).argv
    assert {"--policy=other", "--default-system"} <= set(argv)
    assert not any(one.startswith(("--mlockall", "--affinity", "--priority", "--latency")) for one in argv)


def test_timerlat_runs_on_the_first_of_its_hosts_talkers_cpus(scenario: Make) -> None:
    tuning = {"ecu": {"talker": {"fifo": 70, "cpus": [1, 3]}}}
    (own,) = plan_probes(scenario(probes={"tl": {"probe": "timerlat", "on": "ecu"}}, tuning=tuning), Places())
    assert TIMERLAT.client(own).argv == (
        *("rtla", "timerlat", "hist", "--cpus", "1", "--period", "1000", "--duration", "1s"),
        *("--bucket-size", "1", "--entries", "10000", "--priority", "f:70", "--dma-latency", "0"),
    )


@pytest.mark.parametrize(
    ("said", "version"),
    [("cyclictest V 2.40\nUsage:\n", "2.40"), ("cyclictest V 2.00\n", "2.00")],
)
def test_the_version_of_cyclictest_is_read_from_its_help(said: str, version: str) -> None:
    assert CYCLICTEST.version_of(said) == version


@pytest.mark.parametrize("said", ["cyclictest V 1.00\nUsage:\n", "sh: cyclictest: not found", ""])
def test_another_cyclictest_is_refused(said: str) -> None:
    with pytest.raises(ValueError, match=r"2\.0 or newer|no version"):
        CYCLICTEST.version_of(said)


def test_the_version_of_rtla_is_read_from_its_help() -> None:
    said = "  rtla version 6.12.0\n\n  usage: rtla COMMAND ...\n\n  commands:\n     timerlat  - measures latency\n"
    assert TIMERLAT.version_of(said) == "6.12.0"
    with pytest.raises(ValueError, match="does not support timerlat"):
        TIMERLAT.version_of("rtla version 5.4\n commands:\n osnoise\n")


def test_a_kernel_without_the_tracer_makes_the_cell_unavailable_and_says_so(scenario: Make) -> None:
    small = scenario(probes={"tl": {"probe": "timerlat", "on": "ecu"}})
    site = planned_site(small)
    everything = replace(site.machine, has_tool=lambda tool: True)

    def reasons(tracers: str | None) -> list[LabError]:
        machine: Machine = replace(everything, say=lambda argv: tracers if "available_tracers" in argv[-1] else None)
        return [one for one in unavailable(small, replace(site, machine=machine)) if one.where == "probes.tl"]

    assert reasons("hwlat timerlat osnoise nop\n") == []
    (lacking,) = reasons("hwlat nop\n")
    assert lacking.what == "the kernel has no timerlat tracer on ecu"
    assert "CONFIG_TIMERLAT_TRACER" in lacking.remedy
    (unread,) = reasons(None)
    assert "cannot be read" in unread.what


def test_a_program_that_is_missing_makes_the_cell_unavailable(scenario: Make) -> None:
    small = scenario(probes={"ct": {"probe": "cyclictest", "on": "ecu"}})
    site = planned_site(small)
    machine = replace(site.machine, has_tool=lambda tool: tool != "cyclictest")
    (lacking,) = unavailable(small, replace(site, machine=machine))
    assert lacking.what == "cyclictest is missing on ecu"
    assert "rt-tests" in lacking.remedy
