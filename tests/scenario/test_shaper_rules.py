"""Shapers: what does not fit together, and is reported at its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from latlab.scenario import Loaded, Problem
from support.scenario.shapers import (
    ALONE,
    ASSIST,
    CBS,
    ETF,
    EVERYTHING,
    FOUR,
    GATES,
    HANDED_ON,
    LAUNCHED,
    MQPRIO,
    ON_BOARD,
    TAKES_ALL,
    TAPRIO,
    TBF,
    TWO_LOCAL,
    S,
)

With = Callable[..., Loaded]
Said = Callable[[dict[str, Any]], list[str]]

# What does not fit together.

NO_LAUNCH = "packets without a launch time are dropped by the etf at sensor.eth0"
NEEDS_SKIP = (
    "txtime-assist gives launch times to packets of sockets that ask for none; "
    "expected kind: etf with skip_sock_check: true"
)
ALIKE = "expected the same beneath each queue of a class"
CBS_KEYS = "kind, idle_slope, send_slope, hi_credit, lo_credit, frame, interference, offload, speed"

WRONG: list[tuple[dict[str, Any], list[str]]] = [
    # what is put into the base scenario, what is said, all of it
    ({"shapers/sensor.eth1": CBS}, [
        "shapers.sensor.eth1: unknown end of a link 'sensor.eth1'; expected sensor.eth0? (known: sensor.eth0, ecu.eth0)"
    ]),
    ({"shapers/sensr.eth0": CBS}, [
        "shapers.sensr.eth0: unknown host 'sensr'; expected sensor? (known: sensor, ecu)"
    ]),
    ({"shapers/sensor": CBS}, [
        "shapers.sensor: 'sensor' is not host.interface; expected a host and its interface, such as sensor.eth0"
    ]),
    (FOUR | {S: MQPRIO | {"map": {"16": 1}}}, [
        "shapers.sensor.eth0.map.16: '16' is too large; expected 15 or less"
    ]),
    (FOUR | {S: MQPRIO | {"queues": [1]}}, [
        "shapers.sensor.eth0.queues: 1 classes have queues, and class 1 is named; expected a number for each class"
    ]),
    (FOUR | {S: MQPRIO | {"rest": 2, "queues": [1, 1]}, "streams.control.launch_time": True}, [
        "shapers.sensor.eth0.queues: 2 classes have queues, and class 2 is named; expected a number for each class"
    ]),
    (FOUR | {S: MQPRIO | {"children": {"2": CBS}}}, [
        "shapers.sensor.eth0.children.2: the classes have no queue 2; expected 0 to 1"
    ]),
    ({S: MQPRIO}, [
        "shapers.sensor.eth0: 2 transmit queues are needed, links[0] has 1; expected links[0].queues of 2 or more"
    ]),
    (ON_BOARD | {"shapers/board1.eth0": MQPRIO | {"queues": [2, 1]}}, [
        "shapers.board1.eth0: 3 transmit queues are needed, links[0] has 1; expected links[0].queues of 3 or more"
    ]),
    (FOUR | {S: TAPRIO | {"shift": "200us"}}, [
        "shapers.sensor.eth0.shift: a shift of 200us is a cycle or more; expected less than 200us"
    ]),
    (FOUR | {S: TAPRIO | {"gates": [*GATES, {"open": [], "for": "47ns"}]}}, [
        "shapers.sensor.eth0.gates[2].for: 47ns is too short for the smallest frame; expected 48ns or more"
    ]),
    (FOUR | {S: TAPRIO | {"speed": "100Mbit/s", "gates": [*GATES, {"open": [], "for": "4799ns"}]}}, [
        "shapers.sensor.eth0.gates[2].for: 4799ns is too short for the smallest frame; expected 4800ns or more"
    ]),
    (TWO_LOCAL | {S: TAPRIO | {"gates": [*GATES, {"open": [], "for": "479ns"}]}}, [
        "shapers.sensor.eth0.gates[2].for: 479ns is too short for the smallest frame; expected 480ns or more"
    ]),
    ({S: CBS | {"idle_slope": "10Gbit/s", "speed": "10Gbit/s"}}, [
        "shapers.sensor.eth0.idle_slope: 10Gbit/s is the full rate of the port; expected less than 10Gbit/s"
    ]),
    (FOUR | {S: MQPRIO | {"children": {"1": CBS}, "speed": "20Mbit/s"}}, [
        "shapers.sensor.eth0.children.1.idle_slope: 20Mbit/s is the full rate of the port; expected less than "
        "20Mbit/s"
    ]),
    (FOUR | {S: ASSIST | {"cpu": 0}}, [
        "shapers.sensor.eth0.cpu: mode txtime-assist has no timer for its gates; expected mode: software",
    ]),
    (FOUR | {S: TAPRIO | {"txtime_delay": "1ms", "delta": "1us"}}, [
        "shapers.sensor.eth0.txtime_delay: mode software computes no launch times; expected mode: txtime-assist",
        "shapers.sensor.eth0.delta: mode software computes no launch times; expected mode: txtime-assist",
    ]),
    (FOUR | {S: TAPRIO | {"mode": "offload", "delta": "200us"}}, [
        "shapers.sensor.eth0.delta: mode offload computes no launch times; expected mode: txtime-assist",
    ]),
    (FOUR | {S: ASSIST | {"children": {"1": ETF}}}, [f"shapers.sensor.eth0.children.1: {NEEDS_SKIP}"]),
    (FOUR | {S: ASSIST | {"children": {"0": CBS}}}, [f"shapers.sensor.eth0.children.0: {NEEDS_SKIP}"]),
    (FOUR | {S: ASSIST | {"txtime_delay": "200us"}}, [
        "shapers.sensor.eth0.txtime_delay: 200us pass before the etf, 200us ahead, has it; expected more than its "
        "delta, 200us"
    ]),
    (FOUR | {S: ASSIST | {"txtime_delay": "0ns", "delta": "0ns"}}, [
        "shapers.sensor.eth0.txtime_delay: 0ns pass before the etf, 0ns ahead, has it; expected more than its delta, "
        "0ns"
    ]),
    (FOUR | {S: ASSIST | {"delta": "0ns"}}, [
        "shapers.sensor.eth0.delta: 0ns leave a packet no time to reach its etf; expected more than 0ns"
    ]),
    (FOUR | {S: ASSIST | {"children": dict.fromkeys("01", TAKES_ALL | {"delta": "0ns"})}}, [
        "shapers.sensor.eth0.children.0.delta: 0ns leave a packet no time to reach its etf; expected more than 0ns"
    ]),
    (FOUR | {S: ASSIST | {"children": dict.fromkeys("01", CBS)}}, [
        f"shapers.sensor.eth0.children.{queue}: {NEEDS_SKIP}" for queue in (0, 1)
    ]),
    (ALONE | {S: TAKES_ALL}, [
        f"streams.control: {NO_LAUNCH}; expected launch_time: true, or another priority",
    ]),
    (FOUR | {S: ASSIST | {"txtime_delay": "150us", "children": {"1": TAKES_ALL | {"delta": "100us"}}}}, [
        "shapers.sensor.eth0.txtime_delay: 150us pass before the etf, 200us ahead, has it; expected more than its "
        "delta, 200us"
    ]),
    (FOUR | {S: TAPRIO | {"rest": 2}}, [
        "streams.control: priority 0 is traffic class 2 at sensor.eth0, whose gate never opens; "
        "expected a gate for it, or another priority",
        "loads.same: priority 0 is traffic class 2 at sensor.eth0, whose gate never opens; "
        "expected a gate for it, or another priority",
        # What answers it.
        "loads.back: priority 0 is traffic class 2 at sensor.eth0, whose gate never opens; expected a gate for it",
    ]),
    ({S: ETF}, [
        f"streams.control: {NO_LAUNCH}; expected launch_time: true, or another priority",
        f"loads.same: {NO_LAUNCH}; expected another priority",
        f"loads.back: {NO_LAUNCH}; expected no etf for that of priority 0",
    ]),
    (FOUR | {S: MQPRIO | {"children": {"1": ETF}}, "streams.control.priority": 5}, [
        f"streams.control: {NO_LAUNCH}; expected launch_time: true, or another priority",
    ]),
    (ALONE | {S: ETF, "streams.control.launch_time": {"deadline": True}}, [
        "streams.control.launch_time: the etf at sensor.eth0 has deadline: false, and drops packets that differ; "
        "expected deadline: false"
    ]),
    (ALONE | {S: ETF | {"deadline": True}, "streams.control.launch_time": True}, [
        "streams.control.launch_time: the etf at sensor.eth0 has deadline: true, and drops packets that differ; "
        "expected deadline: true"
    ]),
    (ALONE | {S: ETF, "streams.control.launch_time": {"lead": "200us"}}, [
        "streams.control.launch_time: a lead of 200us ends before the etf at sensor.eth0 wakes for the packet; "
        "expected a lead of more than its delta, 200us"
    ]),
    (FOUR | {S: TAPRIO, "shapers/ecu.eth0": TAPRIO | {"gates": [{"open": [0, 1], "for": "100003us"}]}}, [
        "shapers: cycles of 200us, 100003us begin together only every 20000600us; "
        "expected cycles whose least common multiple is 1s or less"
    ]),
    (FOUR | {S: TAPRIO | {"gates": [{"open": [0, 1], "for": "1000000001ns"}]}}, [
        "shapers: cycles of 1000000001ns begin together only every 1000000001ns; "
        "expected cycles whose least common multiple is 1s or less"
    ]),
    (HANDED_ON | {"shapers/board2.eth0": CBS}, [
        "shapers.board2.eth0: VFIO passes board2.eth0 through to vm1: in a guest only a tbf can be set up; expected "
        "kind: tbf, or another bridge"
    ]),
    (FOUR | {S: MQPRIO | {"queues": [2, 2], "children": {"1": ETF, "2": ETF, "3": ETF}}} | ALONE, [
        f"shapers.sensor.eth0.children.1: class 0 has an etf beneath queue 1 and none beneath queue 0; {ALIKE}",
    ]),
    (FOUR | {S: MQPRIO | {"queues": [1, 3], "children": {"1": CBS, "2": CBS}}}, [
        f"shapers.sensor.eth0.children.1: class 1 has a cbs beneath queue 1 and none beneath queue 3; {ALIKE}",
    ]),
    (FOUR | {S: MQPRIO | {"queues": [1, 2], "children": {"1": ETF, "2": CBS}}}, [
        f"shapers.sensor.eth0.children.1: class 1 has an etf beneath queue 1 and a cbs beneath queue 2; {ALIKE}",
    ]),
    (FOUR | {S: TAPRIO | {"queues": [1, 2], "children": {"1": CBS, "2": CBS | {"idle_slope": "1Mbit/s"}}}}, [
        f"shapers.sensor.eth0.children.1: class 1 has another cbs beneath queue 1 than beneath queue 2; {ALIKE}",
    ]),
    (FOUR | {S: ASSIST | {"queues": [2, 1], "children": {"1": TAKES_ALL | {"delta": "1us"}}}}, [
        f"shapers.sensor.eth0.children.1: class 0 has another etf beneath queue 1 than beneath queue 0; {ALIKE}",
    ]),
    # what is wrong in itself
    ({S: TBF | {"rate": "7kbit/s"}}, ["shapers.sensor.eth0.rate: 7kbit/s is too small; expected 8kbit/s or more"]),
    ({S: TBF | {"burst": "64B"}}, ["shapers.sensor.eth0.burst: 64B is too small; expected 1522B or more"]),
    ({S: {"kind": "tapiro"}}, [
        "shapers.sensor.eth0: unknown kind 'tapiro'; expected taprio? (known: taprio, mqprio, etf, cbs, tbf)"
    ]),
    (FOUR | {S: MQPRIO | {"children": {"0": MQPRIO}}}, [
        "shapers.sensor.eth0.children.0: unknown kind 'mqprio'; expected one of etf, cbs"
    ]),
    (FOUR | {S: MQPRIO | {"children": {"first": CBS}}}, [
        "shapers.sensor.eth0.children.first: 'first' is not a number; expected an integer such as 0"
    ]),
    (FOUR | {S: TAPRIO | {"mode": "hardware"}}, [
        "shapers.sensor.eth0.mode: 'hardware' is not supported; expected software, txtime-assist or offload"
    ]),
    (FOUR | {S: TAPRIO | {"gates": []}}, ["shapers.sensor.eth0.gates: too few; expected 1 or more"]),
    (FOUR | {S: TAPRIO | {"gates": [GATES[0]] * 31}}, [
        "shapers.sensor.eth0.gates: 31 entries; expected 30 or fewer, which is what tc(8) can hand over "
        "(1024 bytes, q_taprio.c of iproute2)"
    ]),
    (FOUR | {S: TAPRIO | {"gates": [{"open": [1, 1], "for": "1us"}]}}, [
        "shapers.sensor.eth0.gates[0].open: a class twice in [1, 1]; expected each class once"
    ]),
    (FOUR | {S: TAPRIO | {"gates": [*GATES, {"open": [16], "for": "1us"}]}}, [
        "shapers.sensor.eth0.gates[2].open[0]: 16 is too large; expected less than 16"
    ]),
    (FOUR | {S: TAPRIO | {"gates": [{"open": [1], "for": 100}]}}, [
        "shapers.sensor.eth0.gates[0].for: 100 has no unit; expected a duration such as 1006us"
    ]),
    (FOUR | {S: TAPRIO | {"gates": [*GATES, {"open": [1], "for": "5s"}]}}, [
        "shapers.sensor.eth0.gates[2].for: 5s is too large; expected 4294967295ns or less"
    ]),
    ({S: CBS | {"idle_slope": "20MB"}}, [
        "shapers.sensor.eth0.idle_slope: '20MB' is not a rate; "
        "expected a rate such as 100Mbit/s (units: bit/s, kbit/s, Mbit/s, Gbit/s)"
    ]),
    ({S: CBS | {"idle_slope": "1500bit/s"}}, [
        "shapers.sensor.eth0.idle_slope: 1500bit/s is a fraction of 1kbit/s; expected a whole number of kbit/s"
    ]),
    ({S: CBS | {"idle_slope": 20}}, [
        "shapers.sensor.eth0.idle_slope: 20 has no unit; expected a rate such as 100Mbit/s"
    ]),
    ({S: CBS | {"frame": "63B"}}, ["shapers.sensor.eth0.frame: 63B is too small; expected 64B or more"]),
    ({S: CBS | {"send_slope": -980_000_500}}, [
        "shapers.sensor.eth0.send_slope: -980000500 bit/s is a fraction of 1kbit/s; expected a multiple of 1000: a "
        "whole number of kbit/s"
    ]),
    ({"links.0.queues": 16, S: MQPRIO | {"queues": [1] * 17}}, [
        "shapers.sensor.eth0.queues: too many; expected 16 or fewer"
    ]),
    ({"links.0.queues": 16, S: MQPRIO | {"queues": [1, 16]}}, [
        "shapers.sensor.eth0: 17 transmit queues are needed, links[0] has 16; expected 16 or fewer, which is what the "
        "link can have"
    ]),
    ({S: CBS | {"send_slope": 0}}, ["shapers.sensor.eth0.send_slope: 0 is too large; expected less than 0"]),
    ({S: TAKES_ALL | {"delta": "200"}} | LAUNCHED, [
        "shapers.sensor.eth0.delta: '200' is not a duration; "
        "expected a duration such as 1006us (units: ns, us, µs, μs, ms, s, min, h)"
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("values", "lines"), WRONG, ids=[lines[0].split("; ")[0][:80] for _, lines in WRONG])
def test_what_does_not_fit_is_reported_where_it_stands(said: Said, values: dict[str, Any], lines: list[str]) -> None:
    assert said(values) == lines


FINE: list[dict[str, Any]] = [
    EVERYTHING,
    FOUR | {S: MQPRIO | {"map": {"15": 1}}},
    FOUR | {S: MQPRIO | {"queues": [1, 3]}},
    {"links.0.queues": 16, S: MQPRIO | {"queues": [1] * 16}},
    {S: CBS | {"send_slope": -980_001_000}},
    {"links.0.queues": 2, S: MQPRIO},
    FOUR | {S: MQPRIO | {"children": {"1": CBS}}},
    FOUR | {S: MQPRIO | {"queues": [2, 2], "children": {"2": ETF, "3": ETF}}},
    FOUR | {S: ASSIST | {"queues": [2, 2], "children": {"1": TAKES_ALL}}},
    TWO_LOCAL | {S: MQPRIO | {"queues": [4, 4]}},
    ON_BOARD | {"links.0": {"ends": ["board1.eth0", "board2.eth0"], "queues": 2}, "shapers/board1.eth0": MQPRIO},
    FOUR | {S: TAPRIO | {"shift": "199999ns"}},
    FOUR | {S: TAPRIO | {"gates": [GATES[0]] * 30}},
    FOUR | {S: TAPRIO | {"gates": [*GATES, {"open": [], "for": "48ns"}]}},
    FOUR | {S: TAPRIO | {"speed": "100Mbit/s", "gates": [*GATES, {"open": [], "for": "4800ns"}]}},
    TWO_LOCAL | {S: TAPRIO | {"gates": [*GATES, {"open": [], "for": "480ns"}]}},
    {S: CBS | {"idle_slope": "9999999kbit/s"}},
    {S: CBS | {"idle_slope": "10Gbit/s", "speed": "25Gbit/s"}},
    FOUR | {S: MQPRIO | {"children": {"1": CBS | {"speed": "100Mbit/s"}}, "speed": "20Mbit/s"}},
    FOUR | {S: ASSIST | {"txtime_delay": "1ms", "delta": "1us"}},
    FOUR | {S: ASSIST | {"children": {"1": TAKES_ALL}}},
    FOUR | {S: TAPRIO | {"children": {"1": CBS}}},
    FOUR | {S: ASSIST | {"txtime_delay": "200001ns"}},
    FOUR | {S: ASSIST | {"delta": "1ns"}},
    FOUR | {S: ASSIST | {"delta": "0ns", "children": {"1": TAKES_ALL}}},
    FOUR | {S: TAPRIO | {"rest": 2, "gates": [*GATES, {"open": [2], "for": "1us"}]}},
    FOUR | {"shapers/ecu.eth0": TAPRIO | {"rest": 2}} | ALONE,
    {S: TAKES_ALL} | LAUNCHED,
    FOUR | {S: MQPRIO | {"children": {"1": ETF}}},
    {S: ETF} | LAUNCHED,
    {S: TBF},
    HANDED_ON | {"shapers/board2.eth0": TBF},
    ALONE | {S: ETF | {"deadline": True}, "streams.control.launch_time": {"deadline": True}},
    ALONE | {S: ETF, "streams.control.launch_time": {"lead": "200001ns"}},
    FOUR | {S: TAPRIO | {"gates": [{"open": [0, 1], "for": "1s"}]}},
    FOUR | {S: MQPRIO, "shapers/ecu.eth0": TAPRIO | {"gates": [{"open": [0, 1], "for": "100003us"}]}},
]


@pytest.mark.parametrize("values", FINE)
def test_what_fits_is_accepted(said: Said, values: dict[str, Any]) -> None:
    assert said(values) == []


def test_unknown_keys_beneath_a_shaper_are_reported_in_their_lines_with_the_closest_one(
    problems: Callable[[str], list[Problem]], base: str
) -> None:
    text = base.replace("ecu.eth0]}", "ecu.eth0], queues: 2}") + (
        "shapers:\n"
        "  sensor.eth0:\n"
        "    kind: taprio\n"
        "    mode: software\n"
        "    map: {5: 1}\n"
        "    gates:\n"
        "      - {open: [0, 1], for: 100us}\n"
        "      - open: [1]\n"
        "        fro: 100us\n"
        "        for: 100us\n"
        "    children:\n"
        "      0:\n"
        "        kind: cbs\n"
        "        idle_slope: 20Mbit/s\n"
        "        idleslope: 20Mbit/s\n"
    )
    above = len(base.splitlines())
    gate, child = problems(text)
    assert (gate.line, gate.path, gate.what) == (above + 9, "shapers.sensor.eth0.gates[1].fro", "unknown key 'fro'")
    assert gate.expected == "for? (known: open, for)"
    assert (child.line, child.path) == (above + 15, "shapers.sensor.eth0.children.0.idleslope")
    assert child.what == "unknown key 'idleslope'"
    assert child.expected == f"idle_slope? (known: {CBS_KEYS})"


def test_every_mistake_of_a_shaper_is_reported_at_once(said: Said) -> None:
    values = FOUR | {
        S: TAPRIO
        | {
            "map": {"x": 1, "16": 1},
            "children": {"0": CBS | {"idle_slope": 1, "frame": "1B"}, "9": CBS | {"slope": 1}, "1": {"kind": "fq"}},
            "gates": [{"open": [0, 0], "for": "1us"}, {"for": "1us"}],
            "shift": "-1us",
            "delta": "1us",
        },
        "shapers/gone.eth0": {"kind": "etf", "delta": "3s"},
    }
    assert sorted(line.split(": ")[0] for line in said(values)) == [
        "shapers.gone.eth0",
        "shapers.gone.eth0.delta",
        "shapers.sensor.eth0.children.0.frame",
        "shapers.sensor.eth0.children.0.idle_slope",
        "shapers.sensor.eth0.children.1",
        "shapers.sensor.eth0.children.9.slope",
        "shapers.sensor.eth0.delta",
        "shapers.sensor.eth0.gates[0].open",
        "shapers.sensor.eth0.gates[1].open",
        "shapers.sensor.eth0.map.16",
        "shapers.sensor.eth0.map.x",
        "shapers.sensor.eth0.shift",
    ]


def test_a_mode_that_spoils_a_cell_is_a_mistake_in_its_line_of_the_matrix(said: Said) -> None:
    matrix = {"matrix/shapers.sensor.eth0.mode": ["txtime-assist", "software"]}
    assert said(FOUR | {S: ASSIST | {"delta": "1us"}} | matrix) == [
        "matrix.shapers.sensor.eth0.mode[1]: in cell shapers.sensor.eth0.mode=software: "
        "shapers.sensor.eth0.delta: mode software computes no launch times; expected mode: txtime-assist"
    ]


def test_a_key_of_the_matrix_that_a_shaper_does_not_have_is_reported_with_the_closest_one(said: Said) -> None:
    (line,) = said(FOUR | {S: MQPRIO, "matrix/shapers.sensor.eth0.rset": [1]})
    assert line.startswith(
        "matrix.shapers.sensor.eth0.rset: unknown key 'rset' in shapers.sensor.eth0; expected rest? (known: map, rest,"
    )


def test_at_the_hosts_port_what_a_guest_sends_has_priority_0(said: Said) -> None:
    from_guest = {
        "guests": {"vm1": {"host": "ecu", "uplink": "eth0"}},
        "streams.control.talker": "vm1",
        "streams.control.listener": "sensor",
        "streams.control.priority": 7,
    }
    never = {"kind": "taprio", "mode": "software", "map": {"7": 1}, "rest": 0, "gates": [{"open": [1], "for": "1ms"}]}
    port = "shapers/ecu.eth0"
    assert said(FOUR | ALONE | from_guest | {port: never}) == [
        "streams.control: priority 0 is traffic class 0 at ecu.eth0, whose gate never opens; expected a gate for it"
    ]
    assert said(FOUR | ALONE | from_guest | {port: ETF}) == [
        "streams.control: packets without a launch time are dropped by the etf at ecu.eth0; expected no etf for "
        "that of priority 0"
    ]
    assert said(FOUR | ALONE | from_guest | {"guests.vm1.bridge": "xdp", port: ETF}) == []


def test_what_answers_a_load_of_tcp_passes_the_receivers_gates(said: Said) -> None:
    never = {"kind": "taprio", "mode": "software", "map": {"7": 1}, "rest": 0, "gates": [{"open": [1], "for": "1ms"}]}
    load = {"loads": {"one": {"kind": "iperf3", "from": "sensor", "to": "ecu"}}}
    assert said(FOUR | load | {"shapers/ecu.eth0": never}) == [
        "loads.one: priority 0 is traffic class 0 at ecu.eth0, whose gate never opens; expected a gate for it"
    ]
    assert said(FOUR | {"loads": {"one": load["loads"]["one"] | {"kind": "flood"}}, "shapers/ecu.eth0": never}) == []
