"""Probes in a scenario: their kinds, flows, rules, and which of them a cell runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from latlab.scenario import Loaded, cells

With = Callable[..., Loaded]
Said = Callable[[dict[str, Any]], list[str]]

PING = {"probe": "ping", "from": "sensor", "to": "ecu", "size": "64B"}
RATE = PING | {"period": "1ms"}
SOCKPERF = {"probe": "sockperf", "from": "sensor", "to": "ecu"}
NETPERF = {"probe": "netperf", "from": "sensor", "to": "ecu"}
TIMER = {"probe": "timer", "on": "ecu"}
CYCLICTEST = {"probe": "cyclictest", "on": "ecu"}
KINDS: dict[str, dict[str, Any]] = {
    "ping": PING,
    "dds": PING | {"probe": "dds"},
    "ddsperf": PING | {"probe": "ddsperf"},
    "netperf": NETPERF,
    "sockperf": SOCKPERF,
    "timer": {"probe": "timer", "on": "ecu", "how": "timerfd", "threshold": "30us", "trace": True},
    "cyclictest": {"probe": "cyclictest", "on": "ecu"},
    "timerlat": {"probe": "timerlat", "on": "ecu", "period": "1ms"},
}


def test_every_kind_of_probe_is_a_scenario(with_: With) -> None:
    scenario = with_({f"probes.{name}": entry for name, entry in KINDS.items()}).scenario
    assert [probe.probe for probe in scenario.probes.values()] == list(KINDS)
    assert scenario.probe_hosts("ping") == ("sensor", "ecu")
    assert scenario.probe_hosts("timer") == ("ecu",)


def test_streams_may_be_absent_next_to_a_probe(with_: With, said: Said) -> None:
    assert list(with_({"streams": None, "probes.rr": PING}).scenario.flows) == ["rr.up", "rr.down"]
    assert said({"streams": None}) == [
        "streams: nothing is measured; expected a stream in streams, a probe in probes, or a flow in flows"
    ]


def test_a_leg_up_has_the_schedule_and_both_legs_a_number_of_their_own(with_: With) -> None:
    scenario = with_({"probes.loop": PING | {"transport": "tcp"}, "probes.rr": RATE | {"offset": "250us"}}).scenario
    flows = scenario.flows
    assert [(name, flow.number) for name, flow in flows.items()] == [
        ("control", 1),
        ("loop.up", 2),
        ("loop.down", 3),
        ("rr.up", 4),
        ("rr.down", 5),
    ]
    assert (flows["rr.up"].period, flows["rr.up"].offset) == (1_000_000, 250_000)
    assert (flows["rr.down"].period, flows["loop.up"].period) == (None, None)
    assert [scenario.packet_count(name) for name in flows] == [10_000, None, None, 10_000, None]
    assert (flows["rr.down"].sender, flows["rr.down"].receiver) == ("ecu", "sensor")


def test_answers_go_back_the_way_of_their_questions(with_: With) -> None:
    scenario = with_({"probes.rr": RATE}).scenario
    up, down = scenario.route("rr.up"), scenario.route("rr.down")
    assert (up.talker_end, up.listener_end) == (down.listener_end, down.talker_end)
    assert (str(up.source), str(up.destination)) == ("10.78.0.1", "10.78.0.2")
    assert (str(down.source), str(down.destination)) == ("10.78.0.2", "10.78.0.1")


def test_tools_take_ports_that_no_stream_and_no_ping_has(with_: With) -> None:
    probes = {"probes.n": NETPERF, "probes.s": SOCKPERF, "probes.rr": RATE | {"port": 5591}, "probes.m": NETPERF}
    scenario = with_(probes).scenario
    assert [scenario.port(f"{name}.up") for name in ("n", "s", "rr", "m")] == [5592, 5594, 5591, 5595]
    assert not scenario.flows["n.up"].is_recorded
    assert list(scenario.recorded) == ["control", "rr.up", "rr.down"]


@pytest.mark.parametrize("size", ["64B", "9kB", "65507B"])
@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_a_ping_may_be_larger_than_a_frame(said: Said, transport: str, size: str) -> None:
    assert said({"probes.rr": PING | {"transport": transport, "size": size}}) == []


P = "probes.rr"
WRONG: list[tuple[dict[str, Any], str]] = [
    ({P: PING | {"transport": "ethernet", "size": "1501B"}}, f"{P}.size: 1501B do not fit into a frame"),
    ({P: RATE | {"offset": "1ms"}}, f"{P}.offset: an offset of 1ms is a period or more; expected less than 1ms"),
    ({P: PING | {"offset": "1ms"}}, f"{P}.offset: a closed loop has no period, so it has no offset"),
    ({P: PING | {"transport": "tcp", "vlan": 5}}, f"{P}.vlan: a TCP socket writes no VLAN tag"),
    ({P: PING | {"pcp": 5}}, f"{P}.pcp: a pcp is part of a VLAN tag; expected a vlan in addition"),
    ({P: PING | {"transport": "ethernet", "port": 80}}, f"{P}.port: raw frames have no port"),
    (
        {P: PING | {"transport": "tcp", "timestamps": "kernel"}, "timestamps": {"by": "socket"}},
        f"{P}.timestamps: the socket has no timestamps of TCP messages",
    ),
    ({P: PING | {"timestamps": "nobody"}}, f"{P}.timestamps: "),
    (
        {P: PING | {"probe": "dds", "timestamps": "kernel"}, "timestamps": {"by": "both"}},
        f"{P}.timestamps: the socket has no timestamps of DDS samples",
    ),
    (
        {P: PING | {"probe": "dds", "timestamps": "kernel", "size": "64505B"}},
        f"{P}.timestamps: a sample of 64505B goes in several datagrams, which have no kernel timestamps",
    ),
    ({P: PING | {"transport": "tcp", "ethertype": 0x88B6}}, f"{P}.ethertype: TCP has its own EtherType"),
    ({P: PING | {"size": "39B"}}, f"{P}.size: 39B is too small; expected 40B or more"),
    ({P: PING | {"timeout": "0"}}, f"{P}.timeout"),
    ({P: PING | {"to": "sensor"}}, f"{P}.to: sensor would send to itself; expected another host"),
    ({P: PING | {"to": "ecuu"}}, f"{P}.to: unknown host 'ecuu'; expected ecu?"),
    ({P: PING | {"from": "ecuu"}}, f"{P}.from: unknown host 'ecuu'; expected ecu?"),
    ({P: PING | {"via": "sensor.eth9"}}, f"{P}.via: unknown path 'sensor.eth9'"),
    ({"links": [], P: NETPERF, "streams": None, "loads": None}, f"{P}: no link joins sensor and ecu"),
    ({P: PING | {"port": 5557}}, f"{P}.port: port 5557 of ecu is taken by control; expected another port"),
    ({P: PING | {"port": 5556}, "clock.sync": "exchange"}, f"{P}.port: port 5556 is used by the clock exchange"),
    ({P: RATE | {"period": "999ns"}}, f"{P}.period: 999ns"),
    ({P: SOCKPERF | {"period": "3ms"}}, f"{P}.period: that is not a whole number of messages a second"),
    (
        {P: NETPERF | {"period": "1500ns"}},
        f"{P}.period: that is not a whole number of microseconds; expected a period such as 10ms or 500us",
    ),
    (
        {P: SOCKPERF, "duration": "1500ms", "warmup": "501ms"},
        f"{P}: sockperf measures for whole seconds, and 999ms are left after the warm-up",
    ),
    ({P: SOCKPERF | {"size": "13B"}}, f"{P}.size: 13B"),
    ({P: {"probe": "timer", "on": "ecu", "offset": "1ms"}}, f"{P}.offset: an offset of 1ms is a period or more"),
    (
        {P: TIMER | {"period": "9s"}, "duration": "9s", "warmup": "8s"},
        f"{P}.period: none of its instants is after the warm-up, 8s",
    ),
    ({P: TIMER | {"period": "1us"}, "duration": "5000s"}, f"{P}.period: 5000000000 instants; expected 4294967295"),
    ({P: CYCLICTEST | {"period": "1500ns"}}, f"{P}.period: cyclictest takes its period in whole microseconds"),
    (
        {P: CYCLICTEST, "duration": "1500ms", "warmup": "501ms"},
        f"{P}: cyclictest measures for whole seconds, and 999ms are left after the warm-up",
    ),
    ({P: TIMER, "accept": {"rr.up.wakeup.max": "1ms"}}, "accept.rr.up.wakeup.max: rr is a timer: it has no leg up"),
    ({P: TIMER, "accept": {"rr.latency.max": "1ms"}}, "accept.rr.latency.max: rr is a timer: it sends nothing"),
    ({P: TIMER, "accept": {"rr.counts.lost": 0}}, "accept.rr.counts.lost: timer counts no lost; expected rr.counts."),
    ({P: CYCLICTEST, "accept": {"rr.counts.above": 0}}, "accept.rr.counts.above: cyclictest counts no above"),
    (
        {P: CYCLICTEST, "accept": {"rr.dispatch.max": "1ms"}},
        "accept.rr.dispatch.max: cyclictest has no dispatch; expected one of wakeup",
    ),
    (
        {P: TIMER | {"trace": False}, "accept": {"rr.interrupt.max": "1ms"}},
        "accept.rr.interrupt.max: without a trace a timer has no interrupt; expected one of wakeup",
    ),
    ({P: RATE, "accept": {"rr.dispatch.max": "1ms"}}, "accept.rr.dispatch.max: rr sends packets: it is not a timer"),
    ({"accept": {"control.dispatch.max": "1ms"}}, "accept.control.dispatch.max: control is a stream, not a timer"),
    ({P: TIMER, "accept": {"rr.wakeup.p99.99": "1ms"}}, "accept.rr.wakeup.p99.99: rr has 10000 packets"),
    ({P: {"probe": "timer", "on": "ecuu"}}, f"{P}.on: unknown host 'ecuu'; expected ecu?"),
    ({P: {"from": "sensor", "to": "ecu"}}, f"{P}: probe is missing; expected probe: what it is"),
    ({P: PING | {"probe": "pong"}}, f"{P}: unknown probe 'pong'; expected ping? (known: ping, dds, "),
    ({P: PING | {"sizee": 1}}, f"{P}.sizee: unknown key 'sizee'; expected size?"),
    ({"probes.control": PING}, "probes.control: control is a stream already; expected a different name"),
    ({"probes.none": PING}, "probes.none: a probe cannot be named none"),
    (
        {P: RATE, "accept": {"rr.latency.max": "1ms"}},
        "accept.rr.latency.max: rr is a probe: latency belongs to one of its directions",
    ),
    ({P: RATE, "accept": {"rr.up.turn.max": "1ms"}}, "accept.rr.up.turn.max: turn belongs to the whole probe"),
    (
        {P: NETPERF, "accept": {"rr.up.latency.max": "1ms"}},
        "accept.rr.up.latency.max: netperf does not separate up from",
    ),
    (
        {"accept": {"control.up.latency.max": "1ms"}},
        "accept.control.up.latency.max: control is a stream: it has no leg",
    ),
    ({"accept": {"control.round_trip.max": "1ms"}}, "accept.control.round_trip.max: control is a stream: its packets"),
    (
        {"accept": {"control.counts.late": 0}},
        "accept.control.counts.late: control is a stream: its packets are not answered",
    ),
    ({P: RATE, "accept": {"rr.round_trip.p99.99": "1ms"}}, "accept.rr.round_trip.p99.99: rr has 10000 packets"),
    (
        {P: PING, "tuning.sensor.listener.mode": "spin", "tuning.sensor.listener.cpus": [1]},
        f"{P}: sensor would poll for answers at SCHED_FIFO 90 on every CPU",
    ),
    (
        {
            P: RATE | {"priority": 5},
            "shapers": {
                "ecu.eth0": {
                    "kind": "taprio",
                    "mode": "software",
                    "map": {5: 1},
                    "gates": [{"open": [0], "for": "1ms"}],
                }
            },
            "links.0.queues": 2,
        },
        f"{P}: priority 5 is traffic class 1 at ecu.eth0",
    ),
    ({"matrix": {"probes": ["x"]}, P: RATE}, "matrix.probes[0]: unknown probe 'x'; expected one of none, rr"),
    (
        {"matrix": {"probes": [["none", "rr"]]}, P: RATE},
        "matrix.probes[0]: ['none', 'rr'] is not a combination of probes",
    ),
    ({"matrix": {"probes": [3]}, P: RATE}, "matrix.probes[0]: 3 names no probe; expected a probe, a list of probes"),
    ({"matrix": {"probes.rr.sise": ["64B"]}, P: RATE}, "matrix.probes.rr.sise: unknown key 'sise' in probes.rr"),
]


@pytest.mark.parametrize(("values", "expected"), WRONG, ids=[expected for _, expected in WRONG])
def test_what_is_wrong_with_a_probe_is_reported_where_it_stands(
    said: Said, values: dict[str, Any], expected: str
) -> None:
    found = said(values)
    assert len(found) == 1, found
    assert found[0].startswith(expected)


def test_an_answerer_sends_as_many_as_it_is_asked(said: Said) -> None:
    back = {"talker": "ecu", "listener": "sensor", "period": "1us", "size": "64B"}
    found = said({P: RATE | {"period": "1us"}, "streams.back": back, "probes.more": RATE | {"period": "1us"}})
    assert [one.split(";")[0] for one in found] == [
        "probes.more.period: sensor would send 2001000 packets/s",
        "probes.more.period: ecu would send 3000000 packets/s",
    ]


def test_a_cell_runs_the_probes_that_the_matrix_says(with_: With) -> None:
    matrix = {"probes": ["none", "rr", ["rr", "s"]]}
    found = cells(with_({P: RATE, "probes.s": SOCKPERF, "matrix": matrix}))
    assert [list(cell.scenario.probes) for cell in found] == [[], ["rr"], ["rr", "s"]]
    assert [cell.slug for cell in found] == ["probes=none", "probes=rr", "probes=rr+s"]


def test_a_value_of_a_probe_that_a_cell_does_not_run_makes_no_cell_of_its_own(with_: With) -> None:
    matrix = {"probes": ["rr", "s"], "probes.rr.size": ["64B", "9kB"], "links.0.mtu": [1500, 9000]}
    found = cells(with_({P: RATE, "probes.s": SOCKPERF, "matrix": matrix}))
    assert [cell.label for cell in found] == [
        {"probes": ["rr"], "probes.rr.size": "64B", "links.0.mtu": 1500},
        {"probes": ["rr"], "probes.rr.size": "64B", "links.0.mtu": 9000},
        {"probes": ["rr"], "probes.rr.size": "9kB", "links.0.mtu": 1500},
        {"probes": ["rr"], "probes.rr.size": "9kB", "links.0.mtu": 9000},
        {"probes": ["s"], "links.0.mtu": 1500},
        {"probes": ["s"], "links.0.mtu": 9000},
    ]


def test_a_limit_on_a_probe_is_one_of_the_cells_that_run_it(with_: With) -> None:
    accept = {"rr.round_trip.max": "1ms", "rr.up.latency.p99.9": "1ms", "control.latency.max": "2ms"}
    found = cells(with_({P: RATE, "accept": accept, "matrix": {"probes": ["none", "rr"]}}))
    assert [list(cell.scenario.accept) for cell in found] == [["control.latency.max"], list(accept)]
    (up,) = (limit for limit in found[1].scenario.limits() if limit.stream == "rr.up")
    assert (up.group, up.statistic, up.statistic_key, up.limit) == ("latency", "p99.9", "p99_9", 1_000_000)


def test_clocks_are_compared_for_ways_that_are_told_apart_only(said: Said) -> None:
    here = {
        "hosts": {"sensor": {"kind": "local"}, "ecu": {"kind": "local"}},
        "links.0.ends": ["sensor.eth0", "ecu.eth1"],
        "clock": {"sync": "exchange"},
        "loads": {},
    }
    frames = here | {"streams": None, P: PING | {"transport": "ethernet"}}
    assert said(frames) == [
        "clock.sync: sensor and ecu are both local: they share a clock, and their cable has no addresses; expected auto"
    ]
    assert not any("clock.sync" in one for one in said(frames | {P: SOCKPERF})), "a tool has one clock"


def test_a_timer_is_limited_by_its_whole_its_parts_and_its_counts(with_: With) -> None:
    accept = {"rr.wakeup.p99": "1ms", "rr.interrupt.max": "1ms", "rr.dispatch.mean": "1ms", "rr.counts.overdue": 0}
    scenario = with_({P: TIMER, "accept": accept}).scenario
    assert [limit.group for limit in scenario.limits()] == ["wakeup", "interrupt", "dispatch", "counts"]
