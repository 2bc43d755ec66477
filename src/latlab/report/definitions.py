"""What the words on the page mean, so that a reader needs nothing next to it."""

from __future__ import annotations

from typing import Final

from latlab.analysis.interrupt_way import STOPS
from latlab.analysis.way import ANSWER
from latlab.model import timestamps

TRACED: Final = ("irq", "softirq", "backlog", "waking", "run")

TIMESTAMPS: tuple[tuple[str, str], ...] = (
    *((one.name, one.said) for one in timestamps.TIMESTAMPS),
    *((stop, f"the listener's kernel, where it was traced: {STOPS[stop].replace('`', '')}") for stop in TRACED),
    (", ".join(name for name in ANSWER.values() if name.startswith("answer_")), "of a probe: the same of the answer"),
)

STATISTICS: tuple[tuple[str, str], ...] = (
    ("n", "packets with a value; packets launched during the warm-up are not included"),
    ("lost", "packets handed to the kernel that never arrived (RFC 7680)"),
    (
        "unknown",
        "packets for which nothing is recorded: the recording was cut short before them, is absent, or has fewer "
        "rows than its agent counted; they count neither as lost nor as unsent",
    ),
    (
        "launch silent",
        "lost packets with a launch time that the kernel accepted and then dropped silently: no timestamp of leaving, "
        "no error record, no arrival. Usual reasons: beyond the 10 s horizon of an fq qdisc, which counts "
        "CLOCK_MONOTONIC; beyond the network card's; outside every open gate of taprio; above an etf qdisc, a socket "
        "without SO_TXTIME",
    ),
    (
        "launch late, moved; unsent late",
        "handed over after their launch time, with it or with a later one; not handed over because too late",
    ),
    (
        "min, mean, max",
        "smallest value, arithmetic mean, largest value; with ≥ if packets without a timestamp may be above it: their "
        "other timestamps give a lower bound",
    ),
    ("stddev", "standard deviation of the population"),
    (
        "p50 … p99.99",
        "the value that this share of the packets does not exceed; blank if there are too few packets",
    ),
    (
        "±",
        "the largest error that the offset of two hosts' clocks adds to a figure; in brackets how the clocks are "
        "compared. Of imported figures also the error of bins or of few digits",
    ),
    (
        "unbounded",
        "packets at which the offset of the two hosts' clocks is not bounded: they are not in any figure, and the "
        "cell is untrusted",
    ),
    (
        "of each",
        "the smallest, the median and the largest figure of the repetitions, which are not pooled",
    ),
    (
        "stddev within, between",
        "the median of the repetitions' standard deviations, and the standard deviation of their means",
    ),
)

VERDICTS: tuple[tuple[str, str], ...] = (
    ("trusted", "every check of the measurement passed"),
    ("suspect", "a check found something that may have distorted the figures; the reasons name it"),
    ("untrusted", "a check found something that makes the figures meaningless; the reasons name it"),
)
