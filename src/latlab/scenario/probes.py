"""The kinds of probes: other ways of measuring than a stream. A new kind is one model here and one name in `Probe`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from latlab.model.limits import LIMITS
from latlab.model.metrics import TIMED
from latlab.model.units import HOUR_NS, MICROSECOND_NS, MILLISECOND_NS, SECOND_NS
from latlab.scenario.findings import Raw, shown, wrong
from latlab.scenario.links import Pcp, VlanId
from latlab.scenario.parts import End, EndText, ItemName, Part, Priority, Reference
from latlab.scenario.streams import default_pcp
from latlab.scenario.units import DURATION, SIZE, Duration, Size, within

NO_PROBES = "none"
"""In the matrix: no probe runs."""

SOCKPERF_BYTES = 14
"""The least that sockperf sends: its own header (`--msg-size`)."""
DDSPERF_BYTES = 12
"""What is in every sample of ddsperf: sequence number, key, length."""
FIRST_DDS_DOMAIN = 40
"""Probes that name no domain have one each from here on: others' programs are in low ones, 0 before all."""
RR_BYTES_MAX = 65507
"""What a UDP_RR can send in one datagram; TCP_RR is held to the same, so that the two compare."""


def _not_reserved(name: str) -> str:
    if name == NO_PROBES:
        raise wrong("a probe cannot be named none", "another name: none stands for no probe in the matrix")
    return name


def _whole_rate(period: int) -> int:
    """sockperf and ddsperf take a whole number of messages a second."""
    if SECOND_NS % period:
        raise wrong("that is not a whole number of messages a second", "a period such as 1ms or 500us")
    return period


def _whole_us(period: int) -> int:
    """netperf is given whole microseconds."""
    if period % MICROSECOND_NS:
        raise wrong("that is not a whole number of microseconds", "a period such as 10ms or 500us")
    return period


def _traced(value: object) -> object:
    if not isinstance(value, bool) and value not in ("auto", "threads"):
        raise wrong(f"{shown(value)} is not supported", "true, false, auto or threads")
    return value


ProbeName = Annotated[ItemName, AfterValidator(_not_reserved)]
Period = Annotated[Duration, within(DURATION, MICROSECOND_NS)]
Port = Annotated[int, Field(ge=1, le=65535)]
CycloneThread = Literal["recvUC", "recv", "tev", "dq.builtins", "dq.user", "gc"]
"""The threads that Cyclone has as it is configured here, by the names it gives them."""
Patience = Annotated[Duration, within(DURATION, MICROSECOND_NS, HOUR_NS)]


Transport = Literal["udp", "tcp", "ethernet", "dds"]


class ProbeBase(Part):
    """What every probe is asked: whom it joins, and what it takes of them."""

    own_ports: ClassVar[int] = 0
    """How many ports a tool takes at `to`, from `Scenario.tool_port` on."""
    is_recorded: ClassVar[bool] = False
    """Whether latlab's own agents record each of its packets, in both directions."""
    verbs: ClassVar[Mapping[str, str]] = {}
    """Role, `ping` of who asks and `pong` of who answers → the verb of latlab's agent; of tools and timers none."""

    @property
    def kind(self) -> str:
        """Which of the kinds it is."""
        return str(getattr(self, "probe"))  # noqa: B009


class Between(ProbeBase):
    """A probe that asks another host, and has its answer: two legs, up and down."""

    from_: Reference = Field(alias="from", description="the host or guest that asks")
    to: Reference = Field(description="the host or guest that answers")
    via: EndText | None = Field(default=None, description="the asker's host.interface, if several links join the two")

    @property
    def talker(self) -> str:
        """Who sends the questions."""
        return self.from_

    @property
    def listener(self) -> str:
        """Who receives them, and sends the answers."""
        return self.to

    @property
    def carrier(self) -> Transport:
        """What its packets are sent by."""
        found: Transport = getattr(self, "transport", "udp")
        return found

    @property
    def ends(self) -> tuple[str, str, End | None]:
        """Who asks, who answers, by which interface."""
        return self.from_, self.to, self.via


def _transport(given: Raw) -> Literal["udp", "tcp", "ethernet"]:
    return "udp" if given.get("vlan") is None else "ethernet"


