"""Which packets of watched traffic are late: points between which that can be judged, and what the agent gets."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from latlab.hosts import LocalMachine
from latlab.model.errors import LabError, UsageError
from latlab.run import flows
from latlab.run.agent import Agent
from latlab.run.flows import FlowWatch
from latlab.run.specs import EVENTS, KEPT_KIB, MARGIN_NS, around_spec
from latlab.run.watch import check_trigger
from latlab.run.watching import FoundInterface, KernelOfPoints, merged, trigger_spec
from latlab.scenario import parse
from latlab.scenario.load import trigger_given
from latlab.scenario.watched import LEAST_JUDGED_SNAP, parse_point

TRIGGER = trigger_given("latency > 500us")
ETH0, BR0 = (
    FoundInterface(name, LocalMachine("machine"), name, ("in",), 1, number)
    for name, number in (("eth0", 2), ("br0", 3))
)


def refused(*at: str, trigger: str = "latency > 500us", snap: int = 128) -> str:
    """What is wrong, and what to do."""
    with pytest.raises(UsageError) as caught:
        check_trigger(trigger_given(trigger), [parse_point(one) for one in at], snap)
    assert caught.value.where == "--trigger"
    return f"{caught.value.what}; {caught.value.remedy}"


def test_two_directions_of_one_kernel_are_judged() -> None:
    for at in (("eth0:in", "br0", "tap0:out"), ("eth0:in", "guest:vm1/eth0", "eth0:out"), ("b/x:in", "b/ns:n/y:in")):
        check_trigger(TRIGGER, [parse_point(one) for one in at], LEAST_JUDGED_SNAP)


def test_a_latency_below_10_s_is_judged() -> None:
    check_trigger(trigger_given("latency > 9999ms"), [parse_point("eth0:in"), parse_point("br0:in")], LEAST_JUDGED_SNAP)


def test_points_of_two_kernels_are_refused_with_the_pairs_that_work() -> None:
    found = refused("eth0:in", "tap0:out", "guest:vm1/eth0:in", "guest:vm1/socket:in")
    assert "eth0 and guest:vm1/socket are points of two kernels" in found
    assert "in one kernel are eth0 and tap0; guest:vm1/eth0 and guest:vm1/socket: name one pair first and last" in found
    assert refused("eth0:in", "guest:vm1/eth0:in").endswith("name two of one")


@pytest.mark.parametrize(
    ("at", "more", "what"),
    [
        (("eth0", "tap0:out"), {}, "eth0 has two directions, and packets are judged in one; eth0:in or eth0:out"),
        (("eth0:in", "tap0"), {}, "tap0 has two directions"),
        (("eth0:in",), {}, "a latency is between two points"),
        (("eth0:in", "br0", "eth0:in"), {}, "a latency is between two points"),
        (
            ("eth0:in", "br0:out"),
            {"snap": LEAST_JUDGED_SNAP - 1},
            "bytes of a packet may be headers alone; snap 86 or more",
        ),
        (("eth0:in", "br0:out"), {"trigger": "latency > 10s"}, "each is remembered for 10 s; a duration below 10 s"),
        (("eth0:in", "br0:out"), {"trigger": "latency >= 10s"}, "each is remembered for 10 s; a duration below 10 s"),
        (("eth0:in", "br0:out"), {"trigger": "delivery > 1ms"}, "delivery is not judged while packets are watched"),
    ],
)
def test_what_cannot_be_judged_is_named(at: tuple[str, ...], more: dict[str, object], what: str) -> None:
    assert what in refused(*at, **more)  # type: ignore[arg-type]


def test_a_flow_of_two_kernels_is_refused_before_any_agent_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(name: str, host: Any, interface: str, directions: tuple[str, ...], _where: str) -> FoundInterface:
        return FoundInterface(name, host, interface, directions, 1, 2)

    monkeypatch.setattr(flows, "find", find)
    flow = {"match": "udp", "at": ["sensor.eth0:out", "sensor.socket:out", "ecu.eth0:in"], "trigger": "latency > 1ms"}
    scenario = parse(
        {
            "name": "small",
            "hosts": {"sensor": {"kind": "netns"}, "ecu": {"kind": "netns"}},
            "links": [{"ends": ["sensor.eth0", "ecu.eth0"]}],
            "flows": {"seen": flow},
            "duration": "1s",
        }
    ).scenario
    assert scenario
    hosts = {name: SimpleNamespace(name=name, shared_kernel=name) for name in ("sensor", "ecu")}
    bed, places = SimpleNamespace(hosts=hosts), SimpleNamespace(agent=str, taps={})
    watching = FlowWatch(scenario, *(cast(Any, one) for one in (bed, places, None, None)))
    with pytest.raises(LabError, match="points of two kernels") as caught:
        asyncio.run(watching.start("8f3c5e0d12ab34cd", []))
    assert caught.value.where == "flows.seen: trigger"
    assert "in one kernel are sensor.eth0 and sensor.socket" in caught.value.remedy


def test_a_kernel_that_does_not_allow_tracing_ends_a_watch_only_where_packets_are_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refused(*_: object) -> Agent:
        raise LabError("this kernel has no tracefs", where="vm1")

    monkeypatch.setattr(Agent, "start", refused)
    kernel = KernelOfPoints(LocalMachine("vm1"), "latlab-agent", "watch-1")

    class Nowhere:
        bed, run_id = None, "8f3c5e0d12ab34cd"

        async def receive(self, *_: object) -> str:
            return "/run/watch-1"

    async def traced() -> Agent | None:
        await kernel.start_tracing(cast(Any, Nowhere()))
        await kernel.stop_tracing(cast(Any, None))
        return kernel.tracing

    assert asyncio.run(traced()) is None
    trace = kernel.known().trace
    assert trace and trace.error
    assert (trace.host, trace.verb, trace.error.what) == ("vm1", "trace", "this kernel has no tracefs")
    kernel.trigger = trigger_spec(TRIGGER, [ETH0, BR0], (ETH0, BR0))
    with pytest.raises(LabError, match="no tracefs"):
        asyncio.run(traced())


def test_an_expression_that_is_no_trigger_is_refused_as_that_of_a_scenario() -> None:
    with pytest.raises(UsageError, match="no duration after >") as caught:
        trigger_given("latency >")
    assert caught.value.where == "--trigger"


def test_the_agent_gets_the_numbers_of_the_first_and_the_last_point() -> None:
    here = LocalMachine("machine")
    every = [
        ETH0,
        BR0,
        FoundInterface("ns:b/eth0", here, "eth0", ("in",), 9, 2),
        FoundInterface("eth0", here, "eth0", ("out",), 1, 2),
    ]
    expected = {"from": {"point": 0, "out": False}, "above_ns": 500_000, "margin_ns": MARGIN_NS}
    # The way back through one interface is another direction of the same point.
    assert trigger_spec(TRIGGER, merged(every), (every[0], every[-1])) == expected | {"to": {"point": 0, "out": True}}
    three = every[:3]
    assert trigger_spec(TRIGGER, merged(three), (three[0], three[2])) == expected | {"to": {"point": 2, "out": False}}


def test_of_another_programs_packets_all_threads_and_interrupts_are_kept() -> None:
    spec = around_spec("8f3c5e0d12ab34cd", "/run/watch-0")
    assert (spec["events"], spec["windows_only"], spec["buffer_kib"]) == (list(EVENTS), True, KEPT_KIB)
    assert not spec.keys() & {"threads", "softirqs", "irqs", "cpus"}
