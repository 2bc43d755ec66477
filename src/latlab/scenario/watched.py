"""Packets of others that are watched: which flows, at which interfaces, and whose packets."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_interface, ip_network
from itertools import combinations
from typing import Annotated, Any, Final, NamedTuple, Protocol

from pydantic import AfterValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema

from latlab.model.directions import BOTH, DIRECTIONS, READ
from latlab.model.errors import UsageError
from latlab.model.limits import LIMITS
from latlab.scenario.findings import shown, wrong
from latlab.scenario.limits import Trigger, TriggerText
from latlab.scenario.parts import END, End, Listed, Part, parse_end
from latlab.scenario.pcap_filter import compiled

# Which packets are watched: an expression such as `udp port 5000`, much as in pcap-filter(7). Behind `pcap:` it is one
# of pcap-filter(7), which libpcap compiles.
#
# Terms that stand side by side are one condition: all of them have to hold. Conditions are joined by `and` and `or`,
# which bind alike, from left to right, as in pcap-filter. `not` denies the condition that follows it.


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
_AND, _OR, _NOT = ("and", "&&"), ("or", "||"), ("not", "!")
_WORDS: Final = re.compile(r"\(|\)|&&|\|\||!|[^\s()!&|]+|[&|]")
_MAC: Final = re.compile(r"[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}", re.IGNORECASE)
_EXAMPLE: Final = (
    "for instance 'udp port 5000', 'ether proto sv and vlan 10', 'tcp and not (port 22 or port 443)'; "
    "or 'pcap: FILTER', of pcap-filter(7)"
)

Flow = dict[str, Any]
"""An expression as in the agent's spec (docs/reference/agent.md, watch): `all`, `any`, `not`, `is` with a rule, or
`pcap` with a filter.
"""
_PCAP: Final = "pcap:"


def parse_flow(text: str) -> Flow:
    """The expression for the agent. UsageError: it is none."""
    if text.lstrip().startswith(_PCAP):
        return {"pcap": compiled(text.partition(_PCAP)[2].strip())}
    reader = _ExpressionReader(text)
    flow = reader.alternatives()
    if reader.word is not None:
        raise reader.wrong(f"{reader.word!r} closes nothing")
    if (tests := _tests(flow)) > LIMITS.flow_tests:
        raise reader.wrong(f"{tests} comparisons of a packet; at most {LIMITS.flow_tests} can be made")
    return flow


def _tests(flow: Flow) -> int:
    """How many comparisons the agent makes at most."""
    ((kind, what),) = flow.items()
    if kind == "not":
        return _tests(what)
    if kind != "is":
        return sum(map(_tests, what))
    names = list[str](what)
    return len(names) + sum(name.startswith("any_") for name in names)


class _ExpressionReader:
    """Reads an expression from its first word to its last."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words: list[str] = _WORDS.findall(text)[::-1]
        self._before: list[str] = []
        """Words since the last value, of the condition that is read."""
        self._qualifiers: list[str] = []
        """Those before the last value: behind `and` and `or` they may be left out, if they are the same."""
        self._rule: dict[str, Any] = {}

    def wrong(self, what: str) -> UsageError:
        """The expression is none: why."""
        return UsageError(f"{self._text!r}: {what}", where="--flow", remedy=_EXAMPLE)

    @property
    def word(self) -> str | None:
        """The next word; None: there is none."""
        return self._words[-1] if self._words else None

    def alternatives(self) -> Flow:
        """Conditions joined by `and` and `or`, up to the end or a closing parenthesis."""
        flow = self._condition()
        while self.word in (*_AND, *_OR):
            kind = "all" if self._words.pop() in _AND else "any"
            right = self._condition()
            # Of one kind they stand side by side: the agent's spec is no deeper than it has to be.
            flow = {kind: [*flow[kind], right]} if kind in flow else {kind: [flow, right]}
        return flow

    def _condition(self) -> Flow:
        """What is denied, or terms and groups that stand side by side."""
        if self.word in _NOT:
            self._words.pop()
            return {"not": self._condition()}
        groups = list[Flow]()
        self._rule, self._before = {}, []
        if self.word is not None and self.word not in _KNOWN and self._qualifiers:
            self._words += self._qualifiers[::-1]
        while self.word not in (None, ")", *_AND, *_OR, *_NOT):
            if self.word != "(":
                self._term(self._words.pop())
                continue
            rule = self._rule
            self._words.pop()
            groups.append(self.alternatives())
            if self.word != ")":
                raise self.wrong("a parenthesis is not closed")
            self._words.pop()
            self._rule, self._before = rule, []
        if self.word in _NOT:
            raise self.wrong(f"`and` or `or` is missing before {self.word!r}")
        found = [{"is": self._rule}, *groups] if self._rule else groups
        if not found:
            raise self.wrong(f"a condition is missing {f'before {self.word!r}' if self.word else 'at the end'}")
        return found[0] if len(found) == 1 else {"all": found}

    def _term(self, word: str) -> None:
        self._before.append(word)
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
            raise self.wrong(f"{word!r} is not supported")

    def side(self, side: str) -> None:
        """`src …`, `dst …`, `src or dst …`, `src and dst …`: a port, ports, a host, a network or an address."""
        names = self._sides(side)
        word = self._next(f"{side} of what")
        if word in ("port", "portrange"):
            self._ports([f"{name}_port" for name in names])
        elif word in ("host", "net"):
            self._address(self._value(f"{side} {word} which"), [name.replace("any", "any_address") for name in names])
        else:
            self._take()
            self._address(word, [name.replace("any", "any_address") for name in names])

    def host(self) -> None:
        self._address(self._value("host which"), ["any_address"])

    def port(self) -> None:
        self._ports(["any_port"])

    def ether(self) -> None:
        word = self._next("ether what")
        if word == "proto":
            kind = self._value("ether proto which")
            self._set("ether_type", ETHER_TYPES[kind] if kind in ETHER_TYPES else self._number(kind, 0xFFFF))
        elif word == "host":
            self._mac(["any_mac"])
        elif word in _SIDES:
            names = [f"{name}_mac" for name in self._sides(word)]
            if self.word == "host":
                self._next("host")
            self._mac(names)
        elif word in _GROUPS:
            self.group(word)
        else:
            raise self.wrong("after `ether` write proto, host, src, dst, broadcast or multicast")

    def group(self, word: str) -> None:
        address, mask = _GROUPS[word]
        self._set("destination_mac", {"address": address, "mask": mask})

    def vlan(self) -> None:
        self._set("vlan", True)
        if self.word is not None and self.word.isdecimal():
            self._set("vid", self._number(self._value(""), 4094))

    def pcp(self) -> None:
        self._set("pcp", self._number(self._value("pcp which"), 7))

    def dscp(self) -> None:
        word = self._value("dscp which").lower()
        self._set("dscp", DSCP[word] if word in DSCP else self._number(word, 63))

    def proto(self) -> None:
        word = self._value("proto which").lstrip("\\")
        self._set("protocol", _PROTOCOLS[word][0] if word in _PROTOCOLS else self._number(word, 255))

    def _sides(self, side: str) -> list[str]:
        """The sides that are meant, by the names of rules."""
        if self.word in (*_AND, *_OR) and len(self._words) > 1 and self._words[-2] in _SIDES:
            either = self._next("") in _OR
            other = self._next("")
            if other != side:
                return ["any"] if either else ["source", "destination"]
        return [_SIDES[side]]

    def _next(self, missing: str) -> str:
        if self.word in (None, "(", ")"):
            raise self.wrong(f"{missing}?")
        word = self._words.pop()
        self._before.append(word)
        return word

    def _value(self, missing: str) -> str:
        word = self._next(missing)
        self._take()
        return word

    def _take(self) -> None:
        """The last word was a value: those before it may be left out before the next one."""
        self._qualifiers, self._before = self._before[:-1], []

    def _set(self, name: str, value: Any) -> None:
        if self._rule.get(name, value) != value:
            raise self.wrong(f"two values of {name.replace('_', ' ')}: both cannot be true")
        self._rule[name] = value

    def _number(self, word: str, most: int) -> int:
        try:
            number = int(word, 0)
        except ValueError:
            raise self.wrong(f"{word!r} is not a number") from None
        if not 0 <= number <= most:
            raise self.wrong(f"{word}: expected 0 to {most}")
        return number

    def _ports(self, names: list[str]) -> None:
        first, dash, last = self._value("port which").partition("-")
        ends = [self._number(first, 0xFFFF), self._number(last if dash else first, 0xFFFF)]
        if ends[0] > ends[1]:
            raise self.wrong(f"ports {ends[0]} to {ends[1]}: the first is above the last")
        for name in names:
            self._set(name, ends)

    def _address(self, word: str, names: list[str]) -> None:
        try:
            network = ip_network(word, strict=False)
            address = ip_interface(word).ip
        except ValueError:
            raise self.wrong(f"{word!r} is not an IP address") from None
        for name in names:
            self._set(name, {"address": str(address), "prefix": network.prefixlen})
        self._set("ether_type", _IPV4 if network.version == 4 else _IPV6)

    def _mac(self, names: list[str]) -> None:
        word = self._value("which MAC address")
        if not _MAC.fullmatch(word):
            raise self.wrong(f"{word!r} is not a MAC address")
        for name in names:
            self._set(name, {"address": word.replace("-", ":").lower()})


