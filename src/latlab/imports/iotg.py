"""Intel's TSN reference software: sample-app-taprio's log, and what its successor txrx-tsn prints.

iotg_tsn_ref_sw: sample-app-taprio.c 1.0 (processIO, qbv_rx); src/txrx-afpkt.c and src/txrx-afxdp.c, 0.8 to 0.9.15.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.imports.base import (
    Format,
    Given,
    PacketStream,
    ReadFiles,
    Stamps,
    from_each,
    lines_of,
    nothing_in,
    restarts,
    signed,
)
from latlab.imports.packets import clock_problems, shifted_ns, usual_gap_ns, went_back_ns
from latlab.model.errors import UsageError
from latlab.model.units import in_us
from latlab.recordings.cell import LeftOut

TAPRIO_LATENCY: Final = (
    "one way, on two clocks: from just before the sender's send call (not from the launch time, which is some "
    "milliseconds later) to the receiving network card's timestamp"
)
TXRX_LATENCY: Final = "one way, on two clocks: from just before the sender's send call to the receiving application"
_NEVER_NS: Final = 10**17
"""A latency beyond three years is a packet without a receive timestamp: 0 less the time of day."""

_PACKET: Final = re.compile(
    r"^TSN VLAN Priority (\d) - Seq: (\d{1,10}) Latency = (-?\d{1,19}) ns Inter-packet latency = (-?\d{1,19}) ns$"
)
_SAID: Final = re.compile(
    r"^(Same sequence number as previous|seq_count_tsn: -?\d+ Received Seq: -?\d+|Packet sequence number out of order\."
    r"|msgsnd\(\): Message queue is full|qbv_rx\(\) time: )"
)
_ROW: Final = re.compile(
    r"^\s*(-?\d{1,20})[\t ]+(\d{1,10})[\t ]+(\d{1,10})[\t ]+(\d{1,19})[\t ]+(\d{1,19})[\t ]+(\d{1,19})\s*$"
)
"""Tabs, or what a terminal made of them. The AF_XDP receiver prints its latency unsigned (%lu of txrx-afxdp.c)."""
_GRAPH: Final = "# <Time> <TSN-0 seq>"
_MOST: Final = 2**62


def recognises_taprio(head: bytes, path: Path) -> float:
    """Sure of a packet's line, and of the file for its graphs, which is refused with its reason."""
    text = head.decode("utf-8", "replace")
    return 1.0 if text.startswith(_GRAPH) or re.search(r"^TSN VLAN Priority \d - Seq: ", text, re.MULTILINE) else 0.0


def recognises_txrx(head: bytes, path: Path) -> float:
    """Sure where six numbers stand in a line, of which the first is the last less the fourth."""
    rows = [match for line in head.decode("utf-8", "replace").splitlines()[:100] if (match := _ROW.match(line))]
    if not rows:
        return 0.0
    return 0.95 if all(int(row[6]) - int(row[4]) == signed(int(row[1])) for row in rows) else 0.0


def runs_of_taprio(lines: Sequence[str]) -> list[list[int]]:
    """The lines of each run: one begins where a priority's sequence numbers begin again."""
    return _runs(lines, _PACKET, stream=1, sequence=2)


def runs_of_txrx(lines: Sequence[str]) -> list[list[int]]:
    """The lines of each run: one begins where a queue's sequence numbers begin again."""
    return _runs(lines, _ROW, stream=3, sequence=2)


def _runs(lines: Sequence[str], row: re.Pattern[str], stream: int, sequence: int) -> list[list[int]]:
    """The least of the places where each stream's numbers begin again for the same time begins a run."""
    places: dict[str, list[int]] = {}
    numbers: dict[str, list[int]] = {}
    for place, line in enumerate(lines):
        if match := row.match(line):
            places.setdefault(match[stream], []).append(place)
            numbers.setdefault(match[stream], []).append(int(match[sequence]))
    begins = [[places[name][at] for at in restarts(numbers[name])] for name in numbers]
    longest = max(map(len, begins), default=0)
    return from_each([min(one[turn] for one in begins if turn < len(one)) for turn in range(longest)], len(lines))


def read_taprio(paths: Sequence[Path], given: Given) -> ReadFiles:
    """A stream a VLAN priority. UsageError: the graphs' file, or no packet."""
    (path,) = paths
    lines = lines_of(path)
    if lines and lines[0].startswith(_GRAPH):
        raise UsageError(
            "sample-app-taprio's graph data: it repeats the last packet's figures every half cycle, and skips others",
            where=str(path),
            remedy="import its log instead (-y 1 or 3, -f FILE; zrx.log if not given)",
        )
    rows: dict[int, list[tuple[int, int, int]]] = {}
    odd = full = 0
    for line in lines:
        if match := _PACKET.match(line):
            sequence, latency, delta = (int(match[place]) for place in (2, 3, 4))
            if abs(latency) < 2**63 and abs(delta) < 2**63:
                rows.setdefault(int(match[1]), []).append((sequence, latency, delta))
        elif match := _SAID.match(line):
            full += match[1].startswith("msgsnd")
        else:
            odd += bool(line.strip())
    if not rows:
        raise nothing_in(path, "packet", "run sample-app-taprio as the receiver with -y 1 or 3 and its priority in -q")
    streams, left_out, problems = [], [], []
    for priority, found in sorted(rows.items()):
        table = np.array(found, np.int64)
        came = _since_first(table)
        there = np.abs(table[:, 1]) < _NEVER_NS
        stamps = {
            "submit": Stamps(came - np.where(there, table[:, 1], 0), there),
            "rx_hard": Stamps(came, there),
        }
        stream, again = _stream(f"priority-{priority}", table[:, 0], stamps, "sent_latency")
        streams.append(stream)
        left_out += again
        problems += clock_problems(f"{path.name}, priority {priority}", 0, _shift(stream, "rx_hard"))
    left_out += (
        [LeftOut("packets", full, "at least: the program's queue was full, and they were not logged")] if full else []
    )
    left_out += [LeftOut("lines", odd, "not from the program, or truncated")] if odd else []
    return ReadFiles(
        "sample-app-taprio",
        "its log (program version 1.0; the file does not say)",
        TAPRIO_LATENCY,
        streams=tuple(streams),
        notes=("the log has differences only: time counts from each stream's first packet",),
        left_out=tuple(left_out),
        problems=tuple(problems),
    )


