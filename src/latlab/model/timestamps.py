"""The timestamps of a packet: who takes each, where it is recorded, what it means, and which stage ends at it.

The agent declares the recordings' columns (`latlab-agent schema`); a timestamp that stands here has its column in the
packet table, NAME_tai_ns, its place in the order of a packet's path, and its meaning on the page and in
`latlab explain`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, Literal

Side = Literal["talker", "listener"]
Giver = Literal["schedule", "thread", "kernel", "card"]

TALKER, SOCKET, QDISC, DRIVER = "talker", "socket", "qdisc", "driver"
PATH, KERNEL, APPLICATION = "path", "kernel", "application"
PLACES: Final[Mapping[str, str]] = {
    TALKER: "the talker, before it submitted them",
    SOCKET: "the talker's kernel, before the qdisc",
    QDISC: "the qdisc",
    DRIVER: "the talker's driver or NIC",
    PATH: "the path",
    KERNEL: "the listener's kernel",
    APPLICATION: "the listener, between its kernel and its application",
}
"""Where packets can be held, as far as timestamps show, and how that is said; in the order of their path."""

STAGES: Final[Mapping[str, str]] = {
    "wake-up": "the talker's thread wakes; below zero if it wakes ahead (lead, busy wait)",
    "prepare": "builds the packet; waits for the launch time if it woke ahead",
    "socket": "send call, IP and UDP or packet socket, up to the qdisc",
    "qdisc": "waits there: gates, launch time, queue; up to the driver",
    "sending NIC": "driver's ring, DMA, the NIC's own launch time or gate",
    "path": "wire, switch, VM host, virtual bridge",
    "receiving NIC": "ring, interrupt (and its moderation), driver, up to the kernel's timestamp",
    "delivery": "IP, socket, the listener's thread wakes",
}
"""{stage of a packet's path: what happens in it}, as docs/explanation/where-the-time-went.md has it too."""


@dataclass(frozen=True)
class Timestamp:
    """One timestamp.

    said: what happens at it. side: on whose host it is taken. by: the schedule sets it, or one of that host's threads,
    its kernel or its network card takes it. recorded: where the agent records it, as `sent.submit_tai_ns` (table and
    column), or `stamps.1` (the kind of row); empty: imported packets alone have it. place: where a packet is that has
    not come to it yet, one of PLACES; empty: it is not on a packet's path. ends: {timestamp before it on the path: the
    stage between the two, one of STAGES}. not_before, not_after: a timestamp of the same host that it cannot be before,
    or after. flag: what `ethtool -T` lists of an interface, without which that one does not give it.
    """

    name: str
    said: str
    side: Side
    by: Giver
    recorded: str = ""
    place: str = ""
    ends: Mapping[str, str] = field(default_factory=dict)
    not_before: str = ""
    not_after: str = ""
    flag: str = ""

    @property
    def column(self) -> str:
        """Its column in the packet table."""
        return f"{self.name}_tai_ns"

    @property
    def table(self) -> str:
        """The table that it is recorded in."""
        return self.recorded.partition(".")[0]

    @property
    def recorded_as(self) -> str:
        """Its column there, or its kind of row."""
        return self.recorded.partition(".")[2]

    @property
    def may_lack(self) -> bool:
        """Whether a packet that came there may be without it: what kernels and cards give may be lost."""
        return self.by in ("kernel", "card")


TIMESTAMPS: Final[tuple[Timestamp, ...]] = (
    Timestamp(
        "launch",
        "when the packet is to leave, by the schedule: start + offset + sequence × period",
        "talker",
        "schedule",
        recorded="sent.launch_tai_ns",
    ),
    Timestamp(
        "wake_due",
        "when the thread was to wake: the launch, less lead and busy wait; of a timer the instant itself",
        "talker",
        "schedule",
        recorded="sent.wake_due_tai_ns",
    ),
    Timestamp(
        "wake",
        "the talker's thread woke for it",
        "talker",
        "thread",
        recorded="sent.wake_tai_ns",
        place=TALKER,
        ends={"launch": "wake-up"},
    ),
    Timestamp(
        "submit",
        "just before the send call",
        "talker",
        "thread",
        recorded="sent.submit_tai_ns",
        place=TALKER,
        ends={"wake": "prepare"},
        not_before="wake",
    ),
    Timestamp("sent", "of imported packets: just after the send call", "talker", "thread"),
    Timestamp(
        "tx_sched",
        "the kernel: it entered the qdisc layer",
        "talker",
        "kernel",
        recorded="stamps.0",
        place=SOCKET,
        ends={"submit": "socket"},
        not_before="submit",
    ),
    Timestamp(
        "tx_soft",
        "the kernel: it was handed to the network driver",
        "talker",
        "kernel",
        recorded="stamps.1",
        place=QDISC,
        ends={"tx_sched": "qdisc"},
        not_before="submit",
        flag="TX_SOFTWARE",
    ),
    Timestamp(
        "tx_hard",
        "the sending network card's own clock",
        "talker",
        "card",
        recorded="stamps.2",
        place=DRIVER,
        ends={"tx_soft": "sending NIC"},
        not_before="wake",
    ),
    Timestamp("previous", "of watched packets: when the first point saw the packet before", "talker", "kernel"),
    Timestamp(
        "counted",
        "of watched packets whose sender counts its cycles: `first_point` of its previous packet plus the "
        "time that it counted between the two",
        "talker",
        "kernel",
    ),
    Timestamp(
        "sampled",
        "of watched sampled values: refrTm, the reference time of the frame's first sample",
        "talker",
        "thread",
    ),
    Timestamp("first_point", "of imported and of watched packets: when the first point saw it", "talker", "kernel"),
    Timestamp("second_point", "the same of the second point", "listener", "kernel"),
    Timestamp(
        "rx_hard",
        "the receiving network card's own clock",
        "listener",
        "card",
        recorded="received.rx_hard_phc_ns",
        place=PATH,
        ends={"tx_hard": "path"},
        not_after="rx_user",
    ),
    Timestamp(
        "rx_soft",
        "the receiving kernel: it came out of the driver",
        "listener",
        "kernel",
        recorded="received.rx_soft_real_ns",
        place=KERNEL,
        ends={"tx_soft": "path", "rx_hard": "receiving NIC"},
        not_after="rx_user",
    ),
    Timestamp(
        "rx_user",
        "the listening application received it",
        "listener",
        "thread",
        recorded="received.rx_user_tai_ns",
        place=APPLICATION,
        ends={"rx_soft": "delivery", "rx_hard": "delivery"},
    ),
    Timestamp("answered", "the asking application received the answer", "talker", "thread"),
)
"""All of them, in the order of a packet's path."""

BY_NAME: Final[Mapping[str, Timestamp]] = {one.name: one for one in TIMESTAMPS}
RECORDED: Final[tuple[Timestamp, ...]] = tuple(one for one in TIMESTAMPS if one.recorded)
"""Those that our own agents record."""
SENT: Final = tuple(one for one in RECORDED if one.table == "sent")
STAMPS: Final = tuple(one for one in RECORDED if one.table == "stamps")
RECEIVED: Final = tuple(one for one in RECORDED if one.table == "received")
WAY: Final[tuple[str, ...]] = ("launch", *(one.name for one in RECORDED if one.place))
"""A packet's path."""
BY_KERNEL: Final = tuple(one for one in RECORDED if one.by == "kernel")
LEFT: Final[Mapping[Giver, Timestamp]] = {one.by: one for one in STAMPS if one.place in (QDISC, DRIVER)}
"""Those behind the qdisc, {who takes it: timestamp}: the driver has a packet once the kernel's gate has let it through;
a NIC stamps it behind its own gate or launch time."""
CARDS: Final[frozenset[str]] = frozenset(one.name for one in TIMESTAMPS if one.by == "card")


def impossible_orders() -> str:
    """The orders of timestamps that cannot be, as text: "`submit` before `wake`, `tx_hard` before `wake`, …"."""
    ends = [(one.name, "before", one.not_before) for one in TIMESTAMPS if one.not_before]
    ends += [(one.name, "after", one.not_after) for one in TIMESTAMPS if one.not_after]
    groups = groupby(ends, key=lambda end: end[1:])
    return ", ".join(
        f"{' or '.join(f'`{name}`' for name, *_ in group)} {where} `{other}`" for (where, other), group in groups
    )
