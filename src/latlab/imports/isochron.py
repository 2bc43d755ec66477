"""isochron's log file, isochron.dat: every packet with up to seven timestamps.

Layout: isochron 0.9, src/log.c (struct isochron_log_file_header) and src/log.h; all numbers are big endian.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.imports.base import (
    Format,
    Given,
    Imported,
    PacketStream,
    Problem,
    Stamps,
    cut_short,
    not_what_it_says,
    nothing_in,
    unknown_version,
)
from latlab.imports.packets import in_order_of
from latlab.model.errors import UsageError
from latlab.recordings.cell import LeftOut

MAGIC: Final = b"ISOCHRON"
VERSION: Final = 4
KNOWN: Final = "log version 4 (isochron 0.6 to 0.9)"
LATENCY: Final = (
    "one way: from the scheduled time, at which the packet was to leave, to the receiver; path is isochron's path "
    "delay, from one network card to the other"
)
METRICS: Final = ("latency", "latency_user", "wakeup", "lateness", "path", "delivery", "arrival_offset")

_HEADER: Final = struct.Struct(">8sIIHHI5q2Q2IQ")
_FLAGS: Final = ("omit-sync", "timestamps", "taprio", "txtime", "deadline")
_SENT: Final = np.dtype(
    [("seqid", ">u4"), ("reserved", ">u4")]
    + [(name, ">i8") for name in ("scheduled", "wakeup", "hwts", "swts", "sched_ts")]
)
_RECEIVED: Final = np.dtype(
    [("seqid", ">u4"), ("reserved", ">u4")] + [(name, ">i8") for name in ("arrival", "hwts", "swts")]
)
_LEAST_SOFTWARE_NS: Final = 1_000 * 1_000_000_000
"""A software timestamp that is not there is UTC 0 with the TAI offset added (rcv.c): some 37 s, no instant of ours."""


def recognises(head: bytes, path: Path) -> float:
    """1 where the file begins with isochron's magic."""
    return 1.0 if head.startswith(MAGIC) else 0.0


def read(paths: Sequence[Path], given: Given) -> Imported:
    """One stream, `packets`. UsageError: another version, empty, or logs that lie outside of any file."""
    (path,) = paths
    size = path.stat().st_size
    with path.open("rb") as file:
        header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        raise nothing_in(path, "whole header", "copy the file again: it ends in its first 96 bytes")
    magic, version, count, frame_size, flags, _, base, advance, shift, cycle, window, *rest = _HEADER.unpack(header)
    if magic != MAGIC:
        raise not_what_it_says(path, "not an isochron log: it does not begin with ISOCHRON")
    if version != VERSION:
        raise unknown_version(path, f"isochron log version {version}", KNOWN)
    sent_start, received_start, sent_bytes, received_bytes, _ = rest
    sent, sent_cut = _entries(path, size, sent_start, sent_bytes, _SENT)
    received, received_cut = _entries(path, size, received_start, received_bytes, _RECEIVED)
    _refuse_second(path, max(_HEADER.size, sent_start + sent_bytes, received_start + received_bytes))
    if not len(sent) or not (sent["seqid"] > 0).any():
        raise nothing_in(path, "sent packet", "check whether isochron send ended with an error, or copy the file again")
    problems, left_out = [], []
    if sent_cut or received_cut:
        told = f"{len(sent)} of {sent_bytes // _SENT.itemsize} packets sent, "
        told += f"{len(received)} of {received_bytes // _RECEIVED.itemsize} of the receiver's entries"
        problems.append(cut_short(path.name, told))
    n = len(sent)
    if len(received) and len(received) < n:
        left_out.append(LeftOut("packets", n - len(received), "without an entry in the receiver's log"))
        n = len(received)
    stream, strays = _stream(sent[:n], received[:n], advance, cycle, frame_size)
    if strays:
        left_out.append(LeftOut("entries of the receiver's log", strays, "of no packet that was sent"))
    return Imported(
        tool="isochron",
        version=KNOWN,
        latency=LATENCY,
        streams=(stream,),
        notes=_notes(received, count, n),
        left_out=tuple(left_out),
        problems=(*problems, *_unsynchronised(stream, path)),
        facts={
            "packet_count": count,
            "frame_size": frame_size,
            "flags": [name for bit, name in enumerate(_FLAGS) if flags >> bit & 1],
            "base_time_ns": base,
            "advance_time_ns": advance,
            "shift_time_ns": shift,
            "cycle_time_ns": cycle,
            "window_size_ns": window,
        },
    )


