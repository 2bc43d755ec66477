"""What the words on the page mean, so that a reader needs nothing beside it."""

from __future__ import annotations

from typing import Final

from latlab.analysis.interrupt_way import STOPS

TRACED: Final = ("irq", "softirq", "backlog", "waking", "run")

TIMESTAMPS: tuple[tuple[str, str], ...] = (
    ("launch", "when the packet was meant to leave: the schedule, start + offset + sequence × period"),
    ("wake", "the talker's thread woke for it"),
    ("submit", "just before the send call"),
    ("tx_sched", "the kernel: it entered the qdisc layer"),
    ("tx_soft", "the kernel: it was handed to the network driver"),
    ("tx_hard", "the sending network card's own clock"),
    ("rx_hard", "the receiving network card's own clock"),
    ("rx_soft", "the receiving kernel: it came out of the driver"),
    ("rx_user", "the listening application had it"),
    *((stop, f"the listener's kernel, where it was traced: {STOPS[stop].replace('`', '')}") for stop in TRACED),
    ("wake_due", "when the thread was to wake: the launch, less lead and busy wait; of a timer the instant itself"),
    ("answer_submit, answer_tx_sched, answer_tx_soft, answer_rx_soft", "of a probe: the same of the answer"),
    ("sent", "of imported packets: just after the send call"),
    ("answered", "the application that asks had the answer"),
    ("first_point, second_point", "of imported and of watched packets: when two capture points saw them"),
    ("previous", "of watched packets: when the first point saw the packet before"),
)

STATISTICS: tuple[tuple[str, str], ...] = (
    ("n", "packets with a value; packets launched during the warm-up are in no statistic"),
    ("lost", "packets handed to the kernel that never arrived (RFC 7680)"),
    (
        "unknown",
        "packets of which nothing says what became of them: a recording was cut before they came, is absent, or has "
        "fewer rows than its agent counted; they are neither lost nor unsent",
    ),
    (
        "launch silent",
        "of the lost, those with a launch time that the kernel took and then dropped silently: no timestamp of "
        "leaving, no error record, no arrival. Usual reasons: beyond the 10 s horizon of an fq qdisc, which counts "
        "CLOCK_MONOTONIC; beyond the network card's; outside every open gate of taprio; above an etf qdisc, a socket "
        "without SO_TXTIME",
    ),
    (
        "launch late, moved; unsent late",
        "handed over after their launch time with it, or with a later one; not handed over, being too late",
    ),
    (
        "min, avg, max",
        "smallest value, arithmetic mean, largest value; with ≥ where packets without a timestamp may be above it: "
        "the timestamps that they have say how far at least",
    ),
    ("stddev", "standard deviation of the population"),
    (
        "p50 … p99.99",
        "the value that this share of the packets does not exceed; blank where there are too few to say",
    ),
    (
        "±",
        "how far a figure may be off because two hosts' clocks are not one clock; in brackets what compares them. Of "
        "imported figures also: because only bins are left of the values, or few digits",
    ),
    (
        "unbounded",
        "packets at which nothing relates the two hosts' clocks: they are in no figure, and the cell is untrusted",
    ),
    (
        "of each",
        "of every repetition by itself the figure, of these the least, the middle and the greatest; never pooled",
    ),
    (
        "stddev in one, between",
        "the middle one of the repetitions' standard deviations, beside the standard deviation of their means",
    ),
)

LABELS: tuple[tuple[str, str], ...] = (
    ("measured", "on real hardware or KVM"),
    ("functional only", "on plain emulation: shows that it works, never how fast"),
    (
        "imported",
        "measured by another program: its own definition of what it measured stands beside it, and it is compared with "
        "nothing that latlab measured",
    ),
    ("synthetic", "made from a description, not measured: to try the analysis on; says nothing about any machine"),
    (
        "virtual time",
        "the clock counts instructions: reproducible, compares configurations, says nothing about this machine's speed",
    ),
)

VERDICTS: tuple[tuple[str, str], ...] = (
    ("trusted", "every check of the measurement itself was passed"),
    ("suspect", "a check found something that may have bent the figures; the reasons say what"),
    ("untrusted", "a check found something that makes the figures meaningless; the reasons say what"),
)