class QuestionProbe(Between):
    """latlab's own question and answer; every packet of both directions is recorded."""

    is_recorded: ClassVar[bool] = True
    verbs: ClassVar[Mapping[str, str]] = {"ping": "ping", "pong": "pong"}

    period: Period | None = Field(
        default=None,
        description="time between questions, independent of answers; not given: a closed loop, in which an "
        "answer starts the next question",
    )
    offset: Duration = Field(
        default=0, description="of the first question after the common start; less than the period, and with one only"
    )
    timeout: Patience = Field(
        default=SECOND_NS, description="how long to wait for an answer; in a closed loop the next question is sent then"
    )


def _timestamps(given: Raw) -> Literal["kernel", "user"]:
    return "user" if given.get("transport") == "tcp" else "kernel"


class PingProbe(QuestionProbe):
    """latlab's own question and answer over UDP, TCP or in raw frames."""

    probe: Literal["ping"]
    size: Annotated[Size, within(SIZE, LIMITS.probe_bytes, LIMITS.payload_bytes)] = Field(
        description="bytes of the question and of the answer, headers not counted"
    )
    priority: Priority = Field(default=0, description="socket priority (SO_PRIORITY) of both, 0 to 15")
    vlan: VlanId | None = Field(default=None, description="VLAN id, in the frame; ethernet only")
    pcp: Pcp | None = Field(
        default_factory=default_pcp,
        description="priority in the VLAN tag; the socket priority, at most 7, if not given",
    )
    transport: Literal["udp", "tcp", "ethernet"] = Field(
        default_factory=_transport,
        description="udp, tcp, or ethernet for raw frames; ethernet where a vlan is given, else udp",
    )
    port: Port | None = Field(default=None, description="UDP or TCP port of the answerer; one of latlab's if not given")
    ethertype: int = Field(
        default=0x88B5, ge=0x600, le=0xFFFF, description="EtherType of raw frames; 0x88b5: local experimental"
    )
    timestamps: Literal["kernel", "user"] = Field(
        default_factory=_timestamps,
        description=(
            "what takes timestamps: kernel: also the kernel and capable NICs; user: latlab alone, which is faster, "
            "but does not give the stages of a leg; user over tcp, if not given"
        ),
    )


class OverDds(Between):
    """A probe over Cyclone DDS."""

    domain: Annotated[int, Field(ge=0, le=LIMITS.dds_domain)] | None = Field(
        default=None, description="DDS domain, not shared with another probe; one from 40 on if not given"
    )
    reliable: bool = Field(default=True, description="lost samples are sent again; false: best effort")

    @property
    def carrier(self) -> Transport:
        return "dds"


class DdsProbe(QuestionProbe, OverDds):
    """latlab's own question and answer over DDS."""

    verbs: ClassVar[Mapping[str, str]] = {"ping": "dds", "pong": "dds"}

    probe: Literal["dds"]
    size: Annotated[Size, within(SIZE, LIMITS.probe_bytes, LIMITS.dds_bytes)] = Field(
        description="bytes of the question and of the answer, a sequence of octets; headers and its length not counted"
    )
    take: Literal["listener", "waitset", "spin"] = Field(
        default="listener",
        description="which thread takes samples, on both sides: Cyclone's receiving thread, a thread that "
        "sleeps in a waitset, or one that polls",
    )
    threads: dict[CycloneThread, Annotated[int, Field(ge=1, le=99)]] = Field(
        default_factory=dict,
        description="SCHED_FIFO priority of threads of Cyclone's, by the names it gives them, on both sides",
    )
    timestamps: Literal["kernel", "user"] = Field(
        default="user",
        description="what takes timestamps: kernel: also BPF programs, of samples in one packet; user: latlab alone",
    )


class DdsperfProbe(OverDds):
    """Cyclone DDS's own ddsperf: ping and pong."""

    probe: Literal["ddsperf"]
    size: Annotated[Size, within(SIZE, DDSPERF_BYTES, LIMITS.dds_bytes)] = Field(
        description="bytes of a sample, as ddsperf counts them: 12 are its own"
    )
    period: Annotated[Period, AfterValidator(_whole_rate)] | None = Field(
        default=None, description="time between questions; not given: a closed loop"
    )
    take: Literal["listener", "waitset"] = Field(
        default="listener",
        description="which thread takes samples, on both sides: Cyclone's receiving thread, or one of ddsperf's",
    )


