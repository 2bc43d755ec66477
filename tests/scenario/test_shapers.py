"""Shapers: what an interface can be told, what follows from it, and what does not fit together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latlab.scenario import End, Loaded, Problem, cells, parse, scenario_schema
from latlab.scenario.shapers import CABLE_BPS, MADE_BPS, Cbs, Etf, Mqprio, Taprio

With = Callable[..., Loaded]
Said = Callable[[dict[str, Any]], list[str]]

S = "shapers/sensor.eth0"
GATES = [{"open": [0, 1], "for": "100us"}, {"open": [1], "for": "100us"}]
TAPRIO = {"kind": "taprio", "mode": "software", "map": {"5": 1}, "gates": GATES}
ASSIST = TAPRIO | {"mode": "txtime-assist"}
MQPRIO = {"kind": "mqprio", "map": {"5": 1}}
ETF = {"kind": "etf"}
CBS = {"kind": "cbs", "idle_slope": "20Mbit/s"}
TAKES_ALL = ETF | {"skip_sock_check": True}
FOUR = {"links.0.queues": 4}
"""Transmit queues enough for all of these."""
ALONE = {"loads": None}
"""Nothing but the stream."""
LAUNCHED = ALONE | {"streams.control.launch_time": True}
"""Every packet has a launch time."""

ON_BOARD = {
    "hosts": {"board1": {"kind": "board", "nics": 1}, "board2": {"kind": "board", "nics": 1}},
    "links.0": {"ends": ["board1.eth0", "board2.eth0"]},
    "streams.control": {"talker": "board1", "listener": "board2", "period": "1ms", "size": "64B"},
} | ALONE
TWO_LOCAL = {
    "hosts": {"sensor": {"kind": "local"}, "ecu": {"kind": "local"}},
    "links.0.ends": ["sensor.eth0", "ecu.eth1"],
    "streams.control.transport": "ethernet",
} | ALONE

EVERYTHING = FOUR | {
    S: ASSIST
    | {
        "rest": 2,
        "queues": [1, 1, 2],
        "gates": [*GATES, {"open": [], "for": "50us"}, {"open": [2, 0], "for": "150us"}],
        "children": {"1": TAKES_ALL | {"delta": "300us"}},
        "shift": "7us",
        "txtime_delay": "1ms",
        "delta": "100us",
        "speed": "1Gbit/s",
    },
    "shapers/ecu.eth0": MQPRIO
    | {"children": {"0": CBS | {"send_slope": -980_000_000, "hi_credit": 31, "speed": "1Gbit/s"}, "1": ETF}},
}


# What follows from it.


def taprio(**values: Any) -> Taprio:
    return Taprio.model_validate(TAPRIO | values)


def mqprio(**values: Any) -> Mqprio:
    return Mqprio.model_validate(MQPRIO | values)


def cbs(**values: Any) -> Cbs:
    return Cbs.model_validate(CBS | values)


def test_nothing_is_shaped_unless_it_is_said(with_: With) -> None:
    scenario = with_().scenario
    assert (scenario.shapers, scenario.cycle) == ({}, 0)
    assert scenario.shaper_at(End("sensor", "eth0")) is None


def test_a_cycle_is_the_sum_of_its_entries() -> None:
    entries = [("100us", [0]), ("1us", []), ("103ns", [1])]
    assert taprio(gates=[{"open": classes, "for": length} for length, classes in entries]).cycle == 101_103


def test_bit_n_of_a_mask_is_the_gate_of_class_n() -> None:
    gates = taprio(gates=[{"open": classes, "for": "1us"} for classes in ([], [0], [3, 1], [15])]).gates
    assert [gate.mask for gate in gates] == [0, 0b1, 0b1010, 0x8000]


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ({}, 2),
        ({"map": {}, "gates": [{"open": [], "for": "1us"}]}, 1),
        ({"map": {"0": 4}}, 5),
        ({"rest": 3}, 4),
        ({"gates": [{"open": [0, 6], "for": "1us"}]}, 7),
        ({"queues": [1, 1, 2]}, 3),
    ],
)
def test_there_are_as_many_classes_as_are_named_or_have_queues(values: dict[str, Any], count: int) -> None:
    assert taprio(**values).class_count == count


def test_the_queues_of_a_class_follow_those_of_the_class_before() -> None:
    shaper = mqprio(queues=[2, 1, 3])
    assert shaper.queue_counts == (2, 1, 3)
    assert [list(shaper.queues_of(number)) for number in range(3)] == [[0, 1], [2], [3, 4, 5]]
    assert mqprio(rest=3).queue_counts == (1, 1, 1, 1)


@given(st.lists(st.integers(1, 16), min_size=2, max_size=16))
def test_each_queue_belongs_to_one_class(counts: list[int]) -> None:
    shaper = mqprio(queues=counts)
    queues = [queue for number in range(shaper.class_count) for queue in shaper.queues_of(number)]
    assert queues == list(range(sum(counts)))


def test_a_priority_that_is_not_in_the_map_is_of_the_class_of_the_rest() -> None:
    shaper = mqprio(map={"5": 1, "7": 0}, rest=2)
    assert [shaper.class_of(priority) for priority in (0, 5, 7, 15)] == [2, 1, 0, 2]


def test_txtime_assist_has_an_etf_beneath_every_queue() -> None:
    shaper = taprio(mode="txtime-assist", children={"1": TAKES_ALL | {"delta": "500us"}}, delta="100us")
    first, second = shaper.child_of(0), shaper.child_of(1)
    assert first == Etf(kind="etf", delta="100us", skip_sock_check=True)
    assert isinstance(second, Etf)
    assert second.delta == 500_000


@pytest.mark.parametrize("mode", ["software", "offload"])
def test_other_modes_have_beneath_what_is_written(mode: str) -> None:
    shaper = taprio(mode=mode, children={"1": CBS})
    assert shaper.child_of(0) is None
    assert shaper.child_of(1) == cbs()


@pytest.mark.parametrize(
    ("values", "delay"),
    [
        ({}, 300_000),
        ({"delta": "101us"}, 151_500),
        ({"children": {"0": TAKES_ALL | {"delta": "1ms"}}}, 1_500_000),
        ({"children": {"0": TAKES_ALL | {"delta": "1us"}}}, 300_000),
        ({"children": {str(queue): TAKES_ALL | {"delta": "1us"} for queue in (0, 1)}}, 1_500),
        ({"txtime_delay": "250us"}, 250_000),
    ],
)
def test_the_delay_is_one_and_a_half_times_the_largest_delta(values: dict[str, Any], delay: int) -> None:
    assert taprio(mode="txtime-assist", **values).delay == delay


@pytest.mark.parametrize(
    ("values", "speed", "send_slope", "hi_credit", "lo_credit"),
    [
        # idleSlope 20 Mbit/s: 1522 × 20/1000 = 30.44, 1522 × −980/1000 = −1491.56
        ({}, 10**9, -980_000_000, 31, -1492),
        # 75 Mbit/s of 100 Mbit/s: 1000 × 75/100 = 750, 300 × −25/100 = −75, whole without rounding
        ({"idle_slope": "75Mbit/s", "interference": "1000B", "frame": "300B"}, 10**8, -25_000_000, 750, -75),
        # 98688 kbit/s of 1 Gbit/s, AVB class A: 1522 × 98.688/1000 = 150.2, 1522 × −901.312/1000 = −1371.8
        ({"idle_slope": "98688kbit/s"}, 10**9, -901_312_000, 151, -1372),
        ({"send_slope": -5_000_000}, 10**9, -5_000_000, 31, -8),
        ({"hi_credit": 153, "lo_credit": -1389}, 10**9, -980_000_000, 153, -1389),
    ],
)
def test_slopes_and_credits_are_those_of_802_1q(
    values: dict[str, Any], speed: int, send_slope: int, hi_credit: int, lo_credit: int
) -> None:
    shaper = cbs(**values)
    assert shaper.send_slope_bps(speed) == send_slope
    assert (shaper.hi_credit_bytes(speed), shaper.lo_credit_bytes(speed)) == (hi_credit, lo_credit)


@given(st.integers(1, 999_999), st.integers(64, 65_535), st.integers(64, 65_535))
def test_credits_hold_a_frame_and_are_less_than_a_byte_more(idle_kbit: int, frame: int, interference: int) -> None:
    shaper = cbs(idle_slope=f"{idle_kbit}kbit/s", frame=f"{frame}B", interference=f"{interference}B")
    above = shaper.hi_credit_bytes(10**9) * 10**9 - interference * idle_kbit * 1000
    below = frame * (10**9 - idle_kbit * 1000) + shaper.lo_credit_bytes(10**9) * 10**9
    assert 0 <= above < 10**9
    assert -(10**9) < below <= 0


def test_streams_start_at_a_multiple_of_every_cycle(with_: With) -> None:
    other = TAPRIO | {"gates": [{"open": [0, 1], "for": "300us"}]}
    assert with_(FOUR | {S: TAPRIO}).scenario.cycle == 200_000
    assert with_(FOUR | {S: TAPRIO, "shapers/ecu.eth0": other}).scenario.cycle == 600_000
    assert with_(FOUR | {S: MQPRIO, "shapers/ecu.eth0": other}).scenario.cycle == 300_000


def test_a_ports_speed_is_as_its_shaper_says_or_as_its_link_has_it(with_: With) -> None:
    end = End("sensor", "eth0")
    assert with_({S: CBS | {"speed": "2500Mbit/s"}}).scenario.speed_at(end) == 2_500_000_000
    assert with_({S: CBS}).scenario.speed_at(end) == MADE_BPS == 10**10
    assert with_({S: TAKES_ALL} | LAUNCHED).scenario.speed_at(end) == MADE_BPS
    assert with_(TWO_LOCAL | {S: CBS}).scenario.speed_at(end) == CABLE_BPS == 10**9


def test_a_dumped_scenario_reads_back_as_the_same(with_: With) -> None:
    scenario = with_(EVERYTHING).scenario
    assert set(scenario.shapers) == {"sensor.eth0", "ecu.eth0"}
    assert parse(scenario.model_dump(mode="json", by_alias=True, exclude_unset=True)).scenario == scenario


def test_a_dumped_scenario_is_as_the_schema_says(with_: With) -> None:
    schema = scenario_schema()
    dumped = with_(EVERYTHING).scenario.model_dump(mode="json", by_alias=True)["shapers"]
    described = schema["properties"]["shapers"]
    assert list(faults(schema, described, dumped)) == []
    dumped["sensor.eth0"]["gates"][1]["for"] = "100"
    dumped["ecu.eth0"]["children"]["0"]["slope"] = 1
    dumped["sensor.eth0"]["map"]["5"] = 16
    assert [where for where, _ in faults(schema, described, dumped)] == [
        "sensor.eth0.map.5",
        "sensor.eth0.gates.1.for",
        "ecu.eth0.children.0.slope",
    ]


# What can be varied.


def test_a_shapers_mode_can_be_varied(with_: With) -> None:
    found = cells(with_(FOUR | {S: TAPRIO, "matrix/shapers.sensor.eth0.mode": ["software", "txtime-assist"]}))
    assert [cell.slug for cell in found] == [
        "shapers.sensor.eth0.mode=software",
        "shapers.sensor.eth0.mode=txtime-assist",
    ]
    shapers = [cell.scenario.shapers["sensor.eth0"] for cell in found]
    assert [shaper.mode for shaper in shapers if isinstance(shaper, Taprio)] == ["software", "txtime-assist"]


def test_shapers_can_be_there_in_one_cell_and_not_in_another(with_: With) -> None:
    found = cells(with_(FOUR | {"matrix/shapers": [{}, {"sensor.eth0": MQPRIO}]}))
    assert [cell.slug for cell in found] == ["shapers=without-sensor.eth0", "shapers=sensor.eth0"]
    assert [list(cell.scenario.shapers) for cell in found] == [[], ["sensor.eth0"]]


def test_what_is_beneath_a_queue_can_be_varied(with_: With) -> None:
    values = FOUR | {S: MQPRIO | {"children": {"1": CBS}}}
    found = cells(with_(values | {"matrix/shapers.sensor.eth0.children.1.idle_slope": ["1Mbit/s", "2Mbit/s"]}))
    slopes = [cell.scenario.shapers["sensor.eth0"].children[1].idle_slope for cell in found]
    assert slopes == [1_000_000, 2_000_000]


@pytest.mark.parametrize("end", [".mode", ""])
def test_an_interface_with_a_dot_in_its_name_is_varied_like_any_other(with_: With, end: str) -> None:
    link = {"links.0": {"ends": ["sensor.eth0.100", "ecu.eth0"], "queues": 4}, "shapers/sensor.eth0.100": TAPRIO}
    chosen = ["software", "txtime-assist"] if end else [TAPRIO, ASSIST]
    found = cells(with_(link | {f"matrix/shapers.sensor.eth0.100{end}": chosen}))
    shapers = [cell.scenario.shapers["sensor.eth0.100"] for cell in found]
    assert [shaper.mode for shaper in shapers if isinstance(shaper, Taprio)] == ["software", "txtime-assist"]
    assert found[1].slug == f"shapers.sensor.eth0.100{end}={'' if end else 'mode-'}txtime-assist"


def test_the_place_of_what_a_cell_varies_is_its_line_of_the_matrix(load: Callable[[str], Loaded], base: str) -> None:
    text = base.replace("ecu.eth0]}", "ecu.eth0], queues: 2}") + (
        "shapers:\n"
        "  sensor.eth0: {kind: taprio, mode: software, map: {5: 1}, gates: [{open: [0, 1], for: 1ms}]}\n"
        "matrix:\n"
        "  shapers.sensor.eth0.mode:\n"
        "    - software\n"
        "    - txtime-assist\n"
    )
    loaded = load(text)
    place = ("shapers", "sensor.eth0", "mode")
    lines = [loaded.where(place, cell).split(":")[1] for cell in cells(loaded)]
    assert lines == [str(len(text.splitlines()) - 1), str(len(text.splitlines()))]


# What does not fit together.

NO_LAUNCH = "packets without a launch time are dropped by the etf at sensor.eth0"
NEEDS_SKIP = (
    "txtime-assist gives launch times to packets of sockets that ask for none; "
    "expected kind: etf with skip_sock_check: true"
)
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
        "shapers.sensor.eth0.map.16: there is no socket priority 16; expected 0 to 15"
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
        "shapers.sensor.eth0.gates[2].for: 47ns are too short for the smallest frame; expected 48ns or more"
    ]),
    (FOUR | {S: TAPRIO | {"speed": "100Mbit/s", "gates": [*GATES, {"open": [], "for": "4799ns"}]}}, [
        "shapers.sensor.eth0.gates[2].for: 4799ns are too short for the smallest frame; expected 4800ns or more"
    ]),
    (TWO_LOCAL | {S: TAPRIO | {"gates": [*GATES, {"open": [], "for": "479ns"}]}}, [
        "shapers.sensor.eth0.gates[2].for: 479ns are too short for the smallest frame; expected 480ns or more"
    ]),
    ({S: CBS | {"idle_slope": "10Gbit/s", "speed": "10Gbit/s"}}, [
        "shapers.sensor.eth0.idle_slope: 10Gbit/s are all that the port sends; expected less than 10Gbit/s"
    ]),
    (FOUR | {S: MQPRIO | {"children": {"1": CBS}, "speed": "20Mbit/s"}}, [
        "shapers.sensor.eth0.children.1.idle_slope: 20Mbit/s are all that the port sends; expected less than 20Mbit/s"
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
        "shapers.sensor.eth0.txtime_delay: 200us are gone before the etf, 200us ahead, has it; "
        "expected more than its delta, 200us"
    ]),
    (FOUR | {S: ASSIST | {"delta": "0ns"}}, [
        "shapers.sensor.eth0.txtime_delay: 0ns are gone before the etf, 0ns ahead, has it; "
        "expected more than its delta, 0ns"
    ]),
    (ALONE | {S: TAKES_ALL}, [
        f"streams.control: {NO_LAUNCH}; expected launch_time: true, or another priority",
    ]),
    (FOUR | {S: ASSIST | {"txtime_delay": "150us", "children": {"1": TAKES_ALL | {"delta": "100us"}}}}, [
        "shapers.sensor.eth0.txtime_delay: 150us are gone before the etf, 200us ahead, has it; "
        "expected more than its delta, 200us"
    ]),
    (FOUR | {S: TAPRIO | {"rest": 2}}, [
        "streams.control: priority 0 is traffic class 2 at sensor.eth0, whose gate never opens; "
        "expected a gate for it, or another priority",
        "loads.same: priority 0 is traffic class 2 at sensor.eth0, whose gate never opens; "
        "expected a gate for it, or another priority",
    ]),
    ({S: ETF}, [
        f"streams.control: {NO_LAUNCH}; expected launch_time: true, or another priority",
        f"loads.same: {NO_LAUNCH}; expected another priority",
    ]),
    (FOUR | {S: MQPRIO | {"children": {"1": ETF}}, "streams.control.priority": 5}, [
        f"streams.control: {NO_LAUNCH}; expected launch_time: true, or another priority",
    ]),
    (ALONE | {S: ETF, "streams.control.launch_time": {"deadline": True}}, [
        "streams.control.launch_time: the etf at sensor.eth0 has deadline: false, and drops what differs; "
        "expected deadline: false"
    ]),
    (ALONE | {S: ETF | {"deadline": True}, "streams.control.launch_time": True}, [
        "streams.control.launch_time: the etf at sensor.eth0 has deadline: true, and drops what differs; "
        "expected deadline: true"
    ]),
    (ALONE | {S: ETF, "streams.control.launch_time": {"lead": "200us"}}, [
        "streams.control.launch_time: a lead of 200us is over when the etf at sensor.eth0 wakes for the packet; "
        "expected a lead of more than its delta, 200us"
    ]),
    (FOUR | {S: TAPRIO, "shapers/ecu.eth0": TAPRIO | {"gates": [{"open": [0, 1], "for": "100003us"}]}}, [
        "shapers: cycles of 200us, 100003us begin together only each 20000600us; "
        "expected cycles whose least common multiple is 1s or less"
    ]),
    (FOUR | {S: TAPRIO | {"gates": [{"open": [0, 1], "for": "1000000001ns"}]}}, [
        "shapers: cycles of 1000000001ns begin together only each 1000000001ns; "
        "expected cycles whose least common multiple is 1s or less"
    ]),
    # what is wrong in itself
    ({S: {"kind": "tapiro"}}, [
        "shapers.sensor.eth0: unknown kind 'tapiro'; expected taprio? (known: taprio, mqprio, etf, cbs)"
    ]),
    (FOUR | {S: MQPRIO | {"children": {"0": MQPRIO}}}, [
        "shapers.sensor.eth0.children.0: unknown kind 'mqprio'; expected one of etf, cbs"
    ]),
    (FOUR | {S: MQPRIO | {"children": {"first": CBS}}}, [
        "shapers.sensor.eth0.children.first: 'first' is not a number; expected a whole number such as 0"
    ]),
    (FOUR | {S: TAPRIO | {"mode": "hardware"}}, [
        "shapers.sensor.eth0.mode: 'hardware' is not known here; expected software, "
        "txtime-assist or offload"
    ]),
    (FOUR | {S: TAPRIO | {"gates": []}}, ["shapers.sensor.eth0.gates: there are too few; expected 1 or more"]),
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
    ({S: CBS | {"send_slope": 0}}, ["shapers.sensor.eth0.send_slope: 0 is too large; expected less than 0"]),
    ({S: TAKES_ALL | {"delta": "200"}} | LAUNCHED, [
        "shapers.sensor.eth0.delta: '200' is not a duration; "
        "expected a duration such as 1006us (units: ns, us, µs, μs, ms, s, min, h)"
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("values", "lines"), WRONG, ids=[lines[0].split("; ")[0][:80] for _, lines in WRONG])
def test_what_does_not_fit_is_told_where_it_stands(said: Said, values: dict[str, Any], lines: list[str]) -> None:
    assert said(values) == lines


FINE: list[dict[str, Any]] = [
    EVERYTHING,
    FOUR | {S: MQPRIO | {"map": {"15": 1}}},
    FOUR | {S: MQPRIO | {"queues": [1, 3]}},
    {"links.0.queues": 2, S: MQPRIO},
    FOUR | {S: MQPRIO | {"children": {"1": CBS}}},
    TWO_LOCAL | {S: MQPRIO | {"queues": [4, 4]}},
    ON_BOARD | {"links.0": {"ends": ["board1.eth0", "board2.eth0"], "queues": 2}, "shapers/board1.eth0": MQPRIO},
    FOUR | {S: TAPRIO | {"shift": "199999ns"}},
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
    FOUR | {S: TAPRIO | {"rest": 2, "gates": [*GATES, {"open": [2], "for": "1us"}]}},
    FOUR | {"shapers/ecu.eth0": TAPRIO | {"rest": 2}} | ALONE,
    {S: TAKES_ALL} | LAUNCHED,
    FOUR | {S: MQPRIO | {"children": {"1": ETF}}},
    {S: ETF} | LAUNCHED,
    ALONE | {S: ETF | {"deadline": True}, "streams.control.launch_time": {"deadline": True}},
    ALONE | {S: ETF, "streams.control.launch_time": {"lead": "200001ns"}},
    FOUR | {S: TAPRIO | {"gates": [{"open": [0, 1], "for": "1s"}]}},
    FOUR | {S: MQPRIO, "shapers/ecu.eth0": TAPRIO | {"gates": [{"open": [0, 1], "for": "100003us"}]}},
]


@pytest.mark.parametrize("values", FINE)
def test_what_fits_is_accepted(said: Said, values: dict[str, Any]) -> None:
    assert said(values) == []


def test_unknown_keys_beneath_a_shaper_are_told_in_their_lines_with_the_closest_one(
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


def test_every_mistake_of_a_shaper_is_told_at_once(said: Said) -> None:
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


def test_a_key_of_the_matrix_that_a_shaper_does_not_have_is_told_with_the_closest_one(said: Said) -> None:
    (line,) = said(FOUR | {S: MQPRIO, "matrix/shapers.sensor.eth0.rset": [1]})
    assert line.startswith(
        "matrix.shapers.sensor.eth0.rset: unknown key 'rset' in shapers.sensor.eth0; expected rest? (known: map, rest,"
    )


def faults(schema: dict[str, Any], said: dict[str, Any], value: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Where the value is not as the schema says, and by which keyword: those that it uses of shapers."""
    if "$ref" in said:
        yield from faults(schema, schema["$defs"][said["$ref"].removeprefix("#/$defs/")], value, where)
    elif "discriminator" in said:
        yield from faults(schema, {"$ref": said["discriminator"]["mapping"][value["kind"]]}, value, where)
    elif "anyOf" in said:
        if all(any(faults(schema, choice, value, where)) for choice in said["anyOf"]):
            yield where, "anyOf"
    else:
        yield from (
            (where, keyword) for keyword, holds in KEYWORDS.items() if keyword in said and not holds(said, value)
        )
        for number, item in enumerate(value if isinstance(value, list) else ()):
            yield from faults(schema, said["items"], item, f"{where}.{number}")
        patterns = {f"^{re.escape(name)}$": one for name, one in said.get("properties", {}).items()}
        patterns |= said.get("patternProperties", {})
        for key, item in value.items() if isinstance(value, dict) else ():
            below = next((one for pattern, one in patterns.items() if re.search(pattern, key)), None)
            inner = f"{where}.{key}".removeprefix(".")
            yield from [(inner, "properties")] if below is None else faults(schema, below, item, inner)


TYPES: dict[str, type] = {
    "object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "null": type(None)
}  # fmt: skip
KEYWORDS: dict[str, Callable[[dict[str, Any], Any], bool]] = {
    "type": lambda said, value: type(value) is TYPES[said["type"]],
    "const": lambda said, value: bool(value == said["const"]),
    "enum": lambda said, value: value in said["enum"],
    "pattern": lambda said, value: isinstance(value, str) and bool(re.search(said["pattern"], value)),
    "minimum": lambda said, value: isinstance(value, int) and value >= said["minimum"],
    "maximum": lambda said, value: isinstance(value, int) and value <= said["maximum"],
    "exclusiveMaximum": lambda said, value: isinstance(value, int) and value < said["exclusiveMaximum"],
    "minItems": lambda said, value: isinstance(value, list) and len(value) >= said["minItems"],
    "maxItems": lambda said, value: isinstance(value, list) and len(value) <= said["maxItems"],
    "required": lambda said, value: isinstance(value, dict) and value.keys() >= set(said["required"]),
}
