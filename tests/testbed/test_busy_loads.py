"""Loads that keep one host busy: their commands, what their tools say, what is missing, and that they really run."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from latlab.hosts import MACHINE
from latlab.model.errors import LabError
from latlab.testbed import makers
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.apply import TestBed
from latlab.testbed.guests.start import planned_site
from latlab.testbed.loads import LOADS, plan_loads, runner
from latlab.testbed.loads.base import LoadPlan, LoadProcess, Output
from latlab.testbed.loads.runner import ExitCounter, LoadRunner, exit_counters
from latlab.testbed.machine import CAPABILITIES, Machine
from latlab.testbed.places import Places
from latlab.testbed.preflight import preflight
from latlab.testbed.site import Site
from latlab.testbed.unavailable import unavailable
from support.machine import dump, scenario
from support.machine import run as say

HOSTS = {"sensor": "netns", "ecu": "netns"}
PLACES = Places({"sensor": "/x/latlab-agent", "ecu": "/x/latlab-agent", "vm1": "/usr/bin/latlab-agent"})
GUEST = {"vm1": {"host": "ecu", "uplink": "lat0", "image": "debian-rt"}}
VIRTUAL = "flags\t\t: fpu hypervisor lahf_lm\n"
ABLE = Machine(frozenset(CAPABILITIES), frozenset({0, 1}), frozenset({"lo"}), lambda tool: True)


def planned(what: str, kind: str = "stress-ng", **parts: Any) -> LoadPlan:
    tuning = parts.pop("tuning", {})
    small = scenario(HOSTS, loads={"l": {"kind": kind, "on": "ecu", "what": what, **parts}}, tuning=tuning)
    return plan_loads(small, 2_500_000_000, PLACES)[0]


def process(plan: LoadPlan) -> LoadProcess:
    (found,) = LOADS[plan.kind].processes(plan)
    return found


def achieved(plan: LoadPlan, stdout: str, stderr: str = "") -> Any:
    return LOADS[plan.kind].parse(plan, [Output(process(plan), stdout, stderr)])


COMMANDS: dict[str, tuple[dict[str, Any], str]] = {
    "cpu": ({"workers": 2}, "--cpu 2"),
    "memory": ({}, "--vm 1 --vm-bytes 67108864 --vm-method zero-one --vm-populate"),
    "io": (
        {"workers": 3, "size": "2MiB", "path": "/srv"},
        "--hdd 3 --hdd-bytes 6291456 --hdd-opts dsync --temp-path /srv",
    ),
}


@pytest.mark.parametrize("what", COMMANDS)
def test_stress_ng_is_reported_the_work_and_the_size_of_all_workers_together(what: str) -> None:
    parts, expected = COMMANDS[what]
    found = process(planned(what, **parts))
    assert " ".join(found.argv) == f"stress-ng {expected} --metrics-brief --yaml /proc/self/fd/1 --timeout 243s"
    assert (found.host, found.ending) == ("ecu", "interrupt")


def test_both_kinds_run_where_the_host_s_loads_do() -> None:
    tuning = {"ecu": {"load": {"fifo": 5, "cpus": [0, 1]}}}
    assert process(planned("cpu", tuning=tuning)).argv[:6] == ("chrt", "-f", "5", "taskset", "-c", "0,1")
    spec = process(planned("calls", "busy", workers=2, tuning=tuning)).spec
    assert spec and (spec["realtime"]["fifo"], spec["realtime"]["cpus"]) == (5, [0, 1])
    assert (spec["what"], spec["workers"], spec["duration_ns"]) == ("calls", 2, 243_000_000_000)


@pytest.mark.parametrize(
    ("what", "hypervisor", "name"),
    [
        ("exits", "KVMKVMKVM", "exits"),
        ("exits", "TCGTCGTCGTCG", "CPUID, emulated"),
        ("calls", "TCGTCGTCGTCG", "calls"),
        ("calls", None, "calls"),
    ],
)
def test_an_emulated_cpu_has_no_exits_and_none_are_reported(what: str, hypervisor: str | None, name: str) -> None:
    done = {"event": "done", "what": what, "count": 640, "elapsed_ns": 10**9, "per_s": 640.0, "hypervisor": hypervisor}
    said = "\n".join(map(json.dumps, ({"event": "ready", "version": "0.2.0"}, done)))
    assert achieved(planned(what, "busy"), said).work_per_s == {name: 640.0}


def test_it_takes_no_port_from_what_is_sent() -> None:
    up = {"kind": "flood", "from": "sensor", "to": "ecu"}
    loads = {"l": {"kind": "busy", "on": "ecu", "what": "calls"}, "f": up}
    busy, flood = plan_loads(scenario(HOSTS, loads=loads), 1_000_000_000, PLACES)
    assert (busy.port, busy.sink, flood.port) == (0, "", 5600)


def test_an_interrupted_stress_ng_is_known_by_what_it_did_a_second_of_the_clock(captured: Path) -> None:
    result = achieved(planned("cpu"), (captured / "stress-ng-cpu-interrupted.yaml").read_text())
    assert result.version == "0.15.06"
    assert result.work_per_s == {"bogo ops": pytest.approx(1149 / 0.668638, rel=1e-4)}
    assert result.detail["user-time"] == 0.660012
    assert (result.sent_bps, result.received_bps, result.sent_pps) == (None, None, None)


def test_the_size_is_each_worker_s(captured: Path) -> None:
    result = achieved(planned("memory", workers=2), (captured / "stress-ng-vm-interrupted.yaml").read_text())
    assert 64 * 1024 <= result.detail["max-rss"] < 80 * 1024, "KiB of the largest worker"
    assert result.detail["system-time"] > result.detail["user-time"], "it asks the kernel for its memory"


def test_what_an_older_one_writes_before_its_figures_is_passed_over(captured: Path) -> None:
    said = "stress-ng: info:  [1] dispatching hogs: 1 cpu\n"
    assert achieved(planned("cpu"), said + (captured / "stress-ng-cpu-interrupted.yaml").read_text()).work_per_s


def test_a_stress_ng_that_did_nothing_is_an_error_with_its_last_words(captured: Path) -> None:
    done = (captured / "stress-ng-cpu-interrupted.yaml").read_text()
    for text in (done.replace("bogo-ops: 1149", "bogo-ops: 0"), done.replace("stressor: cpu", "stressor: vm")):
        with pytest.raises(LabError, match=r"^ecu: load l: stress-ng did no work: out of memory .*space for its size"):
            achieved(planned("cpu"), text, "out of memory\n")


@pytest.mark.parametrize("text", ["", "---\nmetrics:\n", "---\n- 1\n...\n", "---\n{\n...\n"])
def test_words_that_are_no_figures_are_no_result(text: str) -> None:
    with pytest.raises(ValueError):
        achieved(planned("cpu"), text)


# What is missing.


def lacking(machine: Machine, load: Mapping[str, Any], **parts: Any) -> list[str]:
    small = scenario(HOSTS, loads={"l": dict(load)}, **parts)
    assert preflight(small, machine) == [], "the other cells run"
    return [str(one) for one in unavailable(small, replace(planned_site(small), machine=machine))]


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that preflight finds."""
    path = tmp_path / "latlab-agent"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    monkeypatch.setenv("LATLAB_AGENT", str(path))


