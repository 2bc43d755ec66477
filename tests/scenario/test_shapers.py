"""Shapers: what an interface can be told, what follows from it, and what can be varied."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latlab.scenario import End, Loaded, cells, parse, scenario_schema
from latlab.scenario.shapers import CABLE_BPS, MADE_BPS, Cbs, Etf, Mqprio, Taprio
from support.scenario.shapers import ASSIST, CBS, EVERYTHING, FOUR, LAUNCHED, MQPRIO, TAKES_ALL, TAPRIO, TWO_LOCAL, S

With = Callable[..., Loaded]
Said = Callable[[dict[str, Any]], list[str]]

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
    assert first == Etf.model_validate({"kind": "etf", "delta": "100us", "skip_sock_check": True})
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
    shapers = [cell.scenario.shapers["sensor.eth0"] for cell in found]
    children = [shaper.children[1] for shaper in shapers if isinstance(shaper, Mqprio)]
    assert [child.idle_slope for child in children if isinstance(child, Cbs)] == [1_000_000, 2_000_000]


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
