"""What a scenario is, and what follows from it: routes, addresses, stream numbers, packet counts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Interface
from itertools import pairwise
from math import lcm
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from latlab.model.units import HOUR_NS
from latlab.scenario.findings import shown, wrong
from latlab.scenario.flows import Flow, all_flows, leg_number
from latlab.scenario.guests import Guest
from latlab.scenario.hosts import BoardHost, Host, has_interface, image_for, machine_of, machines_of, switches_of
from latlab.scenario.limits import (
    ACCEPT_SCHEMA,
    METRICS,
    PROBE_METRICS,
    TIMER_METRICS,
    AcceptLimit,
    TriggerText,
    parse_limit,
)
from latlab.scenario.links import Link
from latlab.scenario.loads import Load, LoadBetween, LoadName
from latlab.scenario.network import Route, Segment, routes, segments, vlan_parents
from latlab.scenario.parts import End, ItemName, Listed, Part, Reference, ScenarioName
from latlab.scenario.probes import Between, DdsProbe, PingProbe, Probe, ProbeName, TimerProbe
from latlab.scenario.ptp import Ptp, Timestamps
from latlab.scenario.shapers import ShapedInterface, Shaper, Taprio, port_speed
from latlab.scenario.streams import PAIR, UDP_OVERHEAD, Stream, launches
from latlab.scenario.trust import Trust
from latlab.scenario.tuning import Tuning
from latlab.scenario.units import DURATION, Duration, within
from latlab.scenario.watched import FLOWS_MAX, TAP, FlowAsked, FlowPoint

# Figures that others have published of the same measurement: shown next to it, never mixed with what is measured.


def known_metric(name: str) -> str:
    """The name of a metric that scenarios may name. PydanticCustomError: there is none like that."""
    known = tuple(dict.fromkeys((*METRICS, *PROBE_METRICS, *TIMER_METRICS)))
    if name not in known:
        raise wrong(f"there is no metric {shown(name)}", f"one of {', '.join(known)}")
    return name


Figure = Duration | None
_FIGURES: Final = ("min", "mean", "max", "stddev", "pk_pk", "p50", "p99")
_ASCENDING: Final = (("min", "p50", "p99", "max"), ("min", "mean", "max"))
"""A mean is between the extremes, and nothing more is certain of it: one outlier may lift it above the 99 of 100."""


class Published(Part):
    """One row of a published table. Durations are whole nanoseconds."""

    source: Annotated[str, Field(min_length=1)] = Field(description="where it was published, by whom and when")
    row: Annotated[str, Field(min_length=1)] = Field(description="what was measured, in the words of the source")
    metric: Annotated[str, AfterValidator(known_metric)] = Field(description="the metric here that it is compared with")
    stream: str | None = Field(default=None, description="the stream, leg or probe that it is compared with")
    when: dict[str, Any] = Field(
        default_factory=dict,
        description="the cells that it is compared with: key of the matrix → one of its values, or its name",
    )
    n: Annotated[int, Field(ge=1)] | None = Field(default=None, description="how many packets")
    min: Figure = Field(default=None, description="the smallest")
    mean: Figure = Field(default=None, description="the mean")
    max: Figure = Field(default=None, description="the largest")
    stddev: Figure = Field(default=None, description="the standard deviation")
    pk_pk: Figure = Field(default=None, description="largest less smallest")
    p50: Figure = Field(default=None, description="the median")
    p99: Figure = Field(default=None, description="99 of 100 are below it")

    @model_validator(mode="after")
    def _a_figure_at_least(self) -> Self:
        if all(getattr(self, name) is None for name in _FIGURES):
            raise wrong(f"{shown(self.row)} has no figure", f"at least one of {', '.join(_FIGURES)}")
        return self

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        for names in _ASCENDING:
            given = [(name, value) for name in names if (value := getattr(self, name)) is not None]
            for (low, less), (high, more) in pairwise(given):
                if less > more:
                    what = f"{shown(self.row)}: {low}, {less} ns, is above {high}, {more} ns"
                    raise wrong(what, f"{' ≤ '.join(names)}, as they were published")
        return self


# Windows chosen before the run: intervals of each cell whose figures are shown next to the whole run's.


WINDOWS_MAX = 64
WHY_MAX = 200


def _why(text: object) -> object:
    if not isinstance(text, str) or not text.strip() or not text.isprintable():
        raise wrong(f"{shown(text)} is not a reason", "why this interval, in a sentence: the report shows it")
    if len(text) > WHY_MAX:
        raise wrong(f"a reason of {len(text)} characters", f"{WHY_MAX} or fewer")
    return text


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise wrong("an empty list", "streams, or leave the key out: then it is for all of them")
    again = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if again is not None:
        raise wrong(f"{shown(again)} appears twice", "each stream once")
    return names


Why = Annotated[str, BeforeValidator(_why), WithJsonSchema({"type": "string", "minLength": 1, "maxLength": WHY_MAX})]


class Window(Part):
    """The packets launched from `from` on and before `to`. The same in every cell."""

    from_: Duration = Field(alias="from", description="when it begins, after the start of the streams")
    to: Duration = Field(description="when it ends, after the start of the streams; at most the duration")
    why: Why = Field(description="why this interval, in a sentence")
    streams: Annotated[Listed[Reference], AfterValidator(_each_once)] = Field(
        default=(), description="its streams; all if not given"
    )

    def is_of(self, stream: str) -> bool:
        """Whether it is one of the stream's."""
        return not self.streams or stream in self.streams


