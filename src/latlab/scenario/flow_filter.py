"""Which packets are watched: an expression such as `udp port 5000`, a part of pcap-filter(7), as rules of the agent.

An expression is one or more alternatives joined by `or`. An alternative is terms that all have to hold; `and` between
them may be left out. There are no parentheses and there is no `not`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from ipaddress import ip_interface, ip_network
from typing import Any, Final

from latlab.errors import UsageError

MOST_RULES: Final = 8
"""As MAX_RULES of agent/wire/src/watch.rs."""
_IPV4, _IPV6 = 0x0800, 0x86DD
ETHER_TYPES: Final[Mapping[str, int]] = {
    "arp": 0x0806,
    "avtp": 0x22F0,
    "ethercat": 0x88A4,
    "goose": 0x88B8,
    "ip": _IPV4,
    "ip6": _IPV6,
    "profinet": 0x8892,
    "ptp": 0x88F7,
    "sv": 0x88BA,
}
"""EtherTypes that have names here (IEEE Registration Authority; IEC 61850-8-1 and 61850-9-2)."""
_PROTOCOLS: Final[Mapping[str, tuple[int, int | None]]] = {
    "icmp": (1, _IPV4),
    "icmp6": (58, _IPV6),
    "sctp": (132, None),
    "tcp": (6, None),
    "udp": (17, None),
}
"""{name: (IP protocol, EtherType it implies)}."""
DSCP: Final[Mapping[str, int]] = {
    "be": 0,
    "ef": 46,
    **{f"cs{n}": 8 * n for n in range(8)},
    **{f"af{c}{d}": 8 * c + 2 * d for c in range(1, 5) for d in range(1, 4)},
}
"""Names of code points (RFC 2474, 2597, 3246)."""
_SIDES: Final = {"src": "source", "dst": "destination"}
_EXAMPLE: Final = "for instance 'udp port 5000', 'ether proto sv and vlan 10', 'tcp dst port 80 or icmp'"

Rule = dict[str, Any]
"""One alternative as the agent's spec has it (docs/reference/agent.md, watch)."""


def parse_flow(text: str) -> list[Rule]:
    """The rules of an expression, at least one. UsageError: it is none."""
    rules: list[Rule] = []
    for alternative in re.split(r"\s+(?:or|\|\|)\s+", f" {text.strip()} "):
        words = [word for word in alternative.split() if word not in ("and", "&&")]
        if not words:
            raise _wrong(text, "an alternative is empty")
        rules.append(_Reader(text, words).rule())
    if len(rules) > MOST_RULES:
        raise _wrong(text, f"{len(rules)} alternatives; at most {MOST_RULES} can be watched at once")
    return rules


def _wrong(text: str, what: str) -> UsageError:
    return UsageError(f"{text!r}: {what}", where="--flow", remedy=_EXAMPLE)


class _Reader:
    """Reads the words of one alternative."""

    def __init__(self, text: str, words: list[str]) -> None:
        self._text = text
        self._words = words[::-1]
        self._rule: Rule = {}

    def rule(self) -> Rule:
        while self._words:
            word = self._words.pop()
            if reader := _TERMS.get(word):
                reader(self)
            elif word in _PROTOCOLS:
                protocol, ether_type = _PROTOCOLS[word]
                self._set("protocol", protocol)
                if ether_type is not None:
                    self._set("ether_type", ether_type)
            elif word in ETHER_TYPES:
                self._set("ether_type", ETHER_TYPES[word])
            else:
                raise _wrong(self._text, f"{word!r} is not supported")
        return self._rule

    def side(self, side: str) -> None:
        """`src …`, `dst …`: a port, a range of ports, a host, a network, or an address alone."""
        word = self._next(f"{side} of what")
        if word in ("port", "portrange"):
            self._ports(f"{_SIDES[side]}_port")
        elif word in ("host", "net"):
            self._address(_SIDES[side], self._next(f"{side} {word} which"))
        else:
            self._address(_SIDES[side], word)

    def host(self) -> None:
        self._address("any_address", self._next("host which"))

    def port(self) -> None:
        self._ports("any_port")

    def ether(self) -> None:
        if self._next("ether what") != "proto":
            raise _wrong(self._text, "of `ether` only `ether proto TYPE` is known here")
        word = self._next("ether proto which")
        self._set("ether_type", ETHER_TYPES[word] if word in ETHER_TYPES else self._number(word, 0xFFFF))

    def vlan(self) -> None:
        self._set("vlan", True)
        if self._words and self._words[-1].isdecimal():
            self._set("vid", self._number(self._words.pop(), 4094))

    def pcp(self) -> None:
        self._set("pcp", self._number(self._next("pcp which"), 7))

    def dscp(self) -> None:
        word = self._next("dscp which").lower()
        self._set("dscp", DSCP[word] if word in DSCP else self._number(word, 63))

    def proto(self) -> None:
        self._set("protocol", self._number(self._next("proto which"), 255))

    def _next(self, missing: str) -> str:
        if not self._words:
            raise _wrong(self._text, f"{missing}?")
        return self._words.pop()

    def _set(self, name: str, value: Any) -> None:
        if self._rule.get(name, value) != value:
            raise _wrong(self._text, f"two values of {name.replace('_', ' ')}: they cannot both hold")
        self._rule[name] = value

    def _number(self, word: str, most: int) -> int:
        try:
            number = int(word, 0)
        except ValueError:
            raise _wrong(self._text, f"{word!r} is no number") from None
        if not 0 <= number <= most:
            raise _wrong(self._text, f"{word}: expected 0 to {most}")
        return number

    def _ports(self, name: str) -> None:
        first, dash, last = self._next("port which").partition("-")
        ends = [self._number(first, 0xFFFF), self._number(last if dash else first, 0xFFFF)]
        if ends[0] > ends[1]:
            raise _wrong(self._text, f"ports {ends[0]} to {ends[1]}: the first is above the last")
        self._set(name, ends)

    def _address(self, name: str, word: str) -> None:
        try:
            network = ip_network(word, strict=False)
            address = ip_interface(word).ip
        except ValueError:
            raise _wrong(self._text, f"{word!r} is no IP address") from None
        self._set(name, {"address": str(address), "prefix": network.prefixlen})
        self._set("ether_type", _IPV4 if network.version == 4 else _IPV6)


_TERMS: Final[Mapping[str, Callable[[_Reader], None]]] = {
    "src": lambda reader: reader.side("src"),
    "dst": lambda reader: reader.side("dst"),
    "host": _Reader.host,
    "net": _Reader.host,
    "port": _Reader.port,
    "portrange": _Reader.port,
    "ether": _Reader.ether,
    "vlan": _Reader.vlan,
    "pcp": _Reader.pcp,
    "dscp": _Reader.dscp,
    "proto": _Reader.proto,
}
