"""Everything that packets of a measurement flow along: streams, and both legs of each probe, as things of one shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Literal

from latlab.scenario.findings import Path
from latlab.scenario.parts import End
from latlab.scenario.probes import FIRST_DDS_DOMAIN, Between, OverDds, PingProbe, ProbeBase, Transport
from latlab.scenario.streams import FIRST_PORT, LaunchTime, Stream, beside_the_probe

Leg = Literal["up", "down"]
LEGS: Final[tuple[Leg, Leg]] = ("up", "down")
"""The question's way, from who asks; the answer's, back."""

FIRST_TOOL_PORT: Final = 5590
"""Tools' servers listen from here on, past any stream's port."""


@dataclass(frozen=True)
class Flow:
    """Packets one way: a stream's, or those of one leg of a probe.

    name: the stream's, or `rr.up` and `rr.down`. number: in packets and tables. sender, receiver: hosts or guests. via:
    the interface it leaves by, where the scenario says it; of a leg down none, since an answer goes back the way its
    question came. transport: of `dds` in what packets a sample goes, and by which ports, is Cyclone DDS's affair.
    period, offset: ns; period None: no schedule (a closed loop, an answer, a tool's). port: UDP's or TCP's, None of raw
    frames and of DDS; who receives listens there, of a leg down who sends. size: bytes; None where a tool chooses.
    beside: bytes of a raw frame behind its EtherType that are not counted in size, at most.
    is_recorded: whether our agents record each packet.
    """

    name: str
    number: int
    path: Path
    sender: str
    receiver: str
    via: End | None
    transport: Transport
    port: int | None
    size: int | None
    beside: int
    priority: int
    vlan: int | None
    ethertype: int | None
    period: int | None
    offset: int
    launch_time: LaunchTime | None
    probe: str | None
    leg: Leg | None
    is_recorded: bool

    @property
    def is_answer(self) -> bool:
        """Whether it goes back the way of another one."""
        return self.leg == "down"


def all_flows(streams: Mapping[str, Stream], probes: Mapping[str, ProbeBase]) -> Iterator[Flow]:
    """Every flow: streams in their order, then each probe's leg up and its leg down."""
    for number, (name, stream) in enumerate(streams.items(), start=1):
        beside = beside_the_probe(streams, name) if stream.transport == "ethernet" else 0
        yield _of_stream(name, number, stream, beside)
    tools = tool_ports(streams, probes)
    for name, probe in probes.items():
        if isinstance(probe, Between):
            first = leg_number(len(streams), list(probes).index(name), "up")
            yield from _of_probe(name, first, probe, tools.get(name))


def leg_number(streams: int, place: int, leg: Leg) -> int:
    """The number of a leg: each probe has two behind the streams' numbers. place: of the probe in the scenario, from 0.

    A probe that has no legs keeps them free, so that a number depends on the place alone.
    """
    return streams + 2 * place + 1 + LEGS.index(leg)


def given_port(entry: Any, number: int) -> int | None:
    """The port of a stream or a ping: its own, or the one its number gives; None of raw frames and of tools."""
    if not isinstance(entry, Stream | PingProbe) or entry.transport == "ethernet":
        return None
    return entry.port or FIRST_PORT + number - 1


def tool_ports(streams: Mapping[str, Stream], probes: Mapping[str, ProbeBase]) -> dict[str, int]:
    """The first port of each tool that needs any: none of them a stream's, a ping's or another tool's."""
    taken = {given_port(stream, number) for number, stream in enumerate(streams.values(), start=1)}
    for place, probe in enumerate(probes.values()):
        taken.add(given_port(probe, leg_number(len(streams), place, "up")))
    found: dict[str, int] = {}
    port = FIRST_TOOL_PORT
    for name, probe in probes.items():
        if probe.own_ports:
            while clash := taken & set(range(port, port + probe.own_ports)):
                port = max(filter(None, clash)) + 1
            found[name] = port
            port += probe.own_ports
    return found


def dds_domains(probes: Mapping[str, ProbeBase]) -> dict[str, int]:
    """The DDS domain of each probe that is over DDS: the one it names, or one that no other has."""
    over = {name: probe for name, probe in probes.items() if isinstance(probe, OverDds)}
    taken = {probe.domain for probe in over.values()}
    free = (domain for domain in count(FIRST_DDS_DOMAIN) if domain not in taken)
    return {name: next(free) if probe.domain is None else probe.domain for name, probe in over.items()}


def _of_stream(name: str, number: int, stream: Stream, beside: int) -> Flow:
    return Flow(
        name=name,
        number=number,
        path=("streams", name),
        sender=stream.talker,
        receiver=stream.listener,
        via=stream.via,
        transport=stream.transport,
        port=given_port(stream, number),
        size=stream.size,
        beside=beside,
        priority=stream.priority,
        vlan=stream.vlan,
        ethertype=stream.ethertype,
        period=stream.period,
        offset=stream.offset,
        launch_time=stream.launch_time,
        probe=None,
        leg=None,
        is_recorded=True,
    )


def _of_probe(name: str, number: int, probe: Between, tool_port: int | None) -> Iterator[Flow]:
    """Both legs. What a kind has not, as a tool has no priority, is as the kernel has it."""
    own = probe if isinstance(probe, PingProbe) else None
    port = given_port(probe, number) if own else tool_port
    for leg, (sender, receiver, via) in zip(
        LEGS, ((probe.from_, probe.to, probe.via), (probe.to, probe.from_, None)), strict=True
    ):
        is_scheduled = leg == "up" and probe.is_recorded
        yield Flow(
            name=f"{name}.{leg}",
            number=number + LEGS.index(leg),
            path=("probes", name),
            sender=sender,
            receiver=receiver,
            via=via,
            transport=probe.carrier,
            port=port,
            size=getattr(probe, "size", None),
            beside=0,
            priority=own.priority if own else 0,
            vlan=own.vlan if own else None,
            ethertype=own.ethertype if own else None,
            period=getattr(probe, "period", None) if is_scheduled else None,
            offset=getattr(probe, "offset", 0) if is_scheduled else 0,
            launch_time=None,
            probe=name,
            leg=leg,
            is_recorded=probe.is_recorded,
        )
