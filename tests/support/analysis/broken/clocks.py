"""Evidence in which clocks or PTP break a rule."""

from __future__ import annotations

from dataclasses import replace

from support.analysis.evidence import (
    EARLY,
    GOOD,
    MS,
    SILENT,
    Case,
    agents,
    bound,
    bounded,
    clocks,
    evidence,
    observer,
    ptp,
)

BROKEN: list[Case] = [
    (
        "clock-stepped",
        "untrusted",
        replace(GOOD, clocks={"talker-sensor": clocks(tai_ns=-2 * MS, real_ns=-2 * MS)}),
        "talker-sensor",
        "−2 ms",
    ),
    (
        "clock-stepped",
        "untrusted",
        replace(GOOD, clocks={"listener-ecu": clocks(tai_ns=37 * 10**9)}),
        "listener-ecu",
        "37 s",
    ),
    (
        "packets-arrived",
        "untrusted",
        evidence([SILENT] * 10),
        "stream control",
        "none of the 10 packets sent",
    ),
    (
        "arrived-early",
        "untrusted",
        evidence(EARLY),
        "control.latency",
        "−200 ns (sequence 0)",
    ),
    ("clock-bound", "untrusted", evidence(clocks=[]), "control.latency", "none"),
    (
        "clock-bound",
        "untrusted",
        bounded(None, *[0] * 9),
        "control.latency",
        "none for 1 of 10 packets: not in any figure",
    ),
    (
        "clock-bound-large",
        "suspect",
        evidence(clocks=bound(-11, 4)),
        "control.latency",
        "± 11 ns",
    ),
    (
        "ptp-locked",
        "suspect",
        ptp(lost=True),
        "ecu.eth0",
        "no Sync was received: 1 s after the first reading, until the end",
    ),
    (
        "ptp-offset",
        "suspect",
        ptp(checked={"n": 8, "apart": 2, "outside_max_ns": 3_000}),
        "ecu.eth0",
        "2 of 8 readings differ more, 3 µs at most",
    ),
    (
        "ptp-clocks-read",
        "suspect",
        evidence(agents=[*agents(), observer({"what": "its frequency cannot be read", "where": "/dev/ptp0"})]),
        "ptp on ecu, /dev/ptp0",
        "its frequency cannot be read",
    ),
    ("ptp-grandmaster", "suspect", ptp(grandmasters=["a", "b"]), "ecu.eth0", "a then b"),
]
