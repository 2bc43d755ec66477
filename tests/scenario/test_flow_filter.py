"""Expressions that say which packets are watched, and places where they are."""

from __future__ import annotations

import ctypes
from ctypes.util import find_library
from typing import Any

import pytest

from latlab.model.errors import UsageError
from latlab.scenario.watched import WatchPoint, parse_flow, parse_point

UDP = {"protocol": 17}
libpcap = pytest.mark.skipif(
    find_library("pcap") is None, reason="libpcap is missing: `tools/require test` installs it"
)


def port(number: int, **more: Any) -> dict[str, Any]:
    return {"is": {**more, "any_port": [number, number]}}


@pytest.mark.parametrize(
    ("expression", "rule"),
    [
        ("udp port 5000", {**UDP, "any_port": [5000, 5000]}),
        ("tcp src portrange 80-90", {"protocol": 6, "source_port": [80, 90]}),
        ("src or dst port 9", {"any_port": [9, 9]}),
        ("src and dst port 9", {"source_port": [9, 9], "destination_port": [9, 9]}),
        (
            "src 10.0.0.1 dst net 10.2.3.4/8",
            {
                "source": {"address": "10.0.0.1", "prefix": 32},
                "ether_type": 0x0800,
                "destination": {"address": "10.2.3.4", "prefix": 8},
            },
        ),
        ("ip6 host fd00::1", {"ether_type": 0x86DD, "any_address": {"address": "fd00::1", "prefix": 128}}),
        ("ether proto 0x88b8 vlan 5 pcp 4", {"ether_type": 0x88B8, "vlan": True, "vid": 5, "pcp": 4}),
        ("ether src 02-00-4E-00-00-01", {"source_mac": {"address": "02:00:4e:00:00:01"}}),
        ("ether host 02:00:4e:00:00:01", {"any_mac": {"address": "02:00:4e:00:00:01"}}),
        ("multicast", {"destination_mac": {"address": "01:00:00:00:00:00", "mask": "01:00:00:00:00:00"}}),
        ("dscp ef", {"dscp": 46}),
        ("dscp AF21 proto 89", {"dscp": 18, "protocol": 89}),
        ("ip proto udp", {"ether_type": 0x0800, "protocol": 17}),
    ],
)
def test_terms_side_by_side_are_one_rule(expression: str, rule: dict[str, Any]) -> None:
    assert parse_flow(expression) == {"is": rule}


@pytest.mark.parametrize(
    ("expression", "flow"),
    [
        ("udp and port 5000", {"all": [{"is": UDP}, port(5000)]}),
        ("port 1 or port 2 || port 3", {"any": [port(1), port(2), port(3)]}),
        # Both bind alike, from left to right.
        ("port 1 or port 2 and udp", {"all": [{"any": [port(1), port(2)]}, {"is": UDP}]}),
        ("port 1 or (port 2 and udp)", {"any": [port(1), {"all": [port(2), {"is": UDP}]}]}),
        ("not udp port 5", {"not": port(5, **UDP)}),
        ("!udp && !port 5", {"all": [{"not": {"is": UDP}}, {"not": port(5)}]}),
        ("udp and not (port 5 or port 6)", {"all": [{"is": UDP}, {"not": {"any": [port(5), port(6)]}}]}),
        ("not not udp", {"not": {"not": {"is": UDP}}}),
        ("udp (port 5 or port 6)", {"all": [{"is": UDP}, {"any": [port(5), port(6)]}]}),
        # What is the same may be left out.
        ("udp port 5 or 6", {"any": [port(5, **UDP), port(6, **UDP)]}),
        ("vlan 5 udp port 5 or 6", {"any": [port(5, vlan=True, vid=5, **UDP), port(6, **UDP)]}),
        ("not port 5 and 6", {"all": [{"not": port(5)}, port(6)]}),
    ],
)
def test_conditions_are_joined_as_in_pcap_filter(expression: str, flow: dict[str, Any]) -> None:
    assert parse_flow(expression) == flow