_GROUPS: Final = {
    "broadcast": ("ff:ff:ff:ff:ff:ff", "ff:ff:ff:ff:ff:ff"),
    "multicast": ("01:00:00:00:00:00", "01:00:00:00:00:00"),
}
"""{name: (address, mask) of the receivers' MAC addresses}."""
_TERMS: Final[Mapping[str, Callable[[_ExpressionReader], None]]] = {
    "src": lambda reader: reader.side("src"),
    "dst": lambda reader: reader.side("dst"),
    "host": _ExpressionReader.host,
    "net": _ExpressionReader.host,
    "port": _ExpressionReader.port,
    "portrange": _ExpressionReader.port,
    "ether": _ExpressionReader.ether,
    "broadcast": lambda reader: reader.group("broadcast"),
    "multicast": lambda reader: reader.group("multicast"),
    "vlan": _ExpressionReader.vlan,
    "pcp": _ExpressionReader.pcp,
    "dscp": _ExpressionReader.dscp,
    "proto": _ExpressionReader.proto,
}
_KNOWN: Final = frozenset({*_TERMS, *_PROTOCOLS, *ETHER_TYPES, *_AND, *_OR, *_NOT, "(", ")"})
"""Words that are no values."""

# Where packets are watched: `[MACHINE/][ns:NAMESPACE/]INTERFACE[:in|:out|:read]`, as `latlab watch --at` takes it.


