"""The metrics: between which two timestamps each one is, of which packets, and what it is called.

How values are taken from a packet table is in latlab.analysis.metrics. Every output has a metric that stands here, and
so have `accept` and the tables of the documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from latlab.model.timestamps import APPLICATION, DRIVER, KERNEL, PATH, QDISC, SOCKET, TALKER

Population = Literal["handed over", "sent", "received", "waited for"]
"""Which packets should have the metric's timestamps: those given to the kernel; those it took and whose
launch time it did not refuse; those that arrived. Of a timer's instants: those that a timer was set for."""


POPULATIONS: Final[Mapping[Population, str]] = {
    "handed over": "packets handed over",
    "sent": "packets that the kernel accepted and no qdisc refused",
    "received": "packets received",
    "waited for": "instants that a timer was set for",
}
LATER: Final = ("later", "earlier")
SLOWER: Final = ("slower", "faster")


@dataclass(frozen=True)
class MetricKind:
    """One metric: value = end − start.

    pairs: (start, end) timestamps in order of preference; the first pair of which the stream has both is used
    for all its packets. population: which packets count as `missing` without them. crosses_hosts: the
    difference of two hosts' clocks, so it carries the bound of the offset between them. periodic: the start
    is not the packet's own timestamp but that of the first one + n × period, both moved onto the talker's clock, where
    that is another one, and each with its bound. more_less: what a larger value is called,
    and a smaller one. places: those of latlab.model.timestamps that a packet passes in it; empty: all.
    """

    name: str
    title: str
    formula: str
    pairs: tuple[tuple[str, str], ...]
    population: Population
    crosses_hosts: bool = False
    periodic: bool = False
    more_less: tuple[str, str] = ("higher", "lower")
    places: tuple[str, ...] = ()


METRICS: Final[tuple[MetricKind, ...]] = (
    MetricKind(
        "wakeup",
        "Wake-up",
        "wake − planned wake",
        (("wake_due", "wake"),),
        "handed over",
        more_less=LATER,
        places=(TALKER,),
    ),
    MetricKind(
        "lateness",
        "Lateness",
        "(tx_hard, tx_soft, tx_sched or submit) − launch",
        (("launch", "tx_hard"), ("launch", "tx_soft"), ("launch", "tx_sched"), ("launch", "submit")),
        "sent",
        more_less=LATER,
        places=(TALKER, SOCKET, QDISC, DRIVER),
    ),
    # A NIC's clock and a system clock are two clocks: the path is taken between two of a kind, never across.
    # A stream that has only one NIC's timestamps uses the software ones of both ends.
    MetricKind(
        "path",
        "Path",
        "rx_hard − tx_hard, or rx_soft − tx_soft",
        (("tx_hard", "rx_hard"), ("tx_soft", "rx_soft")),
        "received",
        crosses_hosts=True,
        more_less=SLOWER,
        places=(PATH,),
    ),
    MetricKind(
        "delivery",
        "Delivery",
        "rx_user − (rx_hard or rx_soft)",
        (("rx_hard", "rx_user"), ("rx_soft", "rx_user")),
        "received",
        more_less=SLOWER,
        places=(KERNEL, APPLICATION),
    ),
    MetricKind(
        "latency",
        "Latency",
        "(rx_hard or rx_soft) − launch",
        (("launch", "rx_hard"), ("launch", "rx_soft")),
        "received",
        crosses_hosts=True,
        more_less=SLOWER,
        places=(TALKER, SOCKET, QDISC, DRIVER, PATH, KERNEL),
    ),
    MetricKind(
        "latency_user",
        "Latency to the application",
        "rx_user − launch",
        (("launch", "rx_user"),),
        "received",
        crosses_hosts=True,
        more_less=SLOWER,
    ),
    MetricKind(
        "arrival_offset",
        "Arrival offset",
        "rx − (first rx + n × period), rx = rx_hard or rx_soft",
        (("rx_hard", "rx_hard"), ("rx_soft", "rx_soft")),
        "received",
        crosses_hosts=True,
        periodic=True,
        more_less=LATER,
    ),
)

