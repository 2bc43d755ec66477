"""isochron's log file, written field by field as its sources have it (0.9, src/log.c)."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

HEADER = struct.Struct(">8sIIHHI5q2Q2IQ")
SENT = struct.Struct(">II5q")
RECEIVED = struct.Struct(">II3q")
BASE_NS = 1_700_000_000 * 10**9
CYCLE_NS = 1_000_000
ADVANCE_NS = 200_000
TAI_S = 37


def header(count: int, sent: int, received: int, **changes: Any) -> bytes:
    """The header of a file of so many entries in the sender's and the receiver's log."""
    fields = {
        "magic": b"ISOCHRON",
        "version": 4,
        "packet_count": count,
        "frame_size": 64,
        "flags": 0b01010,  # timestamps, txtime
        "reserved": 0,
        "base_time": BASE_NS,
        "advance_time": ADVANCE_NS,
        "shift_time": 0,
        "cycle_time": CYCLE_NS,
        "window_size": 0,
        "send_log_start": HEADER.size,
        "rcv_log_start": HEADER.size + sent * SENT.size,
        "send_log_size": sent * SENT.size,
        "rcv_log_size": received * RECEIVED.size,
        "reserved2": 0,
    }
    return HEADER.pack(*(fields | changes).values())


def log(packets: Iterable[tuple[dict[str, int], dict[str, int]]], **changes: Any) -> bytes:
    """A file of these packets, each (what the sender, what the receiver has), ns from the scheduled time.

    What is left out is 0, as isochron leaves it; a software timestamp that is not there is 0 plus the TAI offset at the
    receiver. A sender or receiver without any was never asked: its entry is all zeros.
    """
    sent, received = b"", b""
    number = 0
    for number, (left, came) in enumerate(packets, start=1):
        scheduled = BASE_NS + (number - 1) * CYCLE_NS
        stamps = [scheduled + left[name] if name in left else 0 for name in ("wakeup", "hwts", "swts", "sched_ts")]
        sent += SENT.pack(number, 0, scheduled, *stamps) if left else bytes(SENT.size)
        soft = scheduled + came["swts"] if "swts" in came else TAI_S * 10**9
        stamps = [scheduled + came[name] if name in came else 0 for name in ("arrival", "hwts")]
        received += RECEIVED.pack(number, 0, *stamps, soft) if came else bytes(RECEIVED.size)
    return header(number, number, number, **changes) + sent + received


def usual(n: int) -> list[tuple[dict[str, int], dict[str, int]]]:
    """n packets, no two alike: the first latency is 7500 ns, every next one 17 ns more, over and over after 11."""
    return [
        (
            {
                "wakeup": -150_000 + 91 * (k % 7),
                "sched_ts": -120_000,
                "swts": -90_000 + 40 * (k % 5),
                "hwts": 512 + 8 * (k % 3),
            },
            {"hwts": 7_500 + 17 * (k % 11), "swts": 9_000 + 100 * (k % 13), "arrival": 21_000 + 1_000 * (k % 4)},
        )
        for k in range(n)
    ]