# What a scenario is, and what follows from it: routes, addresses, stream numbers, packet counts.


LONGEST_NS = 365 * 24 * HOUR_NS


class Clock(Part):
    """How the hosts' clocks are related."""

    sync: Literal["auto", "shared", "exchange"] = Field(
        default="auto",
        description="auto: one kernel, a page of memory shared with a guest, else exchanges; shared: never exchanges; "
        "exchange: always exchanges of timestamps over the network",
    )
    ptp: Ptp | None = Field(default=None, description="PTP, which synchronises clocks: started, or observed")


WatchDrops = Literal["auto", "always", "never"]
StampsBy = Literal["auto", "ebpf", "socket", "both"]


class Timestamping(Part):
    """How the kernel's own timestamps of packets are taken; those of network cards come from the socket in any case."""

    by: StampsBy = Field(
        default="auto",
        description="ebpf: BPF programs at the kernel's tracepoints; socket: the socket's error queue, which costs "
        "each packet more; auto: ebpf where the kernel and the privilege allow it and programs recognise the packets, "
        "except on emulated kernels, else socket; both: both for the same packets, to compare them",
    )


_NAMED_VALUE = re.compile(r"[^\s,=+][^,=+]{0,39}")


def _values(written: object) -> tuple[object, ...] | dict[str, object]:
    """What a key of the matrix takes: one value or more, no two alike, each with a different name or none."""
    if not isinstance(written, dict | list | tuple):
        raise wrong(f"{shown(written)} is not a list", "a list: [a, b], or a mapping of names to values")
    if not written:
        raise wrong("it is empty", "one value or more")
    for name in written if isinstance(written, dict) else ():
        if not isinstance(name, str) or not _NAMED_VALUE.fullmatch(name):
            raise wrong(f"{shown(name)} is not a name of a value", "up to 40 characters without a comma, = and +")
    seen = set()
    for value in written.values() if isinstance(written, dict) else written:
        text = json.dumps(value, sort_keys=True)
        if text in seen:
            raise wrong(f"{shown(value)} appears twice", "each value once")
        seen.add(text)
    return written if isinstance(written, dict) else tuple(written)


Values = Annotated[
    Any,
    AfterValidator(_values),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "array", "items": {}, "minItems": 1},
                {"type": "object", "additionalProperties": True, "minProperties": 1},
            ]
        }
    ),
]
Accept = Annotated[dict[str, Any], WithJsonSchema(ACCEPT_SCHEMA)]
Length = Annotated[Duration, within(DURATION, 1, LONGEST_NS)]
Pause = Annotated[Duration, within(DURATION, 0, LONGEST_NS)]


class Override(Part):
    """What else is set in the cells that have certain values of the matrix."""

    when: dict[str, Any] = Field(
        min_length=1, description="key of the matrix → which of its values a cell has, or its name"
    )
    set_: dict[str, Any] = Field(
        min_length=1, alias="set", description="path in this file → the value that it has in such a cell"
    )


Excluded = Annotated[dict[str, Any], Field(min_length=1)]
"""Which cells of the matrix are not measured."""


