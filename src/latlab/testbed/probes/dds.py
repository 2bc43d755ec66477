"""latlab's own probe over Cyclone DDS: the spec of `latlab-agent dds` on both sides; keys: docs/reference/agent.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal
from xml.sax.saxutils import quoteattr

from latlab.model.limits import LIMITS
from latlab.model.units import SECOND_NS
from latlab.scenario.models import StampsBy
from latlab.testbed.step import Spec

# Cyclone DDS's configuration, as CYCLONEDDS_URI has it and as our own agent's `dds` is given it.


FIRST_PORT: Final = 7400
PORTS: Final = 250
"""The first UDP port of domain 0, and how many each domain has (DDSI-RTPS 2.5, section 9.6.2.1)."""
_INTERNAL: Final = "<MultipleReceiveThreads>true</MultipleReceiveThreads>"
"""A receiving thread a socket, as Cyclone DDS before 11 has it from the start: one for all waits for each packet with a
separate call (epoll_wait), which is a tenth of half a round trip."""
_PARTICIPANTS: Final = 9
"""Programs in one domain on one host, less one: so many ports of each peer are asked who is there."""

_ANNOUNCED_AGAIN: Final = "<SPDPInterval>4s</SPDPInterval>"
"""A participant announces itself to its peers twice within 100 ms. If both are lost, Cyclone's default is to try again
after 30 s, later than `DISCOVERY_NS` (spdp_do_aging_locators() in ddsi_spdp_schedule.c)."""


@dataclass(frozen=True)
class Cyclone:
    """How Cyclone DDS runs on one host.

    interface: the one by which it sends and receives, and no other. peers: addresses of the other hosts, which are
    given of this one; multicast is off. threads: SCHED_FIFO priority of Cyclone's threads, by the name Cyclone gives
    them (latlab.scenario.probes.CycloneThread).
    """

    interface: str
    peers: tuple[str, ...]
    threads: Mapping[str, int] = field(default_factory=dict)


def configuration(cyclone: Cyclone) -> str:
    """The text for CYCLONEDDS_URI: fragments of XML, which Cyclone takes as well as a whole document."""
    interface = f"<Interfaces><NetworkInterface name={quoteattr(cyclone.interface)}/></Interfaces>"
    largest = f"<MaxMessageSize>{LIMITS.dds_message_bytes}B</MaxMessageSize>"
    general = f"{interface}<AllowMulticast>false</AllowMulticast>{largest}"
    index = (
        f"<ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>{_PARTICIPANTS}</MaxAutoParticipantIndex>"
    )
    peers = "".join(f"<Peer address={quoteattr(address)}/>" for address in cyclone.peers)
    threads = "".join(_threads(cyclone.threads))
    return (
        f"<General>{general}</General><Discovery>{index}<Peers>{peers}</Peers>{_ANNOUNCED_AGAIN}</Discovery>"
        f"<Internal>{_INTERNAL}</Internal>{f'<Threads>{threads}</Threads>' if threads else ''}"
    )


def _threads(threads: Mapping[str, int]) -> Iterator[str]:
    for name, priority in threads.items():
        scheduling = f"<Class>realtime</Class><Priority>{priority}</Priority>"
        yield f"<Thread name={quoteattr(name)}><Scheduling>{scheduling}</Scheduling></Thread>"


# latlab's own probe over Cyclone DDS: the spec of `latlab-agent dds` on both sides; keys: docs/reference/agent.md.


DISCOVERY_NS: Final = 10_000_000_000
_LOOP_HISTORY: Final = 1
"""In a closed loop there is one sample at a time, and ddsperf keeps as many."""
_RATE_HISTORY: Final = 1000
"""At a rate a reader that is held up must lose none meanwhile: a second's at 1 kHz."""

Mode = Literal["listener", "block", "spin"]


@dataclass(frozen=True)
class DdsSide:
    """One side of a probe. cpus: those that Cyclone's own threads may run on; None: any. realtime: how the agent's own
    measuring threads run, as in every spec. recording: the prefix of its recordings there.
    """

    cyclone: Cyclone
    recording: str
    mode: Mode = "listener"
    cpus: tuple[int, ...] | None = None
    realtime: Spec = field(default_factory=dict)


@dataclass(frozen=True)
class DdsPlan:
    """One probe over DDS, resolved.

    up, down: stream numbers of questions and answers. size: bytes of the probe; a sample has four more, its length.
    period_ns: from one question to the next; None: each follows the answer before it. duration_ns: at a rate no
    question is due so long after the start or later, in a closed loop after the first; timeout_ns: how long an answer
    is waited for. reliable: what is lost is sent again. stamps_by: who takes the kernel's timestamps; None: nobody.
    """

    name: str
    run_id: str
    asker: DdsSide
    answerer: DdsSide
    domain: int
    up: int
    down: int
    size: int
    period_ns: int | None
    duration_ns: int
    timeout_ns: int = SECOND_NS
    offset_ns: int = 0
    busy_wait_ns: int = 0
    reliable: bool = True
    stamps_by: StampsBy | None = None


def pong_spec(plan: DdsPlan) -> Spec:
    """The spec of the side that answers. It is ready at once, and answers until it is stopped."""
    side = plan.answerer
    # With a listener Cyclone's thread answers: there is no other that a priority or CPUs could be of.
    own = side.realtime if side.mode != "listener" else _of_process(side.realtime)
    return {**_spec(plan, side, "pong"), "realtime": own}


def ping_spec(plan: DdsPlan) -> Spec:
    """The spec of the side that sends requests. It is ready once a sample has been to the other side and back."""
    count = None if plan.period_ns is None else -(-(plan.duration_ns - plan.offset_ns) // plan.period_ns)
    return {
        **_spec(plan, plan.asker, "ping"),
        "busy_wait_ns": plan.busy_wait_ns,
        "period_ns": plan.period_ns,
        "offset_ns": plan.offset_ns,
        "count": count,
        "duration_ns": plan.duration_ns,
        "timeout_ns": plan.timeout_ns,
        "discovery_ns": DISCOVERY_NS,
    }


def _spec(plan: DdsPlan, side: DdsSide, role: str) -> Spec:
    return {
        "role": role,
        "run_id": plan.run_id,
        "recording": side.recording,
        "realtime": side.realtime,
        "mode": side.mode,
        "up": plan.up,
        "down": plan.down,
        "name": plan.name,
        "interface": side.cyclone.interface,
        "size": plan.size,
        "stamps_by": plan.stamps_by,
        "transport": {
            "kind": "dds",
            "domain": plan.domain,
            "config": configuration(side.cyclone),
            "reliable": plan.reliable,
            "history": _LOOP_HISTORY if plan.period_ns is None else _RATE_HISTORY,
            "cpus": list(side.cpus) if side.cpus else None,
        },
    }


def _of_process(realtime: Spec) -> Spec:
    """Of the settings those that are the whole process's."""
    return {key: value for key, value in realtime.items() if key not in ("fifo", "cpus", "timer_slack_ns")}