@pytest.mark.usefixtures("agent")
def test_a_missing_stress_ng_makes_its_cells_unavailable_with_its_package() -> None:
    without = replace(ABLE, has_tool=lambda tool: tool != "stress-ng")
    (reason,) = lacking(without, {"kind": "stress-ng", "on": "ecu", "what": "cpu"})
    assert reason.startswith("loads.l: stress-ng is missing on ecu (`sudo apt install stress-ng`")
    assert lacking(ABLE, {"kind": "stress-ng", "on": "ecu", "what": "cpu"}) == []


@pytest.mark.usefixtures("agent")
def test_exits_need_something_beneath() -> None:
    exits = {"kind": "busy", "on": "ecu", "what": "exits"}
    bare, virtual = replace(ABLE, read=lambda _: "flags : fpu\n"), replace(ABLE, read=lambda _: VIRTUAL)
    (reason,) = lacking(bare, exits)
    assert reason == (
        "loads.l: ecu does not run on a hypervisor to which it could exit (what: calls, which its own kernel handles)"
    )
    assert lacking(virtual, exits) == []
    (reason,) = lacking(replace(virtual, architecture="aarch64"), exits)
    assert "ecu is a aarch64" in reason
    assert lacking(bare, {**exits, "what": "calls"}) == []


def test_what_a_guest_s_exits_are_counted_by_is_its_qemu_s() -> None:
    loads = {"l": {"kind": "busy", "on": "vm1", "what": "exits"}, "f": {"kind": "flood", "from": "vm1", "to": "sensor"}}
    small = scenario(HOSTS, guests=GUEST, loads=loads)
    counters = exit_counters(small, planned_site(small))
    assert list(counters) == ["vm1"]
    assert (counters["vm1"].machine, counters["vm1"].argv[:2]) == (MACHINE, ("sh", "-c"))
    assert counters["vm1"].argv[3].endswith("/vm1/pid")
    assert exit_counters(scenario(HOSTS, guests=GUEST, loads={}), Site("t1")) == {}