_NAMESPACE: Final = "ns:"
_GUEST: Final = "guest:"
_INTERFACE: Final = re.compile(r"[^\s/:]{1,15}")
"""What the kernel takes as a name (`dev_valid_name`), without colons."""
_PLACE: Final = re.compile(r"[^\s/-][^\s/]*")
"""An option of ssh begins with a dash."""


@dataclass(frozen=True)
class WatchPoint:
    """One interface. machine: where it is reached over ssh, or `guest:NAME`, a guest that runs here; None: this one.
    namespace: a named network namespace there (`ip netns`); None: its own. directions: `in`, `out` or both, or `read`.
    """

    interface: str
    directions: tuple[str, ...] = BOTH
    machine: str | None = None
    namespace: str | None = None

    @property
    def place(self) -> tuple[str | None, str | None]:
        """Machine and namespace."""
        return self.machine, self.namespace

    @property
    def guest(self) -> str | None:
        """The guest of this machine that its interface is in; None: in none."""
        is_guest = self.machine is not None and self.machine.startswith(_GUEST)
        return self.machine.removeprefix(_GUEST) if self.machine and is_guest else None

    @property
    def name(self) -> str:
        """As it is written, without the direction."""
        namespace = None if self.namespace is None else f"{_NAMESPACE}{self.namespace}"
        return "/".join(filter(None, (self.machine, namespace, self.interface)))