class NetperfProbe(Between):
    """netperf's request and response: one at a time, in a closed loop or at a rate."""

    own_ports: ClassVar[int] = 2

    probe: Literal["netperf"]
    test: Literal["TCP_RR", "UDP_RR"] = Field(default="TCP_RR", description="netperf's test")
    size: Annotated[Size, within(SIZE, 1, RR_BYTES_MAX)] = Field(
        default=1, description="bytes of a request and of a response (-r)"
    )
    period: Annotated[Period, AfterValidator(_whole_us)] | None = Field(
        default=None,
        description="time between requests (-w, -b 1); needs a netperf built with intervals; not given: a closed loop",
    )

    @property
    def carrier(self) -> Transport:
        return "tcp" if self.test == "TCP_RR" else "udp"


class SockperfProbe(Between):
    """sockperf: ping-pong, or under-load at a rate."""

    own_ports: ClassVar[int] = 1

    probe: Literal["sockperf"]
    transport: Literal["udp", "tcp"] = Field(default="udp", description="udp or tcp")
    size: Annotated[Size, within(SIZE, SOCKPERF_BYTES, LIMITS.payload_bytes)] = Field(
        default=64, description="bytes of a message (--msg-size)"
    )
    period: Annotated[Period, AfterValidator(_whole_rate)] | None = Field(
        default=None, description="under-load: time between messages, each of which is answered; not given: ping-pong"
    )


class OnOne(ProbeBase):
    """A probe of one machine: nothing is sent."""

    on: Reference = Field(description="the host or guest it runs on")
    period: Annotated[Duration, within(DURATION, MICROSECOND_NS)] = Field(
        default=MILLISECOND_NS, description="time between expiries of the timer"
    )

    @property
    def metrics(self) -> tuple[str, ...]:
        """Those that it has: the whole, and the parts that it measures separately."""
        return tuple(one.name for one in TIMED)


class TimerProbe(OnOne):
    """latlab's own timer: how late it wakes a thread, every expiry recorded."""

    probe: Literal["timer"]
    how: Literal["nanosleep", "timerfd"] = Field(
        default="nanosleep", description="how it waits: clock_nanosleep, or a read of a timerfd"
    )
    offset: Duration = Field(default=0, description="of the first expiry after the common start; less than the period")
    threshold: Annotated[Duration, within(DURATION, 1)] = Field(
        default=30_000, description="later expiries are counted"
    )
    window: Annotated[Duration, within(DURATION, MILLISECOND_NS)] = Field(
        default=10 * SECOND_NS, description="figures are printed live for each interval of this length"
    )
    trace: Annotated[
        bool | Literal["auto", "threads"],
        BeforeValidator(_traced, json_schema_input_type=bool | Literal["auto", "threads"]),
    ] = Field(
        default="auto",
        description="record the instant of the timer's interrupt, too; auto: if the kernel reports it; threads: "
        "also how its thread is woken and starts to run, and what was interrupted",
    )

    @property
    def metrics(self) -> tuple[str, ...]:
        """Without a trace the whole alone."""
        return ("wakeup",) if self.trace is False else super().metrics


class CyclictestProbe(OnOne):
    """rt-tests' cyclictest."""

    probe: Literal["cyclictest"]

    @property
    def metrics(self) -> tuple[str, ...]:
        """The thread's."""
        return ("wakeup",)


class TimerlatProbe(OnOne):
    """The kernel's timerlat tracer, by rtla."""

    probe: Literal["timerlat"]

    @property
    def metrics(self) -> tuple[str, ...]:
        """The thread's, and the interrupt's."""
        return ("wakeup", "interrupt")


Probe = Annotated[
    PingProbe | DdsProbe | DdsperfProbe | NetperfProbe | SockperfProbe | TimerProbe | CyclictestProbe | TimerlatProbe,
    Field(discriminator="probe"),
]
