"""Cyclone DDS's configuration, as CYCLONEDDS_URI has it and as our own agent's `dds` is given it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from xml.sax.saxutils import quoteattr

FIRST_PORT: Final = 7400
PORTS: Final = 250
"""The first UDP port of domain 0, and how many each domain has (DDSI-RTPS 2.5, section 9.6.2.1)."""
_LARGEST_MESSAGE: Final = "65500B"
"""As much as a datagram carries: what Cyclone's own latency-test sets, so that large samples go in few."""
_INTERNAL: Final = "<MultipleReceiveThreads>true</MultipleReceiveThreads>"
"""A receiving thread a socket, as Cyclone DDS before 11 has it from the start: one for all waits for each packet with a
separate call (epoll_wait), which is a tenth of half a round trip."""
_PARTICIPANTS: Final = 9
"""Programs in one domain on one host, less one: so many ports of each peer are asked who is there."""


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
    general = f"{interface}<AllowMulticast>false</AllowMulticast><MaxMessageSize>{_LARGEST_MESSAGE}</MaxMessageSize>"
    index = (
        f"<ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>{_PARTICIPANTS}</MaxAutoParticipantIndex>"
    )
    peers = "".join(f"<Peer address={quoteattr(address)}/>" for address in cyclone.peers)
    threads = "".join(_threads(cyclone.threads))
    return (
        f"<General>{general}</General><Discovery>{index}<Peers>{peers}</Peers></Discovery>"
        f"<Internal>{_INTERNAL}</Internal>{f'<Threads>{threads}</Threads>' if threads else ''}"
    )


def _threads(threads: Mapping[str, int]) -> Iterator[str]:
    for name, priority in threads.items():
        scheduling = f"<Class>realtime</Class><Priority>{priority}</Priority>"
        yield f"<Thread name={quoteattr(name)}><Scheduling>{scheduling}</Scheduling></Thread>"