@pytest.mark.parametrize(
    ("expression", "what"),
    [
        ("", "a condition is missing at the end"),
        ("udp or", "a condition is missing at the end"),
        ("udp or or tcp", "a condition is missing before 'or'"),
        ("not", "a condition is missing at the end"),
        ("udp not port 5", "`and` or `or` is missing before 'not'"),
        ("(udp", "a parenthesis is not closed"),
        ("udp)", "')' closes nothing"),
        ("()", "a condition is missing before ')'"),
        ("udp tcp", "two values of protocol: both cannot be true"),
        ("port", "port which?"),
        ("port (5)", "port which?"),
        ("port http", "'http' is not a number"),
        ("port 70000", "70000: expected 0 to 65535"),
        ("portrange 9-5", "ports 9 to 5: the first is above the last"),
        ("host example", "'example' is not an IP address"),
        ("frame 5", "'frame' is not supported"),
        ("ether host 1", "'1' is not a MAC address"),
        ("ether mtu 1", "after `ether` write proto, host, src, dst, broadcast or multicast"),
        ("pcp 8", "8: expected 0 to 7"),
        (" or ".join(f"port {number}" for number in range(25)), "50 comparisons of a packet; at most 48"),
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
        ("ns:ecu/tap0:read", WatchPoint("tap0", ("read",), None, "ecu")),
        ("root@board1/eth0", WatchPoint("eth0", machine="root@board1")),
        ("board1/ns:ecu/eth0", WatchPoint("eth0", machine="board1", namespace="ecu")),
        ("guest:vm1/eth0:in", WatchPoint("eth0", ("in",), machine="guest:vm1")),
        ("guest:vm1/ns:ecu/eth0", WatchPoint("eth0", machine="guest:vm1", namespace="ecu")),
    ],
)
def test_a_place_is_an_interface_of_a_namespace_of_a_machine(text: str, point: WatchPoint) -> None:
    assert parse_point(text) == point
    assert parse_point(point.name).name == point.name
    assert point.guest == ("vm1" if text.startswith("guest:") else None)


@pytest.mark.parametrize(
    "text", ["", "/eth0", "eth0:up", "a/b/eth0", "ns:/eth0", "guest:/eth0", "-oProxyCommand=x/eth0", "sixteen-letters0"]
)
def test_what_is_no_place_is_one_error(text: str) -> None:
    with pytest.raises(UsageError, match="is not a place to watch"):
        parse_point(text)


@libpcap
def test_a_filter_of_pcap_is_compiled_by_libpcap() -> None:
    # EtherType of sampled values: load it, compare it, accept or reject.
    flow = parse_flow(" pcap: ether proto 0x88ba ")
    assert flow == {"pcap": [(0x28, 0, 0, 12), (0x15, 0, 1, 0x88BA), (0x06, 0, 0, 65535), (0x06, 0, 0, 0)]}


@libpcap
@pytest.mark.parametrize(
    ("expression", "what", "remedy"),
    [
        ("pcap:", "an expression is missing", "'pcap: ip[8] < 5'"),
        ("pcap: udp udp", "syntax error", "pcap-filter(7)"),
        ("pcap: ip and not ip", "expression rejects all packets", "pcap-filter(7)"),
        ("pcap: ether[127:2] = 1", "it reads byte 128 of the frame, or one behind it", "the first 128 bytes"),
        ("pcap: udp[150] = 1", "it reads byte 164 of the frame, or one behind it", "the first 128 bytes"),
        ("pcap: " + " or ".join(f"ip[{n}] = {n}" for n in range(2, 70)), "instructions; at most 128", "shorter"),
    ],
)
def test_what_is_no_filter_is_one_error(expression: str, what: str, remedy: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_flow(expression)
    assert refused.value.what.startswith(f"{expression[:20]!r}"[:-1])
    assert (what in refused.value.what, remedy in refused.value.remedy) == (True, True), refused.value
    assert refused.value.where == "--flow"


def test_without_libpcap_a_filter_is_one_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_: str) -> None:
        raise OSError

    monkeypatch.setattr(ctypes, "CDLL", absent)
    with pytest.raises(UsageError, match="needs libpcap") as refused:
        parse_flow("pcap: udp")
    assert "Debian package: libpcap0.8" in refused.value.remedy
    assert parse_flow("udp") == {"is": UDP}