def _refuse_second(path: Path, end: int) -> None:
    """Do nothing where nothing follows the logs. UsageError: another log was appended to the file."""
    with path.open("rb") as file:
        if end >= path.stat().st_size:
            return
        file.seek(end)
        if file.read(len(MAGIC)) == MAGIC:
            raise UsageError(
                f"two logs in one file: another one begins at byte {end}",
                where=str(path),
                remedy=f"import each alone: head -c {end} FILE > first.dat; tail -c +{end + 1} FILE > second.dat",
            )


def _entries(path: Path, size: int, start: int, length: int, kind: np.dtype[np.void]) -> tuple[NDArray[np.void], bool]:
    """As many whole entries of a log as the file has, and whether it ends before all of them."""
    if length and start < _HEADER.size:
        raise UsageError(
            f"a log is said to begin at byte {start}, in the header",
            where=str(path),
            remedy="copy the file again: its header is damaged",
        )
    there = max(0, min(length, size - start)) if length else 0
    count = there // kind.itemsize
    found: NDArray[np.void] = np.fromfile(path, kind, count, offset=start) if count else np.empty(0, kind)
    return found, there < length


def _stream(
    sent: NDArray[np.void], received: NDArray[np.void], advance_ns: int, cycle_ns: int, frame_size: int
) -> tuple[PacketStream, int]:
    """The stream, and how many entries of the receiver's log belong to no packet of it."""
    n = len(sent)
    number = np.arange(1, n + 1)
    was_sent = sent["seqid"] == number
    known = len(received) > 0
    if not known:
        received = np.zeros(n, _RECEIVED)
    arrived = was_sent & (received["seqid"] == number)

    def of_talker(name: str, least_ns: int = 1) -> Stamps:
        ns = sent[name].astype(np.int64)
        return Stamps(ns, was_sent & (ns >= least_ns))

    def of_listener(name: str, least_ns: int = 1) -> Stamps:
        ns = received[name].astype(np.int64)
        return Stamps(ns, arrived & (ns >= least_ns))

    launch, user = of_talker("scheduled"), of_listener("arrival")
    stamps = {
        "launch": launch,
        "wake_due": Stamps(launch.ns - np.int64(advance_ns), launch.there),
        "wake": of_talker("wakeup"),
        "tx_sched": of_talker("sched_ts", _LEAST_SOFTWARE_NS),
        "tx_soft": of_talker("swts", _LEAST_SOFTWARE_NS),
        "tx_hard": of_talker("hwts"),
        "rx_hard": of_listener("hwts"),
        "rx_soft": of_listener("swts", _LEAST_SOFTWARE_NS),
        "rx_user": user,
    }
    return PacketStream(
        name="packets",
        talker="sender",
        listener="receiver",
        described=f"every {cycle_ns / 1000:g} µs · {frame_size} bytes a frame · sender → receiver",
        stamps=stamps,
        metrics=METRICS if known else ("wakeup", "lateness"),
        sent=was_sent,
        arrived=arrived,
        arrival=in_order_of(user.ns, arrived),
        period_ns=max(1, cycle_ns),
        two_clocks=True,
        size=frame_size,
        counts={} if known else {"received": None, "lost": None, "reordered": None},
    ), int(np.count_nonzero((received["seqid"] != 0) & ~arrived))


def numbered_from(first: int) -> str:
    """The note of what isochron calls our packets. first: its sequence number of our packet 0."""
    return f"packets are counted from 0: packet n is isochron's seqid n + {first}"


def _notes(received: NDArray[np.void], count: int, n: int) -> tuple[str, ...]:
    notes = [numbered_from(1)]
    notes += ["the sender's own -f sets no real-time priority, chrt -f does: the file does not say whether it was used"]
    if not len(received):
        notes.append("there is no receiver's log in the file: arrivals are not known")
    if count > n:
        notes.append(f"{count} packets were asked for, {n} are in the log")
    return tuple(notes)


def _unsynchronised(stream: PacketStream, path: Path) -> list[Problem]:
    """isochron's own test (log.c, isochron_print_stats): a path delay beyond 1 s is no delay but two clocks."""
    left, came = stream.stamps["tx_hard"], stream.stamps["rx_hard"]
    both = left.there & came.there
    if not both.any():
        return []
    delay_ns = float((came.ns[both].astype(np.float64) - left.ns[both].astype(np.float64)).mean())
    if abs(delay_ns) <= 1e9:
        return []
    return [
        Problem(
            "cards-synchronised",
            "the two network cards' clocks are not synchronised",
            "untrusted",
            "a mean path delay within 1 s",
            f"{delay_ns / 1e9:.3f} s",
            "start ptp4l on both, wait until it has locked, and measure again",
            path.name,
        )
    ]


FORMAT: Final = Format("isochron", "isochron's log file (send --output-file), packet by packet", 1, recognises, read)