def _since_first(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """When each packet came in after the first one, ns: the sum of the gaps; one that cannot be is counted as 0.

    A packet that the program did not log is missing from the sum, so the time may be short by its gap; differences are
    not.
    """
    gaps = table[:, 2].copy()
    gaps[0] = 0
    gaps[(np.abs(gaps) >= _NEVER_NS) | (np.abs(table[:, 1]) >= _NEVER_NS)] = 0
    total: NDArray[np.int64] = np.cumsum(np.clip(gaps, -(10**12), 10**12))
    return total


def read_txrx(paths: Sequence[Path], given: Given) -> ReadFiles:
    """A stream a transmit queue. UsageError: no packet."""
    (path,) = paths
    rows: dict[int, list[tuple[int, int, int, int]]] = {}
    odd = apart = 0
    for line in lines_of(path):
        match = _ROW.match(line)
        latency, *numbers = map(int, match.groups()) if match else (0, _MOST)
        if max(numbers) >= _MOST:
            odd += bool(line.strip())
            continue
        sequence, queue, left, card, came = numbers
        apart += signed(latency) != came - left
        rows.setdefault(queue, []).append((sequence, left, card, came))
    if not rows:
        raise nothing_in(path, "packet", "import what the receiver printed (txrx-tsn -r), not the sender")
    streams, left_out, problems = [], [], []
    for queue, found in sorted(rows.items()):
        table = np.array(found, np.int64)
        everyone = np.ones(len(table), np.bool_)
        stamps = {
            "submit": Stamps(table[:, 1], everyone),
            "rx_hard": Stamps.where_set(table[:, 2]),
            "rx_user": Stamps(table[:, 3], everyone),
        }
        stream, again = _stream(f"queue-{queue}", table[:, 0], stamps, "sent_latency_user")
        streams.append(stream)
        left_out += again
        back = went_back_ns(table[:, 3])
        problems += clock_problems(f"{path.name}, queue {queue}", back, _shift(stream, "rx_user"))
    left_out += [LeftOut("lines", odd, "not of a packet, or truncated")] if odd else []
    notes = [
        "the card's timestamp (rx_hard) is in the packet table and not in any figure: its time scale is not in the file"
    ]
    notes += [f"in {apart} lines the first column differs from the timestamps, which are used"] if apart else []
    return ReadFiles(
        "txrx-tsn",
        "version not in the file",
        TXRX_LATENCY,
        streams=tuple(streams),
        notes=tuple(notes),
        left_out=tuple(left_out),
        problems=tuple(problems),
    )


def _stream(
    name: str, sequence: NDArray[np.int64], stamps: Mapping[str, Stamps], metric: str
) -> tuple[PacketStream, list[LeftOut]]:
    """One stream, with a row for each sequence number between its first and its last: those that are missing are lost.

    sequence, stamps: of the file's rows, in the order of arrival. Where too many are missing, there is a row each.
    """
    first, last = int(sequence.min()), int(sequence.max())
    taken = np.sort(np.unique(sequence, return_index=True)[1])
    again = len(sequence) - len(taken)
    left_out = []
    if again:
        why = "with a sequence number that appeared before: copies"
        left_out.append(LeftOut("packets", again, why))
    place, n = sequence[taken] - first, last - first + 1
    counts: dict[str, int | None] = {}
    if n > 4 * len(sequence) + 1000:
        place, n, counts = np.arange(len(taken)), len(taken), {"lost": None}

    def spread(stamp: Stamps) -> Stamps:
        ns, there = np.zeros(n, np.int64), np.zeros(n, np.bool_)
        ns[place], there[place] = stamp.ns[taken], stamp.there[taken]
        return Stamps(ns, there)

    spread_out = {key: spread(stamp) for key, stamp in stamps.items()}
    left = spread_out["submit"]
    gap_ns = usual_gap_ns(left.ns[left.there])
    arrived = np.zeros(n, np.bool_)
    arrived[place] = True
    return PacketStream(
        name=name,
        talker="sender",
        listener="receiver",
        described=f"sender → receiver · a packet every {in_us(gap_ns)} (median), from sequence {first}",
        stamps=spread_out,
        metrics=(metric,),
        sent=np.ones(n, np.bool_),
        arrived=arrived,
        arrival=place,
        period_ns=gap_ns,
        two_clocks=True,
        counts=counts,
    ), left_out


def _shift(stream: PacketStream, end: str) -> int:
    left, came = stream.stamps["submit"], stream.stamps[end]
    both = left.there & came.there
    return shifted_ns(left.ns[both], came.ns[both])


TAPRIO: Final = Format(
    "sample-app-taprio",
    "the log of Intel's sample-app-taprio (-y 1 or 3)",
    1,
    recognises_taprio,
    read_taprio,
    runs_of_taprio,
    r"TSN VLAN Priority \d - Seq: ",
)
TXRX: Final = Format(
    "txrx-tsn", "what the receiver of Intel's txrx-tsn prints", 1, recognises_txrx, read_txrx, runs_of_txrx
)