PROBE_METRICS: Final[tuple[MetricKind, ...]] = (
    # Of ours from the intended launch; a tool that knows no launch counts from its send call, or from just after it.
    MetricKind(
        "round_trip",
        "Round trip",
        "answered − (launch, submit or sent)",
        (("launch", "answered"), ("submit", "answered"), ("sent", "answered")),
        "received",
        more_less=SLOWER,
    ),
    MetricKind(
        "round_trip_sent",
        "Round trip from the send call",
        "answered − submit",
        (("submit", "answered"),),
        "received",
    ),
    MetricKind(
        "turn",
        "Turn",
        "answer_submit − rx_user, at the answering host",
        (("rx_user", "answer_submit"),),
        "received",
    ),
)
"""Of a probe as a whole: both ends are one clock's, so that they are off by nothing."""

TIMER_METRICS: Final[tuple[MetricKind, ...]] = (
    # rtla's timerlat counts its interrupt from the planned expiry, too; of single instants only ours is known.
    MetricKind(
        "interrupt",
        "Timer interrupt",
        "irq − planned wake",
        (("wake_due", "irq"),),
        "waited for",
        more_less=LATER,
    ),
    MetricKind(
        "dispatch",
        "From the timer's interrupt to the thread",
        "wake − irq",
        (("irq", "wake"),),
        "waited for",
        more_less=SLOWER,
    ),
)
"""Of a timer: the two parts of its `wakeup`, where the kernel reports when its interrupt ran."""

TIMED: Final[tuple[MetricKind, ...]] = (next(one for one in METRICS if one.name == "wakeup"), *TIMER_METRICS)
"""Of a timer: the whole, and its parts."""

IMPORTED_METRICS: Final[tuple[MetricKind, ...]] = (
    MetricKind(
        "half_round_trip",
        "Half a round trip",
        "(answered − submit) / 2, as its tool printed it",
        (),
        "received",
        more_less=SLOWER,
    ),
    MetricKind(
        "sent_latency",
        "Latency from the send call",
        "(rx_hard or rx_soft) − submit",
        (("submit", "rx_hard"), ("submit", "rx_soft")),
        "received",
        crosses_hosts=True,
        more_less=SLOWER,
    ),
    MetricKind(
        "sent_latency_user",
        "Latency from the send call to the application",
        "rx_user − submit",
        (("submit", "rx_user"),),
        "received",
        crosses_hosts=True,
        more_less=SLOWER,
    ),
    MetricKind(
        "transit",
        "From one point that sees a packet to another",
        "second_point − first_point",
        (("first_point", "second_point"),),
        "received",
        crosses_hosts=True,
        more_less=SLOWER,
    ),
    MetricKind(
        "interarrival",
        "Between packets that follow each other at a point",
        "first_point − first_point of the packet before",
        (("previous", "first_point"),),
        "received",
    ),
    # RFC 3550, 6.4.1: D(i, j) = (Rj − Ri) − (Sj − Si).
    MetricKind(
        "jitter",
        "Jitter against the sender's cycle counter",
        "first_point − (first_point of its sender's previous packet + cycles that the sender counted between the two)",
        (("counted", "first_point"),),
        "received",
        more_less=LATER,
    ),
    MetricKind(
        "sample_latency",
        "From the sample to a point",
        "first_point − refrTm of the sample",
        (("sampled", "first_point"),),
        "received",
        crosses_hosts=True,
        more_less=SLOWER,
    ),
    MetricKind(
        "user_return",
        "Return to the application",
        "return to user space − planned expiry",
        (),
        "handed over",
        more_less=LATER,
    ),
    MetricKind(
        "noise", "Noise of the operating system", "taken without interruption from a thread that only runs", (), "sent"
    ),
)
"""What other programs measure and we do not, in imported cells only. Those without pairs are never of single packets.
"""

METRICS_BY_NAME: Final[Mapping[str, MetricKind]] = {
    metric.name: metric for metric in (*METRICS, *PROBE_METRICS, *TIMER_METRICS, *IMPORTED_METRICS)
}


_FIRST_METRICS: Final = (*(metric.name for metric in PROBE_METRICS), "latency", "latency_user")
METRIC_ORDER: Final = (*_FIRST_METRICS, *(name for name in METRICS_BY_NAME if name not in _FIRST_METRICS))
"""The metrics in the order a reader wants them: round trips, the article's latency, then the breakdown."""
