"""Numbers that are keys of mappings: each is held to the one bound of what it stands for, whatever is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from latlab.scenario import scenario_schema

Said = Callable[[dict[str, Any]], list[str]]

NO_IDS = ["0", "4095", "4096", "5000", "99999", "-1"]
BY_VLAN = {"streams.control.via": "sensor.eth0.5"}
KEYS: dict[str, tuple[str, str, dict[str, Any], Any]] = {
    # where it is told, where it is put, what stands around it, the key's value; {} is the key
    "egress": ("links[0].vlans.5.egress.{}", "links.0.vlans.5.egress", BY_VLAN, 1),
    "ingress": ("links[0].vlans.5.ingress.{}", "links.0.vlans.5.ingress", BY_VLAN, 1),
    "map": ("shapers.sensor.eth0.map.{}", "shapers/sensor.eth0/map", {"shapers/sensor.eth0": {"kind": "mqprio"}}, 0),
    "steering": ("tuning.ecu.steering.eth0.{}", "tuning.ecu.steering.eth0", {}, 0),
    "queues": ("tuning.ecu.irq.eth0.queues.{}", "tuning.ecu.irq.eth0.queues", {}, [0]),
}
MOST = {"egress": 15, "ingress": 7, "map": 15, "steering": 7, "queues": 4095}


def said_of(said: Said, kind: str, key: str) -> list[str]:
    where, put, around, value = KEYS[kind]
    return [line.replace(where.format(key), "HERE") for line in said({"loads": None} | around | {put: {key: value}})]


@pytest.mark.parametrize("kind", KEYS)
def test_a_key_is_told_of_its_own_bound_and_of_no_wider_one(said: Said, kind: str) -> None:
    most = MOST[kind]
    assert not [line for key in ("0", str(most)) for line in said_of(said, kind, key) if "HERE" in line]
    for key in (str(most + 1), "4096", "5000", "99999", "9" * 30):
        assert said_of(said, kind, key) == [f"HERE: '{key}' is too large; expected {most} or less"], key
    assert said_of(said, kind, "-1") == ["HERE: '-1' is too small; expected 0 or more"]
    for key in ("one", "01", "-0", "1.0", "9" * 5000):
        (line,) = said_of(said, kind, key)
        assert line.endswith("is not a number; expected an integer such as 0")


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("2", "the classes have no queue 2; expected 0 to 1"),
        ("99999", "the classes have no queue 99999; expected 0 to 1"),
        ("-1", "'-1' is too small; expected 0 or more"),
    ],
)
def test_a_transmit_queue_is_one_that_the_classes_have(said: Said, key: str, told: str) -> None:
    children = {key: {"kind": "cbs", "idle_slope": "20Mbit/s"}}
    shaper = {"kind": "mqprio", "map": {"5": 1}, "children": children}
    found = said({"loads": None, "links.0.queues": 2, "shapers/sensor.eth0": shaper})
    assert found == [f"shapers.sensor.eth0.children.{key}: {told}"]


@pytest.mark.parametrize("vlan", NO_IDS)
def test_a_vlan_id_that_is_none_is_reported_once_however_often_it_is_named(said: Said, vlan: str) -> None:
    name = f"eth0.{vlan}"
    values: dict[str, Any] = {
        "loads": None,
        "links.0.vlans": {vlan: {}},
        "streams.control.via": f"sensor.{name}",
        f"shapers/sensor.{name}": {"kind": "cbs", "idle_slope": "20Mbit/s"},
        "guests": {"vm1": {"host": "ecu", "uplink": name}},
        "tuning/ecu/steering": {name: {"7": 0}},
        "clock.ptp": {"ports": {f"sensor.{name}": "slave"}, "observed": {"ecu.eth0": "/run/ptp4l"}},
    }
    told = f"links[0].vlans.{vlan}: '{vlan}' is not a VLAN id; expected 1 to 4094"
    assert said({path: values[path] for path in ("loads", "links.0.vlans", "streams.control.via")}) == [told]
    assert said(values) == [told]


def test_another_links_vlan_does_not_keep_a_way_from_being_told(said: Said) -> None:
    values = {
        "loads": None,
        "hosts.gw": {"kind": "netns"},
        "links.1": {"ends": ["sensor.eth1", "gw.eth0"], "vlans": {"4095": {}}},
        "streams.control.via": "sensor.eth0.6",
    }
    assert [line.split(": ")[0] for line in said(values)] == ["links[1].vlans.4095", "streams.control.via"]


def test_what_is_wrong_beneath_a_vlan_does_not_hide_that_a_way_is_unknown(said: Said) -> None:
    values = {"loads": None, "links.0.vlans": {"5": {"egress": {"16": 1}}}, "streams.control.via": "sensor.eth0.6"}
    assert [line.split(": ")[0] for line in said(values)] == ["links[0].vlans.5.egress.16", "streams.control.via"]


@pytest.mark.parametrize(
    ("part", "field", "most"),
    [
        ("Vlan", "egress", 15),
        ("Vlan", "ingress", 7),
        ("Mqprio", "map", 15),
        ("IrqTuning", "queues", 4095),
    ],
)
def test_the_schema_takes_the_keys_that_loading_takes(part: str, field: str, most: int) -> None:
    (pattern,) = scenario_schema()["$defs"][part]["properties"][field]["patternProperties"]
    taken = [number for number in range(10_000) if re.search(pattern, str(number))]
    assert taken == list(range(most + 1))
    assert not any(re.search(pattern, text) for text in ("-1", "00", "07", "99999", "a", ""))
