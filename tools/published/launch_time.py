"""Launch time (SO_TXTIME RFC, 2017)."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log
from statistics import fmean
from typing import Final

from latlab.analysis.comparison.effect import paired
from latlab.report.charts.sheet import INK
from published.claims import NOT_MEASURED, US, Claim, Figures, Finding, Of, judged, ratio_text, times
from published.experiment import Experiment, Ours, Part, Picture, Published, Table
from published.pictures import Row, Span, repetitions

_SENT: Final = {
    "plain PREEMPT_RT, 1 ms": "streams=plain 1 ms, fifo=ordinary",
    "SO_TXTIME, 1 ms": "streams=SO_TXTIME 1 ms",
    "SO_TXTIME, 250 us": "streams=SO_TXTIME 250 us",
}


def _offset(row: str) -> Of:
    return Of(_SENT[row], "latency", "s")


_DELTA_NS: Final = 200_000
"""How much before its launch time etf sends a packet: the scenario's `delta`."""
_PLAIN, _TIMED, _FAST = (_offset(row) for row in _SENT)
_FIFO: Final = Of("streams=plain 1 ms, fifo=SCHED_FIFO", "latency", "s")
_DRAWN: Final = (
    Span("published: plain", (19_408, 32_928, 75_560)),
    Row("ours: plain, ordinary process", _PLAIN, INK),
    Row("ours: plain, SCHED_FIFO", _FIFO, INK),
    Span("published: SO_TXTIME", (472, 507, 568)),
    Row("ours: SO_TXTIME, + 200 µs", _TIMED, INK, _DELTA_NS),
    Span("published: 250 µs", (472, 507, 576)),
    Row("ours: 250 µs, + 200 µs", _FAST, INK, _DELTA_NS),
)
_IN_KERNEL: Final = (
    "No card of the board launches packets: etf does, in the kernel, woken by a timer's interrupt, and rx_soft is the "
    "kernel's timestamp. The i210 launches and stamps in hardware."
)

_POLICIES: Final = {
    "report": "`report`: handed over; etf drops it and reports it",
    "drop": "`drop`: not handed over",
    "send within 500 us": "`send`: launched `margin` = 60 µs from now, if its own launch time is at most 500 µs ago",
}
_BATCHES: Final = ("one a call", "4 a call", "16 a call")


def _counted(policy: str, load: str, *names: str) -> Callable[[Figures], str]:
    """How many packets of all repetitions these counts have together, of how many."""

    def text(figures: Figures) -> str:
        counts = [one["counts"] for one in figures.blocks(f"launch_time={policy}, loads={load}", "s")]
        n = sum(one["scheduled"] for one in counts)
        return f"{sum(one[name] or 0 for one in counts for name in names):,} of {n:,}" if n else "–"

    return text


def _per_packet(figures: Figures, batch: str, figure: str) -> list[float]:
    """What a packet cost the talker in each repetition: `cpu_ns`, or `wakeups`."""
    talkers = [
        one for cell in figures.cells if cell["cell"]["streams.s.launch_time"] == batch for one in cell["talkers"]
    ]
    return [one[figure] / one["packets"] for one in talkers]


def _cost(batch: str, figure: str, scale: float, decimals: int) -> Callable[[Figures], str]:
    def text(figures: Figures) -> str:
        found = _per_packet(figures, batch, figure)
        return f"{fmean(found) / scale:.{decimals}f}" if found else "–"

    return text


def _batches_save(figures: Figures) -> Finding:
    costs = [[log(one) for one in _per_packet(figures, batch, "cpu_ns")] for batch in _BATCHES]
    effects = [(f"{batch} / one", paired(costs[0], one)) for batch, one in zip(_BATCHES[1:], costs[1:], strict=True)]
    return judged(effects, -inf, 0, ratio_text)


def _none_beyond(figures: Figures) -> Finding:
    late = Of("launch_time=send within 500 us", "lateness", "s")
    latest = max(figures.values(late, "max").values(), default=None)
    if latest is None:
        return NOT_MEASURED
    return Finding(f"the latest left {latest / US:.0f} µs late", "yes" if latest <= 560 * US else "no")


