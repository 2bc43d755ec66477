"""Launch time (SO_TXTIME RFC, 2017)."""

from __future__ import annotations

from typing import Final

from published.claims import Claim, Of, times
from published.experiment import Experiment, Ours, Part, Picture, Published, Table

_SENT: Final = {
    "plain PREEMPT_RT, 1 ms": "streams!=launch_time",
    "SO_TXTIME, 1 ms": "streams~=launch_time, streams~=period 1ms",
    "SO_TXTIME, 250 us": "streams~=launch_time, streams~=period 250us",
}


def _offset(row: str) -> Of:
    return Of(_SENT[row], "arrival_offset", "s")


_PLAIN, _TIMED, _FAST = (_offset(row) for row in _SENT)
_IN_KERNEL: Final = (
    "No card of the board launches packets: etf does, in the kernel, woken by a timer's interrupt, and rx_soft is the "
    "kernel's "
    "timestamp. The i210 launches and stamps in hardware."
)

LAUNCH_TIME = Experiment(
    "launch-time",
    "Launch time",
    "R. Cochran, SO_TXTIME RFC, netdev, September 2017",
    "When do packets arrive that are sent by sleeping, and those that carry their launch time?",
    [
        Part(
            "txtime",
            "arrival_offset",
            "Arrival offsets",
            [
                Table(
                    "Offset of arrivals from the expected period, ns. Published from the schedule, ours from the "
                    "first arrival: "
                    "pk-pk and stddev compare.",
                    "ns",
                    (
                        "ns",
                        "published: plain",
                        "ours: plain",
                        "published: SO_TXTIME",
                        "ours: SO_TXTIME",
                        "published: 250 µs",
                        "ours: 250 µs",
                    ),
                    [
                        (
                            name,
                            *(
                                one
                                for row in _SENT
                                for one in (Published(row, (figure,)), Ours(_offset(row), (figure,)))
                            ),
                        )
                        for figure, name in (
                            ("min", "min"),
                            ("max", "max"),
                            ("pk_pk", "pk-pk"),
                            ("mean", "mean"),
                            ("stddev", "stddev"),
                            ("n", "count"),
                        )
                    ],
                )
            ],
            [
                Claim(
                    "pk-pk is two to three orders smaller than by sleeping (1 / 100 to 1 / 1000)",
                    times([("sleeping / SO_TXTIME", _TIMED, _PLAIN)], 100, 1000, "pk_pk"),
                    _IN_KERNEL,
                ),
                Claim(
                    "stddev is two to three orders smaller than by sleeping",
                    times([("sleeping / SO_TXTIME", _TIMED, _PLAIN)], 100, 1000, "stddev"),
                    _IN_KERNEL,
                ),
                Claim(
                    "pk-pk does not depend on the period (× 0.5 to 2 at 250 µs)",
                    times([("250 µs / 1 ms", _TIMED, _FAST)], 0.5, 2, "pk_pk"),
                    _IN_KERNEL,
                ),
                Claim(
                    "stddev does not depend on the period (× 0.5 to 2 at 250 µs)",
                    times([("250 µs / 1 ms", _TIMED, _FAST)], 0.5, 2, "stddev"),
                    _IN_KERNEL,
                ),
            ],
            [
                Picture(
                    "s-arrival_offset-together.png",
                    "launch-time",
                    "Arrival offsets of the three rows on one axis, all repetitions",
                )
            ],
            "The sender sleeps as an ordinary process does; nothing loads the network. A cell is 5 s, not 10 minutes.",
            ("--board",),
        )
    ],
)