# On real namespaces.


async def loaded(
    load: Mapping[str, Any], seconds: float = 0.3, exits: Mapping[str, ExitCounter] | None = None
) -> dict[str, Any]:
    """The load's entry in cell.json, after it ran on a real test bed."""
    small = scenario(HOSTS, loads={"l": {"on": "ecu", **load}})
    async with TestBed("t1", makers.make_hosts(small, Site("t1"))) as bed:
        await bed.apply(makers.test_bed_steps(small, Site("t1")))
        started = LoadRunner(bed, plan_loads(small, 20_000_000_000, Places({"ecu": str(find_agent())})), exits or {})
        await started.start()
        try:
            await asyncio.sleep(seconds)
            (result,) = await started.stop()
        finally:
            await started.kill()
    return result.document()


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, captured: Path) -> Path:
    """A stress-ng on the PATH that works until it is interrupted, and then prints what a real one printed."""
    tool = tmp_path / "bin" / "stress-ng"
    tool.parent.mkdir()
    figures = captured / "stress-ng-cpu-interrupted.yaml"
    tool.write_text(
        f"#!/bin/sh\ntrap 'cat {figures}; exit 0' INT\n[ -z \"$DIE\" ] || exec sh -c 'echo no room >&2; exit 3'\n"
        'echo "stress-ng: info:  [1] dispatching hogs: 1 cpu" >&2\n'
        '[ -z "$DIE_LATER" ] || { sleep 0.2; echo went away >&2; exit 4; }\nwhile :; do sleep 0.02; done\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    return tool


@pytest.mark.real
@pytest.mark.usefixtures("machine")
class TestOnRealNamespaces:
    """Real processes."""

    def test_calls_of_the_kernel_are_made_and_counted(self) -> None:
        result = asyncio.run(loaded({"kind": "busy", "what": "calls", "workers": 2}))
        assert (result["on"], result["from"], result["to"]) == ("ecu", None, None)
        assert result["work"] == {"what": "calls", "size": None, "path": None, "workers": 2}
        detail = result["detail"]
        assert result["work_per_s"] == {"calls": pytest.approx(detail["count"] * 1e9 / detail["elapsed_ns"])}
        assert detail["count"] > 0
        assert len(result["commands"]) == 1
        assert "busy" in result["commands"][0]

    def test_nothing_is_measured_before_a_worker_has_done_something(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # One that is starved of its CPU says nothing.
        idle = tmp_path / "latlab-agent"
        idle.write_text(f'#!/bin/sh\n{find_agent()} "$@" | grep --invert-match --line-buffered progress\n')
        idle.chmod(0o755)
        monkeypatch.setenv("LATLAB_AGENT", str(idle))
        monkeypatch.setattr(runner, "READY_S", 0.5)
        with pytest.raises(LabError, match=r"load l: `.* busy` was not ready within 0\.5 s"):
            asyncio.run(loaded({"kind": "busy", "what": "calls"}))

    @pytest.mark.usefixtures("stand_in")
    def test_a_tool_is_started_heard_and_interrupted(self) -> None:
        result = asyncio.run(loaded({"kind": "stress-ng", "what": "cpu"}))
        assert result["version"] == "0.15.06"
        assert list(result["work_per_s"]) == ["bogo ops"]

    @pytest.mark.skipif(shutil.which("stress-ng") is None, reason="stress-ng is not installed")
    @pytest.mark.parametrize("what", ["cpu", "memory", "io"])
    def test_the_real_one_is(self, what: str, tmp_path: Path) -> None:
        parts = {"io": {"size": "1MiB", "path": str(tmp_path)}, "memory": {"size": "1MiB"}}.get(what, {})
        result = asyncio.run(loaded({"kind": "stress-ng", "what": what, **parts}))
        assert result["work_per_s"]["bogo ops"] > 0
        assert result["version"][0].isdigit()
        assert list(tmp_path.glob("tmp-*")) == []

    @pytest.mark.usefixtures("stand_in")
    @pytest.mark.parametrize(
        ("when", "said"),
        [
            ("DIE", r"ecu: load l: `.*stress-ng --cpu 1.*` ended before it was ready: no room"),
            ("DIE_LATER", r"ecu: load l: `.*stress-ng --cpu 1.*` ended early with status 4: .*went away"),
        ],
    )
    def test_one_that_dies_is_one_error_with_its_last_words(
        self, when: str, said: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(when, "1")
        before = dump()
        with pytest.raises(LabError, match=said):
            asyncio.run(loaded({"kind": "stress-ng", "what": "cpu"}, 1.0))
        assert dump() == before

    def test_what_kvm_counts_meanwhile_stands_next_to_it(self) -> None:
        # A counter that goes up by a thousand a second.
        counter = ExitCounter(MACHINE, ("awk", '{printf "%d", $1 * 1000}', "/proc/uptime"))
        result = asyncio.run(loaded({"kind": "busy", "what": "calls"}, 1.0, {"ecu": counter}))
        assert result["work_per_s"]["exits by KVM's count"] == pytest.approx(1000, rel=0.1)
        silent = ExitCounter(MACHINE, ("false",))
        assert list(asyncio.run(loaded({"kind": "busy", "what": "calls"}, 0.1, {"ecu": silent}))["work_per_s"]) == [
            "calls"
        ]

    def test_kvm_s_counter_is_found_by_qemu_s_pid(self, tmp_path: Path) -> None:
        (tmp_path / "pid").write_text("4711\n")
        say("mount", "-t", "tmpfs", "tmpfs", "/sys/kernel/debug")
        for vm, exits in (("4711-12", 987_654), ("47110-12", 3)):
            folder = Path("/sys/kernel/debug/kvm") / vm
            folder.mkdir(parents=True)
            (folder / "exits").write_text(f"{exits}\n")
        small = scenario(HOSTS, guests=GUEST, loads={"l": {"kind": "busy", "on": "vm1", "what": "exits"}})
        found = exit_counters(small, planned_site(small))["vm1"]
        counter = replace(found, argv=(*found.argv[:3], str(tmp_path / "pid")))

        async def read(one: ExitCounter) -> int | None:
            async with TestBed("t1", {MACHINE: makers.make_hosts(small, Site("t1"))[MACHINE]}) as bed:
                return await one.read(bed)

        assert asyncio.run(read(counter)) == 987_654
        assert asyncio.run(read(replace(counter, argv=(*found.argv[:3], "/nowhere")))) is None