LAUNCH_TIME = Experiment(
    "launch-time",
    "Launch time",
    "R. Cochran, [SO_TXTIME RFC, netdev, September 2017]"
    "(https://lore.kernel.org/netdev/20170920173533.32537-1-levipearson@gmail.com/), as its review quotes it",
    "When do packets arrive that are sent by sleeping, and those that carry their launch time?",
    [
        Part(
            "txtime",
            "latency",
            "Arrival offsets",
            [
                Table(
                    "`latency`, ns, as on the run's first screen and in its report: the kernel's receive timestamp − "
                    "the time that the schedule has for the packet, with SO_TXTIME its launch time. The author counts "
                    "from the same instant: a card launches at the launch time, and he explains his 507 ns by the i210 "
                    "cards' input and output delays. Ours with SO_TXTIME is below zero: software etf sends each packet "
                    "200 µs, its `delta`, before its launch time. To compare min, max and mean with his add 200,000; "
                    "pk-pk and stddev compare as they are. Ours is of all repetitions together; mean ± and stddev over "
                    "repetitions.",
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
                    "pk-pk of a repetition, SO_TXTIME / plain (ordinary process): at most 1/10, nine tenths away",
                    times([("SO_TXTIME / plain", _PLAIN, _TIMED)], at_most=0.1, figure="pk_pk"),
                    _IN_KERNEL,
                ),
                Claim(
                    "(his pk-pk: 96 against 56152 ns, × 1/585)",
                    "pk-pk of a repetition, SO_TXTIME / plain (ordinary process): 1/1000 to 1/100, the powers of ten "
                    "around his",
                    times([("SO_TXTIME / plain", _PLAIN, _TIMED)], 0.001, 0.01, "pk_pk"),
                    _IN_KERNEL,
                ),
                Claim(
                    "(his pk-pk, if his plain sender was at SCHED_FIFO)",
                    "pk-pk of a repetition, SO_TXTIME / plain (SCHED_FIFO): at most 1/10",
                    times([("SO_TXTIME / plain", _FIFO, _TIMED)], at_most=0.1, figure="pk_pk"),
                    "An emulated CPU has no power states, caches, firmware interrupts or load from elsewhere, which "
                    "make a SCHED_FIFO thread late on a real one: here it wakes within microseconds. The benefit of a "
                    "card's clock can be seen only on a real card.",
                ),
                Claim(
                    "(his stddev: 13 against 6515 ns)",
                    "stddev, SO_TXTIME / plain: 1/1000 to 1/100, the powers of ten around his",
                    times([("SO_TXTIME / plain", _PLAIN, _TIMED)], 0.001, 0.01, "stddev"),
                    _IN_KERNEL,
                ),
                Claim(
                    '"independent of the period" (his pk-pk: × 1.08)',
                    "pk-pk of a repetition, 250 µs / 1 ms: less than twice either way",
                    times([("250 µs / 1 ms", _TIMED, _FAST)], 0.5, 2, "pk_pk"),
                    _IN_KERNEL,
                ),
                Claim(
                    '"independent of the period" (his stddev: × 1.15)',
                    "stddev, 250 µs / 1 ms: less than twice either way",
                    times([("250 µs / 1 ms", _TIMED, _FAST)], 0.5, 2, "stddev"),
                    _IN_KERNEL,
                ),
            ],
            [
                Picture(
                    repetitions(
                        "Latency of each way to send", "rx_soft − launch, where named + 200 µs", [("", _DRAWN)]
                    ),
                    "launch-time",
                    "The table's latency on one axis, each repetition, and the published ranges; with SO_TXTIME etf's "
                    "delta, 200 µs, is added to ours",
                )
            ],
            "The plain sender is measured as an ordinary process with default timer slack and at SCHED_FIFO, both on "
            "PREEMPT_RT: the author does not say which his was. The network is idle; his had netperf. A cell is 15 s, "
            "not 10 minutes.",
            ("--board",),
        ),
        Part(
            "txtime-late",
            "lateness",
            "Launch times in the past",
            [
                Table(
                    "Packets of all repetitions, by what the sender does with one whose launch time has passed. With "
                    "load two threads keep the only CPU busy.",
                    "",
                    (
                        "policy",
                        "idle: late when handed over",
                        "dropped",
                        "launched later",
                        "with load: late when handed over",
                        "dropped",
                        "launched later",
                    ),
                    [
                        (
                            told,
                            *(
                                _counted(policy, load, *names)
                                for load in ("none", "hog")
                                for names in (("launch_late",), ("launch_invalid", "unsent_late"), ("launch_moved",))
                            ),
                        )
                        for policy, told in _POLICIES.items()
                    ],
                )
            ],
            [
                Claim(
                    '"A configurable parameter for allowable lateness […] seems ideal" (L. Pearson)',
                    "with 500 µs allowed, and 60 µs from now: no packet leaves over 560 µs late",
                    _none_beyond,
                    "The card or the kernel delayed a packet that had been handed over in time.",
                )
            ],
            [],
            "etf is the kernel's, not a card's. He also asks for a counter: `launch_invalid` is the kernel's report, "
            "`unsent_late` and `launch_moved` are the sender's.",
            ("--board",),
        ),
        Part(
            "txtime-batch",
            "arrival_offset",
            "Batches (sendmmsg)",
            [
                Table(
                    "What a packet costs the sender, by how many are handed over in one call, each with its launch "
                    "time: mean over repetitions.",
                    "",
                    ("packets", "CPU time a packet, µs", "wake-ups a packet"),
                    [(batch, _cost(batch, "cpu_ns", US, 2), _cost(batch, "wakeups", 1, 3)) for batch in _BATCHES],
                )
            ],
            [
                Claim(
                    '"increase efficiency by batching transmissions with sendmmsg" (L. Pearson)',
                    "CPU time a packet, batch / one a call: below 1",
                    _batches_save,
                    "CPU time is instructions here.",
                )
            ],
            [],
            "He gives no figures. CPU time is that of the sending thread, in the board's instructions.",
            ("--board",),
        ),
    ],
)