def parse_point(text: str) -> WatchPoint:
    """The point. UsageError: it is none."""
    *places, last = text.split("/")
    interface, colon, direction = last.partition(":")
    if colon and direction not in DIRECTIONS:
        raise _wrong(text, f"{direction!r} is not a direction")
    if not _INTERFACE.fullmatch(interface):
        raise _wrong(text, f"{interface!r} cannot be an interface")
    machine, namespace = None, None
    if places and places[-1].startswith(_NAMESPACE):
        namespace = places.pop().removeprefix(_NAMESPACE)
    if places:
        machine = places.pop()
    named = (machine and machine.removeprefix(_GUEST), namespace)
    if places or any(part is not None and not _PLACE.fullmatch(part) for part in named):
        raise _wrong(text, "before the interface write a machine, a namespace, or both")
    if interface == SOCKET and direction == READ:
        raise _wrong(text, "sockets are not a tap: what programs receive is in")
    return WatchPoint(interface, (direction,) if colon else BOTH, machine, namespace)


class _Point(Protocol):
    """A point, of `latlab watch` or of a flow."""

    @property
    def name(self) -> str: ...
    @property
    def directions(self) -> tuple[str, ...]: ...


def not_judged(trigger: Trigger, points: Sequence[_Point], snap: int) -> tuple[str, str] | None:
    """Why packets cannot be judged from the first point to the last while they pass, and what can be; None: they can.

    snap: bytes of each that are kept.
    """
    first, last = points[0], points[-1]
    if trigger.metric != "latency":
        expected = "latency, from the first point to the last"
        return f"{trigger.metric} is not judged while packets are watched", expected
    # The least late packet takes 1 ns more than that.
    if trigger.above_ns + 1 >= LIMITS.remembered_ns:
        return f"no packet is found late by {trigger.text}: each is remembered for 10 s", "a duration below 10 s"
    if (first.name, first.directions) == (last.name, last.directions):
        return "a latency is between two points", "two points"
    if both := next((point.name for point in (first, last) if len(point.directions) > 1), None):
        return f"{both} has two directions, and packets are judged in one", f"{both}:in or {both}:out"
    if snap < LEAST_JUDGED_SNAP:
        return f"{snap} bytes of a packet may be headers alone", f"snap {LEAST_JUDGED_SNAP} or more"
    return None


def of_two_kernels(points: Sequence[_Point], kernels: Sequence[Hashable]) -> tuple[str, str] | None:
    """Why packets cannot be judged from the first point to the last: one agent judges those of its own kernel; and the
    pairs of points that are of one. None: they can be. kernels: of the points.
    """
    if kernels[0] == kernels[-1]:
        return None
    names = [point.name for point in points]
    pairs = [
        f"{names[one]} and {names[other]}"
        for one, other in combinations(range(len(points)), 2)
        if kernels[one] == kernels[other]
    ]
    what = f"{names[0]} and {names[-1]} are points of two kernels, and an agent judges packets of one"
    return what, f"in one kernel are {'; '.join(pairs)}: name one pair first and last" if pairs else "name two of one"


def _wrong(text: str, what: str) -> UsageError:
    remedy = (
        "eth0, br0:in, tap0:read, ns:NAMESPACE/eth0, guest:vm1/eth0, root@board1/eth0:out or board1/ns:NAMESPACE/eth0"
    )
    return UsageError(f"{text!r} is not a place to watch: {what}", where="--at", remedy=remedy)