class Scenario(Part):
    """What is measured. `load_scenario` and `cells` return none that breaks a rule of `rules.py`."""

    name: ScenarioName = Field(description="name of the scenario: a part of the run folder's name")
    description: str | None = Field(default=None, description="its purpose, in a sentence")
    hosts: dict[ItemName, Host] = Field(min_length=1, description="the machines, by name")
    links: Listed[Link] = Field(default=(), max_length=256, description="the cables between them")
    guests: dict[ItemName, Guest] = Field(
        default_factory=dict, max_length=64, description="the virtual machines, by name"
    )
    clock: Clock = Field(default=Clock(), description="how the hosts' clocks are related")
    timestamps: Timestamping = Field(
        default=Timestamping(), description="how the kernel's own timestamps of packets are taken"
    )
    watch_drops: WatchDrops = Field(
        default="auto",
        description="whether to record where and why kernels drop packets of streams and probes; auto: on all kernels "
        "that support it, without emulated ones; always: on those, too",
    )
    streams: dict[ItemName, Stream] = Field(
        default_factory=dict, max_length=1024, description="one-way, periodic packets that are measured, by name"
    )
    probes: dict[ProbeName, Probe] = Field(
        default_factory=dict, max_length=256, description="measurements other than streams, by name"
    )
    watched: dict[ItemName, FlowAsked] = Field(
        default_factory=dict,
        alias="flows",
        max_length=FLOWS_MAX,
        description="packets that are watched where they pass interfaces, of any program, by name",
    )
    loads: dict[LoadName, Load] = Field(default_factory=dict, description="background load, by name")
    shapers: dict[ShapedInterface, Shaper] = Field(
        default_factory=dict, description="host.interface → what shapes the traffic that leaves there"
    )
    tuning: dict[Reference, Tuning] = Field(
        default_factory=dict,
        description="how threads run, by host or guest; those not named get the defaults",
    )
    trigger: TriggerText | None = Field(
        default=None,
        description="flight recorder: which packets are late, such as latency > 500us; of where streams arrive the "
        "kernel's events around these packets are kept",
    )
    duration: Length = Field(description="how long each cell sends, warm-up included, such as 900s")
    warmup: Pause = Field(
        default=0, description="packets launched in this initial interval are recorded but are not in any statistic"
    )
    settle: Pause = Field(default=200_000_000, description="wait after the last packet before the listener is stopped")
    repeat: int = Field(default=1, ge=1, le=1000, description="how often each cell is run")
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = Field(
        default=None,
        description="seed of the order in which cells run; random if not given. In virtual time also the seed "
        "of the first repetition: 1 if not given, and one more for each following one",
    )
    matrix: dict[str, Values] = Field(
        default_factory=dict,
        description="path in this file, `loads` or `probes` → the values it takes, or names → these values; every "
        "combination is a cell",
    )
    overrides: Listed[Override] = Field(
        default=(),
        max_length=256,
        description=(
            "other values to set in cells with certain values of the matrix; they are not part of the cells' names"
        ),
    )
    exclude: Listed[Excluded] = Field(
        default=(),
        max_length=256,
        description="cells that are not measured: key of the matrix → one of its values, or its name; with several "
        "keys all match",
    )
    accept: Accept = Field(
        default_factory=dict,
        description="stream.metric.statistic, or of a probe → largest accepted value; above it `latlab run` exits "
        "with 1",
    )
    trust: Trust = Field(default=Trust(), description="thresholds of the trust rules, and rules that are turned off")
    windows: Listed[Window] = Field(
        default=(),
        max_length=WINDOWS_MAX,
        description="intervals of each cell whose figures are shown with those of the whole run",
    )
    headline: Annotated[str, AfterValidator(known_metric)] | None = Field(
        default=None,
        description="the main metric: its table comes first and has the published figures",
    )
    published: Listed[Published] = Field(
        default=(), max_length=256, description="published figures, shown with the measured ones"
    )

    @cached_property
    def flows(self) -> Mapping[str, Flow]:
        """What packets of the measurement flow along, by name: each stream, and both legs of each probe, `rr.up` and
        `rr.down`. Whatever is done for every way that packets take goes through these.
        """
        return {flow.name: flow for flow in all_flows(self.streams, self.probes)}

    @property
    def recorded(self) -> Mapping[str, Flow]:
        """Those of which latlab's agents record each packet: a tool's are not."""
        return {name: flow for name, flow in self.flows.items() if flow.is_recorded}

    def stream_number(self, name: str) -> int:
        """The number of a stream or a leg in packets and tables."""
        return self.flows[name].number

    def probe_number(self, name: str) -> int:
        """The number of a probe in tables: its first leg's, of what has no legs the one that is kept free for it."""
        return leg_number(len(self.streams), list(self.probes).index(name), "up")

    @property
    def pairs(self) -> Mapping[str, tuple[str, str]]:
        """PRP pairs by name, each with its streams by LAN A and by LAN B."""
        return {f"{one.prp}.{PAIR}": (one.prp, name) for name, one in self.streams.items() if one.prp}

    def pair_number(self, name: str) -> int:
        """The number of a PRP pair in tables: behind streams and probes."""
        return leg_number(len(self.streams), len(self.probes), "up") + list(self.pairs).index(name)

    @property
    def first_flow_number(self) -> int:
        """The number in tables of the first stream that is found among watched packets: behind all others."""
        return leg_number(len(self.streams), len(self.probes), "up") + len(self.pairs)

    @property
    def timers(self) -> Mapping[str, TimerProbe]:
        """The probes that are timers of latlab's agents, in the scenario's order."""
        return {name: probe for name, probe in self.probes.items() if isinstance(probe, TimerProbe)}

    @property
    def boards(self) -> Mapping[str, BoardHost]:
        """The hosts that are emulated boards, in the scenario's order."""
        return {name: host for name, host in self.hosts.items() if isinstance(host, BoardHost)}

    @property
    def board_memory(self) -> int:
        """The memory of all boards together, bytes."""
        return sum(board.memory for board in self.boards.values())

    def instant_count(self, name: str) -> int:
        """How many instants of a timer are due before start + duration, warm-up included."""
        probe = self.timers[name]
        return launches(probe.offset, probe.period, self.duration)

    def port(self, name: str) -> int:
        """The port on which a stream's packets, or a probe's questions, are received. KeyError: it has none."""
        port = self.flows[name].port
        if port is None:
            raise KeyError(f"{name} has no port")
        return port

    def packet_count(self, name: str) -> int | None:
        """How many packets of the flow are launched before start + duration, warm-up included; None without a schedule:
        as many as come about.
        """
        flow = self.flows[name]
        return None if flow.period is None else launches(flow.offset, flow.period, self.duration)

    def segments(self) -> list[Segment]:
        """Which interfaces reach each other: a segment for each link, VLAN, and host's unlinked guests.

        Links that switches join are one.
        """
        return segments(dict(enumerate(self.links)), self.guests, self.switches.values())

    def route(self, name: str) -> Route:
        """The segment that a flow takes, with its ends in the flow's direction."""
        flow = self.flows[name]
        if flow.is_answer:
            return self.route(f"{flow.probe}.up").back
        return self._route(flow.sender, flow.receiver, flow.via)

    def route_between(self, sender: str, receiver: str) -> Route | None:
        """The first route that joins two hosts or guests; None where none does."""
        return next(iter(routes(self.segments(), sender, receiver, None)), None)

    def probe_hosts(self, name: str) -> tuple[str, ...]:
        """The hosts and guests that a probe runs on: who asks first."""
        probe = self.probes[name]
        return (probe.from_, probe.to) if isinstance(probe, Between) else (probe.on,)

    def watched_on(self, point: FlowPoint) -> str:
        """The host or guest whose kernel sees the packets of a flow's point: a guest's tap is on its host."""
        host, interface = point.end
        guest = self.guests.get(host)
        return guest.host if guest and interface == TAP else host

    @property
    def receivers(self) -> Mapping[str, tuple[str | None, ...]]:
        """Of each host and guest our agents that receive: None, its listener, then the pings that it answers."""
        found: dict[str, tuple[str | None, ...]] = {stream.listener: (None,) for stream in self.streams.values()}
        for name, probe in self.probes.items():
            if isinstance(probe, PingProbe):
                found[probe.to] = (*found.get(probe.to, ()), name)
        return found

    @property
    def traced(self) -> list[str]:
        """The hosts and guests whose agents that receive are traced, in the order in which these are started."""
        return [host for host in self.receivers if self.tuning_of(host).listener.trace or host in self.kept]

    @property
    def kept(self) -> list[str]:
        """The hosts and guests of whose trace only what is around late packets is kept."""
        if self.trigger is None:
            return []
        listening = dict.fromkeys(stream.listener for stream in self.streams.values())
        return [host for host in listening if not self.tuning_of(host).listener.trace]

    @property
    def traced_timers(self) -> list[str]:
        """The timers of which it is traced how their threads are woken, in the scenario's order."""
        return [name for name, probe in self.timers.items() if probe.trace == "threads"]

    @property
    def entered(self) -> list[str]:
        """The traced guests of latlab's images, into which interrupts come from a VM host that can be traced too."""
        kept = self.kept
        whole = [name for name in self.traced if self.tuning_of(name).listener.trace is True or name in kept]
        whole += [self.probe_hosts(name)[0] for name in self.traced_timers]
        return [name for name in dict.fromkeys(whole) if name in self.guests and self.guests[name].domain is None]

    @property
    def sent_loads(self) -> Mapping[str, LoadBetween]:
        """The loads that are sent from one to another, in the scenario's order: not those that keep one busy."""
        return {name: load for name, load in self.loads.items() if isinstance(load, LoadBetween)}

    def load_route(self, name: str) -> Route:
        """The segment the load takes: talker_end is where it comes from, listener_end where it goes.

        KeyError: it is sent nowhere.
        """
        load = self.sent_loads[name]
        return self._route(load.from_, load.to, load.via)

    @property
    def switches(self) -> Mapping[str, tuple[End, ...]]:
        """Each host that is a switch → its ports."""
        return switches_of(self.hosts)

    def segment_of(self, end: End) -> Segment:
        """The segment an interface is on. KeyError: on none."""
        for segment in self.segments():
            if end in segment.members or end in segment.ports:
                return segment
        raise KeyError(f"{end} is not on any link or bridge")

    def address(self, end: End) -> IPv4Interface:
        """The address of an interface with its prefix; on an existing cable, the one expected there."""
        return self.segment_of(end).address(end)

    def link_number_of(self, end: End) -> int:
        """The place of the link that an interface is an end of, or a VLAN interface on one. KeyError: of none."""
        port = self.parent_of(end)
        for number, link in enumerate(self.links):
            if port in link.ends:
                return number
        raise KeyError(f"{end} is not on any link")

    def link_is_created(self, link: Link) -> bool:
        """True where the link is made for the run (as a veth pair); False where it is an existing cable."""
        return not all(has_interface(self.hosts[end.host], end.interface) for end in link.ends)

    def is_emulated(self, end: End) -> bool:
        """Whether an interface that is there before links are made is an emulated board's network card."""
        return self.is_on_board(end.host)

    def is_on_board(self, host: str) -> bool:
        """Whether a host or a guest is on an emulated board."""
        machine = self.machine_of(host)
        return machine is not None and self.hosts[machine].is_emulated

    def on_machine(self, end: End) -> End:
        """An interface that is there before links are made, where it was then: in its machine's own network namespace.

        On this machine the host is the end's.
        """
        return End(self.machine_of(end.host) or end.host, end.interface)

    def machine_of(self, host: str) -> str | None:
        """The ssh or board host that stands for the machine a host or a guest is on; None for this machine.

        Of several ssh hosts that are one machine, the first stands for it. KeyError: there is no such host or guest.
        """
        on = self.guests[host].host if host in self.guests else host
        return machine_of(self.hosts, machines_of(self.hosts), on)

    def image_of(self, guest: str) -> str:
        """The name of the image that a guest of ours starts from: on an ARM board, of the one for ARM."""
        board = self.boards.get(self.machine_of(guest) or "")
        return image_for(self.guests[guest].image_name, board.arch if board else None)

    def machines(self) -> tuple[str, ...]:
        """The ssh and board hosts, which stand for the machines next to this one: each machine once."""
        return tuple(dict.fromkeys(machines_of(self.hosts).values()))

    @property
    def in_virtual_time(self) -> bool:
        """Whether all of it happens on a board whose clock counts instructions: such a board has no company."""
        return any(board.time == "virtual" for board in self.boards.values())

    def tuning_of(self, host: str) -> Tuning:
        """How things run on the host, or in the guest: as the scenario says, or the defaults."""
        return self.tuning.get(host, Tuning())

    def parent_of(self, end: End) -> End:
        """The end of a link that a VLAN interface is on, by whose queues its packets go; any other end is its own."""
        links = dict(enumerate(self.links))
        ends = {number: link.ends for number, link in links.items()}
        return vlan_parents(ends, links, self.switches.values()).get(end, end)

    def shaper_at(self, end: End) -> Shaper | None:
        """What shapes the traffic that leaves an interface: of a VLAN interface, what shapes that of its parent."""
        return self.shapers.get(str(self.parent_of(end)))

    def speed_at(self, end: End) -> int:
        """Of the port at an interface, bit/s: as its shaper says; else what a veth says, or 1 Gbit/s of a cable.

        Of a VLAN interface: of its parent's port.
        """
        port = self.parent_of(end)
        given = getattr(self.shaper_at(port), "speed", None)
        made = any(port in link.ends and self.link_is_created(link) for link in self.links)
        return port_speed(given, made=made)

    def ptp_timestamps(self, end: End) -> Timestamps:
        """Who stamps the packets of PTP at an interface: as the scenario says, or its card if it is one."""
        given = self.clock.ptp.timestamps if self.clock.ptp else None
        return given or ("hardware" if has_interface(self.hosts[end.host], end.interface) else "software")

    def ptp_master_of(self, end: End) -> End | None:
        """The master of PTP's that is started at another end of a port's segment; None: it has another, or none."""
        ptp = self.clock.ptp
        return ptp.master_of(end, [segment.ends for segment in self.segments()]) if ptp else None

    @property
    def schedules(self) -> Mapping[str, Taprio]:
        """Interface → the schedule by which its gates open and close."""
        return {at: shaper for at, shaper in self.shapers.items() if isinstance(shaper, Taprio)}

    @property
    def cycle(self) -> int:
        """The least common multiple of the schedules' cycles, ns; 0 without any. Streams start at a multiple of it."""
        cycles = [shaper.cycle for shaper in self.schedules.values()]
        return lcm(*cycles) if cycles else 0

    @property
    def scheduled_hosts(self) -> frozenset[str]:
        """Those at an interface of which a schedule opens and closes gates."""
        return frozenset(at.partition(".")[0] for at in self.schedules)

    def limits(self) -> list[AcceptLimit]:
        """The accepted limits, in the scenario's order."""
        parsed = (parse_limit(path, value) for path, value in self.accept.items())
        return [limit for limit in parsed if isinstance(limit, AcceptLimit)]

    def _route(self, sender: str, receiver: str, via: End | None) -> Route:
        return routes(self.segments(), sender, receiver, via)[0]


