"""Expressions that say which packets are watched, and places where they are."""

from __future__ import annotations

from typing import Any

import pytest

from latlab.errors import UsageError
from latlab.scenario.flow_filter import parse_flow
from latlab.scenario.watch_points import WatchPoint, parse_point


@pytest.mark.parametrize(
    ("expression", "rules"),
    [
        ("udp port 5000", [{"protocol": 17, "any_port": [5000, 5000]}]),
        ("udp and port 5000", [{"protocol": 17, "any_port": [5000, 5000]}]),
        ("tcp src portrange 80-90", [{"protocol": 6, "source_port": [80, 90]}]),
        ("icmp or icmp6", [{"protocol": 1, "ether_type": 0x0800}, {"protocol": 58, "ether_type": 0x86DD}]),
        (
            "src 10.0.0.1 and dst net fd00::/8 or vlan",
            UsageError,
        ),
        (
            "src 10.0.0.1 dst net 10.2.3.4/8",
            [
                {
                    "source": {"address": "10.0.0.1", "prefix": 32},
                    "ether_type": 0x0800,
                    "destination": {"address": "10.2.3.4", "prefix": 8},
                }
            ],
        ),
        ("ether proto 0x88b8 vlan 5 pcp 4", [{"ether_type": 0x88B8, "vlan": True, "vid": 5, "pcp": 4}]),
        ("vlan and ptp", [{"vlan": True, "ether_type": 0x88F7}]),
        ("dscp ef", [{"dscp": 46}]),
        ("dscp AF21 proto 89", [{"dscp": 18, "protocol": 89}]),
    ],
)
def test_an_expression_is_rules_of_the_agent(expression: str, rules: Any) -> None:
    if rules is UsageError:
        with pytest.raises(UsageError):
            parse_flow(expression)
    else:
        assert parse_flow(expression) == rules


@pytest.mark.parametrize(
    ("expression", "what"),
    [
        ("", "an alternative is empty"),
        ("udp or", "an alternative is empty"),
        ("udp or or tcp", "'or' is not supported"),
        ("not udp", "'not' is not supported"),
        ("(udp)", "'(udp)' is not supported"),
        ("udp tcp", "two values of protocol: they cannot both hold"),
        ("port", "port which?"),
        ("port http", "'http' is no number"),
        ("port 70000", "70000: expected 0 to 65535"),
        ("portrange 9-5", "ports 9 to 5: the first is above the last"),
        ("host example", "'example' is no IP address"),
        ("ether host 1", "of `ether` only `ether proto TYPE` is known here"),
        ("pcp 8", "8: expected 0 to 7"),
        (" or ".join(f"port {number}" for number in range(9)), "9 alternatives; at most 8"),
    ],
)
def test_what_is_no_expression_is_one_error_with_examples(expression: str, what: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_flow(expression)
    assert what in refused.value.what
    assert (refused.value.where, "'udp port 5000'" in refused.value.remedy) == ("--flow", True)


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("eth0", WatchPoint("eth0")),
        ("br0.10:in", WatchPoint("br0.10", ("in",))),
        ("ns:ecu/eth0:out", WatchPoint("eth0", ("out",), None, "ecu")),
        ("root@board1/eth0", WatchPoint("eth0", machine="root@board1")),
        ("board1/ns:ecu/eth0", WatchPoint("eth0", machine="board1", namespace="ecu")),
    ],
)
def test_a_place_is_an_interface_of_a_namespace_of_a_machine(text: str, point: WatchPoint) -> None:
    assert parse_point(text) == point
    assert parse_point(point.name).name == point.name


@pytest.mark.parametrize(
    "text", ["", "/eth0", "eth0:up", "a/b/eth0", "ns:/eth0", "-oProxyCommand=x/eth0", "sixteen-letters0"]
)
def test_what_is_no_place_is_one_error(text: str) -> None:
    with pytest.raises(UsageError, match="is no place to watch"):
        parse_point(text)
