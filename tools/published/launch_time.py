"""Launch time (SO_TXTIME RFC, 2017)."""

from __future__ import annotations

from typing import Final

from published.claims import Claim, Of, times
from published.experiment import Experiment, Ours, Part, Picture, Published, Table

_SENT: Final = {
    "plain PREEMPT_RT, 1 ms": "streams=plain 1 ms, fifo=ordinary",
    "SO_TXTIME, 1 ms": "streams=SO_TXTIME 1 ms",
    "SO_TXTIME, 250 us": "streams=SO_TXTIME 250 us",
}


def _offset(row: str) -> Of:
    return Of(_SENT[row], "latency", "s")


_PLAIN, _TIMED, _FAST = (_offset(row) for row in _SENT)
_FIFO: Final = Of("streams=plain 1 ms, fifo=SCHED_FIFO", "latency", "s")
_IN_KERNEL: Final = (
    "No card of the board launches packets: etf does, in the kernel, woken by a timer's interrupt, and rx_soft is the "
    "kernel's "
    "timestamp. The i210 launches and stamps in hardware."
)

LAUNCH_TIME = Experiment(
    "launch-time",
    "Launch time",
    "R. Cochran, [SO_TXTIME RFC, netdev, September 2017]"
    "(https://lore.kernel.org/netdev/20170920173533.32537-1-levipearson@gmail.com/), as its review quotes it",
    "When do packets arrive that are sent by sleeping, and those that carry their launch time?",
    [
        Part(
            "txtime",
            "arrival_offset",
            "Arrival offsets",
            [
                Table(
                    "Arrival after the schedule, ns: latency, all repetitions together; mean ± and stddev over "
                    "repetitions. Software etf sends each packet its `delta`, 200 µs, before the launch time, so ours "
                    "is negative. The author explains his 507 ns by the i210 cards' input and output delays. pk-pk and "
                    "stddev compare.",
                    "ns",
                    (
                        "ns",
                        "published: plain",
                        "ours: plain, ordinary process",
                        "ours: plain, SCHED_FIFO",
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
                                for one in (
                                    Published(row, (figure,)),
                                    Ours(_offset(row), (figure,)),
                                    *((Ours(_FIFO, (figure,)),) if row.startswith("plain") else ()),
                                )
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
                    '"the peak to peak jitter is about 100 nanoseconds […] plain preempt_rt shows a jitter of […] 56 '
                    'microseconds": launch times take most of the jitter away',
                    "pk-pk of a repetition, SO_TXTIME / plain (ordinary process): at most 1/10",
                    times([("SO_TXTIME / plain", _PLAIN, _TIMED)], at_most=0.1, figure="pk_pk"),
                    _IN_KERNEL,
                ),
                Claim(
                    "(the same: × 1/585)",
                    "pk-pk of a repetition, SO_TXTIME / plain (ordinary process): 1/1000 to 1/100",
                    times([("SO_TXTIME / plain", _PLAIN, _TIMED)], 0.001, 0.01, "pk_pk"),
                    _IN_KERNEL,
                ),
                Claim(
                    "(the same, if his plain sender was at SCHED_FIFO)",
                    "pk-pk of a repetition, SO_TXTIME / plain (SCHED_FIFO): at most 1/10",
                    times([("SO_TXTIME / plain", _FIFO, _TIMED)], at_most=0.1, figure="pk_pk"),
                    "An emulated CPU has no power states, caches, firmware interrupts or load from elsewhere, which "
                    "make a SCHED_FIFO thread late on a real one: here it wakes within microseconds. What the clock of "
                    "a card is worth shows on a real card only.",
                ),
                Claim(
                    "(his stddev: 13 against 6515 ns)",
                    "stddev, SO_TXTIME / plain: 1/1000 to 1/100",
                    times([("SO_TXTIME / plain", _PLAIN, _TIMED)], 0.001, 0.01, "stddev"),
                    _IN_KERNEL,
                ),
                Claim(
                    '"independent of the period"',
                    "pk-pk of a repetition, 250 µs / 1 ms: 0.5 to 2",
                    times([("250 µs / 1 ms", _TIMED, _FAST)], 0.5, 2, "pk_pk"),
                    _IN_KERNEL,
                ),
                Claim(
                    "(the same of his stddev)",
                    "stddev, 250 µs / 1 ms: 0.5 to 2",
                    times([("250 µs / 1 ms", _TIMED, _FAST)], 0.5, 2, "stddev"),
                    _IN_KERNEL,
                ),
            ],
            [
                Picture(
                    "s-arrival_offset-together.png",
                    "launch-time",
                    "Arrival offsets of all rows on one axis, all repetitions",
                )
            ],
            "The plain sender is measured as an ordinary process with default timer slack and at SCHED_FIFO, both on "
            "PREEMPT_RT: the author does not say which his was. Nothing loads the network; his had netperf. "
            "A cell is 5 s, not 10 minutes. What happens to a launch time in the past is "
            "[`txtime-late`](../../scenarios/txtime-late.yaml), batches (sendmmsg) are "
            "[`txtime-batch`](../../scenarios/txtime-batch.yaml): the review asks for both, and they run with "
            "`latlab run`.",
            ("--board",),
        )
    ],
)