# Flows whose packets are watched where they pass interfaces, regardless of the sender: nothing is sent for it.


FLOWS_MAX = 16
POINTS_MAX = 16
SOCKET = "socket"
"""Not an interface, but what programs send and receive."""
TAP = "tap"
"""Of a guest: not an interface in it, but the tap of its virtual network card on its host."""
LEAST_JUDGED_SNAP: Final = LIMITS.snap_least_bytes + LIMITS.distinct_bytes


class FlowPoint(NamedTuple):
    """Where packets are watched: an interface, and the directions. Of a guest also its tap, by the name `tap`."""

    end: End
    directions: tuple[str, ...] = BOTH

    @property
    def name(self) -> str:
        """As it is written, without a direction."""
        return str(self.end)

    def __str__(self) -> str:
        return self.name if self.directions == BOTH else f"{self.name}:{self.directions[0]}"


def parse_flow_point(value: object) -> FlowPoint:
    """The point that `host.interface` names, with `:in`, `:out` or, of a guest's tap, `:read`."""
    text, colon, direction = value.rpartition(":") if isinstance(value, str) and ":" in value else (value, "", "")
    if colon and direction not in DIRECTIONS:
        raise wrong(
            f"{shown(direction)} is not a direction", "in or out, as in ecu.eth0:in; of a guest's tap also read"
        )
    end = parse_end(text)
    if direction == READ and end.interface != TAP:
        raise wrong(f"nothing reads packets from {end}", f"in or out; read is of a guest's tap, as in vm1.{TAP}:read")
    return FlowPoint(end, (direction,) if colon else BOTH)


def _matches(text: str) -> str:
    try:
        parse_flow(text)
    except UsageError as error:
        raise wrong(error.what, error.remedy) from None
    return text


def _each_once(points: tuple[FlowPoint, ...]) -> tuple[FlowPoint, ...]:
    seen = [(point.end, direction) for point in points for direction in point.directions]
    again = next((end for place, (end, way) in enumerate(seen) if (end, way) in seen[:place]), None)
    if again is not None:
        raise wrong(f"{again} appears twice", "each interface and direction once")
    return points


FlowPointText = Annotated[
    FlowPoint,
    PlainValidator(parse_flow_point),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": END.replace("$", "(:(in|out|read))?$"),
            "examples": ["sensor.eth0:out", "vm1.tap"],
        }
    ),
    PlainSerializer(str, return_type=str, when_used="json"),
]


class FlowAsked(Part):
    """Packets that are recorded where they pass interfaces of hosts and guests: their own streams, loads, or those of
    other programs.
    """

    match: Annotated[str, AfterValidator(_matches)] = Field(
        description="which packets, as `latlab watch --flow` takes it, such as udp port 5000 or pcap: ip[8] < 5"
    )
    at: Annotated[Listed[FlowPointText], AfterValidator(_each_once)] = Field(
        min_length=1,
        max_length=POINTS_MAX,
        description="where: host.interface, in or out with :in or :out, else both; guest.tap is a guest's tap or "
        "macvtap on its host, with :read where vhost-net or QEMU reads from it; host.socket is what its programs send "
        "and receive",
    )
    snap: int = Field(
        default=128,
        ge=LIMITS.snap_least_bytes,
        le=LIMITS.snap_most_bytes,
        description="bytes of each packet that are kept, and by which it is recognised",
    )
    sample: int = Field(
        default=1,
        ge=1,
        le=LIMITS.sample,
        description="of so many packets one is recorded, on average, the same ones at every point",
    )
    trigger: TriggerText | None = Field(
        default=None,
        description="flight recorder: which packets are late from the first point to the last, such as latency > "
        "500us; the kernels' events around these packets are kept",
    )