# How large a packet may be to go in one frame, by what carries it.


TCP_HEADERS: Final = 52
"""IPv4, TCP, and TCP's timestamps, which Linux sends (net.ipv4.tcp_timestamps)."""
RTPS_HEADERS: Final = 20 + 4 + 20 + 4
"""The least that DDS sends with a sample: the header of the message, that of its Data submessage, what all of these
begin with, and the header of the payload (DDSI-RTPS 2.5, sections 9.4.4, 9.4.5.1, 9.4.5.4 and 10.2).
"""
SEQUENCE_LENGTH: Final = 4
"""A sequence of octets begins with its length, which the size of `dds` does not count and ddsperf's does."""


@dataclass(frozen=True)
class Room:
    """What goes in one frame of a link.

    mtu: bytes of an IP packet in a frame. largest: the largest size, as the scenario has it, that may: each one beyond
    goes in several frames. is_exact: no smaller one does; over DDS some may, by what it sends with a sample.
    """

    mtu: int
    largest: int
    is_exact: bool = True


def room(scenario: Scenario, name: str) -> Room | None:
    """That of the packets of a stream, of a probe, or of one of its legs; None of what sends none."""
    flow = scenario.flows.get(name) or scenario.flows.get(f"{name}.up")
    if flow is None:
        return None
    mtu = scenario.route(flow.name).segment.mtu
    return Room(mtu, mtu - _headers(scenario, flow), flow.transport != "dds")


def _headers(scenario: Scenario, flow: Flow) -> int:
    """Bytes of an IP packet, or behind a raw frame's EtherType, that are not counted in the flow's size."""
    if flow.transport != "dds":
        return {"udp": UDP_OVERHEAD, "tcp": TCP_HEADERS, "ethernet": flow.beside}[flow.transport]
    length = SEQUENCE_LENGTH if isinstance(scenario.probes[flow.probe or ""], DdsProbe) else 0
    return UDP_OVERHEAD + RTPS_HEADERS + length
