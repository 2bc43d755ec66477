"""isochron's log file, isochron.dat, with up to seven timestamps a packet, and what `isochron report` prints.

Layout: isochron 0.9, src/log.c (struct isochron_log_file_header) and src/log.h; all numbers are big endian.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.imports.base import (
    Figures,
    Format,
    Given,
    PacketStream,
    ReadFiles,
    Stamps,
    cut_short,
    from_each,
    lines_of,
    not_what_it_says,
    nothing_in,
    restarts,
    unknown_version,
)
from latlab.imports.packets import in_order_of, usual_gap_ns
from latlab.model.errors import UsageError
from latlab.model.reasons import Reason, reason_of
from latlab.model.units import SECOND_NS, in_us
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
_LEAST_SOFTWARE_NS: Final = 1_000 * SECOND_NS
"""A software timestamp that is not there is UTC 0 with the TAI offset added (rcv.c): some 37 s, no instant of ours."""


def recognises(head: bytes, path: Path) -> float:
    """1 where the file begins with isochron's magic."""
    return 1.0 if head.startswith(MAGIC) else 0.0


def read(paths: Sequence[Path], given: Given) -> ReadFiles:
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
    return ReadFiles(
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
        described=f"every {in_us(cycle_ns)} · {frame_size} bytes a frame · sender → receiver",
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


def _unsynchronised(stream: PacketStream, path: Path) -> list[Reason]:
    """isochron's own test (log.c, isochron_print_stats): a path delay beyond 1 s is no delay but two clocks."""
    left, came = stream.stamps["tx_hard"], stream.stamps["rx_hard"]
    both = left.there & came.there
    if not both.any():
        return []
    delay_ns = float((came.ns[both].astype(np.float64) - left.ns[both].astype(np.float64)).mean())
    if abs(delay_ns) <= SECOND_NS:
        return []
    return [reason_of("cards-synchronised", path.name, "a mean path delay within 1 s", f"{delay_ns / SECOND_NS:.3f} s")]


FORMAT: Final = Format("isochron", "isochron's log file (send --output-file), packet by packet", 1, recognises, read)

# What `isochron report` prints: packets as its user formats them, as comma-separated values, and its summary.
#
# isochron 0.9, src/log.c (variable_codes, isochron_print_stats) and docs/isochron-report.1.md.


COLUMNS: Final = {
    "S": "launch",
    "w": "wake",
    "s": "tx_sched",
    "t": "tx_soft",
    "T": "tx_hard",
    "R": "rx_hard",
    "r": "rx_soft",
    "a": "rx_user",
}
"""isochron's variables that are timestamps of a packet, by our names."""

_OTHERS: Final = {
    "q": "sequence number, from 1",
    "A": "advance time",
    "B": "base",
    "C": "cycle",
    "H": "shift",
    "W": "window",
}
_SOFTWARE: Final = frozenset("str")
_LEAST_TEXT_SOFTWARE_NS: Final = 10**12
_LOOKED_AT: Final = 20
_LEAST_PERIOD_NS: Final = 2_000
_NUMBER: Final = re.compile(r"^-?\d{1,19}$")
_TIME: Final = re.compile(r"^(-?\d{1,10})\.(-?\d{9})$")


@dataclass(frozen=True)
class _Sum:
    """One metric of isochron's summary that is ours: its two moments, and whether isochron subtracts the end."""

    metric: str
    between: tuple[str, str]
    turned: bool = False


_PATH: Final = _Sum("path", ("tx_hard", "rx_hard"))
_LATENCY: Final = _Sum("latency", ("launch", "rx_hard"))
_LATENESS: Final = _Sum("lateness", ("launch", "tx_hard"))
_WAKEUP: Final = _Sum("wakeup", ("wake_due", "wake"))
_DELIVERY: Final = _Sum("delivery", ("rx_hard", "rx_user"))

_SUMMARY: Final[dict[str, _Sum]] = {
    "Path delay": _PATH,
    "Packets arrived later than scheduled. TX time to HW RX timestamp": _LATENCY,
    "MAC latency": _LATENESS,
    "Wakeup latency": _WAKEUP,
    "Arrival latency": _DELIVERY,
    # Where packets leave before their time it turns two of them round (0.5 on).
    "Packets arrived earlier than scheduled. HW RX timestamp to TX time": replace(_LATENCY, turned=True),
    "Application latency budget": replace(_LATENESS, turned=True),
    # 0.2 to 0.4 (send.c).
    "HW RX deadline delta (TX time to HW RX timestamp)": _LATENCY,
    "MAC latency (TX time to HW TX timestamp)": _LATENESS,
    "Arrival latency (HW RX timestamp to application)": _DELIVERY,
    # 2020, before 0.1.
    "HW TX deadline delta": _LATENESS,
    "HW RX deadline delta": _LATENCY,
}
"""{isochron's metric: ours} of those that are the same; the others are named as left out."""

_METRIC: Final = re.compile(
    r"^([A-Z][^:]{1,100}): min (-?\d{1,19}) max (-?\d{1,19}) mean (-?\d{1,20}\.\d{3}) stddev (-?\d{1,20}\.\d{3})"
    r"(?:, min at seqid (-?\d{1,10}), max at seqid (-?\d{1,10}))?\s*$"
)
_SCIENTIFIC: Final = re.compile(r"\d[.,]\d+[eE]\+?1\d\b")
"""An instant as a spreadsheet writes it, without its last digits."""
_NOT_RECEIVED: Final = re.compile(r"^Packets not received: (\d{1,15}) ")


def recognises_csv(head: bytes, path: Path) -> float:
    """Likely where the first line names columns in isochron's letters, or lines are numbers, two of them timestamps."""
    lines = [line for line in head.decode("utf-8", "replace").splitlines()[:_LOOKED_AT] if line.strip()]
    if lines and _heading(lines[0]) is not None:
        return 0.9
    rows = [row for line in lines if (row := _row(line, len(_words(line))))]
    stamped = sum(sum(number >= _LEAST_TEXT_SOFTWARE_NS for number in row) >= 2 for row in rows)
    return 0.5 if stamped > len(lines) / 2 else 0.0


def recognises_summary(head: bytes, path: Path) -> float:
    """Sure of the summary's first metric."""
    return 1.0 if re.search(rb"^Path delay: min -?\d+ max -?\d+ mean ", head, re.MULTILINE) else 0.0


def runs_of_csv(lines: Sequence[str]) -> list[list[int]]:
    """The lines of each table: one begins with a heading, and where sequence numbers that were there begin again.

    Without a heading they are in the first column with a number too small for a timestamp.
    """
    begins, q, numbers, rows, headings = list[int](), -1, list[int](), list[int](), list[int]()
    for place, line in enumerate(lines):
        words = _words(line)
        if (heading := _heading(line)) is not None:
            begins += [place] if rows else []
            headings.append(place)
            q = heading.find("q")
        elif _row(line, len(words)) is not None:
            if q < 0:
                q = next(
                    (at for at, word in enumerate(words) if _NUMBER.match(word) and int(word) < 10**10), len(words)
                )
            rows.append(place)
            numbers.append(int(words[q]) if q < len(words) and _NUMBER.match(words[q]) else len(rows))
    found = from_each([*begins, *(rows[at] for at in restarts(numbers))], len(lines))
    # A run whose heading is another one's has that.
    before = [[at for at in headings if at < run[0]][-1:] for run in found]
    return [run if set(headings) & set(run) else [*heading, *run] for heading, run in zip(before, found, strict=True)]


def runs_of_summary(lines: Sequence[str]) -> list[list[int]]:
    """The lines of each summary: one begins where a metric stands there again; what stands before its first is its."""
    begins, seen, after = list[int](), set[str](), 0
    for place, line in enumerate(lines):
        if not (match := _METRIC.match(line)):
            continue
        if match[1] in seen:
            title = [
                at for at in range(after, place) if re.match(r"^(Summary:|Packets not |Receiver |Sender )", lines[at])
            ]
            begins.append(title[0] if title else place)
            seen = set()
        seen.add(match[1])
        after = place + 1
    return from_each(begins, len(lines))


def _words(line: str) -> list[str]:
    """The columns of a line: between commas, semicolons, or else blanks or tabs."""
    separator = next((one for one in ",;" if one in line), None)
    return [word.strip().strip('"') for word in line.split(separator)]


def _heading(line: str) -> str | None:
    """The letters of a heading as "q,S,T,R"; None for another line."""
    words = _words(line)
    if len(words) < 2 or len(set(words)) < len(words) or not all(word in COLUMNS or word in _OTHERS for word in words):
        return None
    return "".join(words)


def read_csv(paths: Sequence[Path], given: Given) -> ReadFiles:
    """One stream, `packets`. UsageError: the columns are not named, or there is no packet."""
    (path,) = paths
    lines = [line for line in lines_of(path) if line.strip()]
    heading = _heading(lines[0]) if lines else None
    letters = (given.columns or heading or "").replace(",", "")
    _check_letters(path, letters)
    rows = [found for line in lines[1 if heading else 0 :] if (found := _row(line, len(letters))) is not None]
    odd = len(lines) - bool(heading) - len(rows)
    if not rows and any(map(_SCIENTIFIC.search, lines)):
        raise UsageError(
            "its timestamps are written like 1.7E+18: a spreadsheet removed their last digits",
            where=str(path),
            remedy="import what isochron report printed, before a spreadsheet opened it",
        )
    if not rows:
        raise nothing_in(path, f"row of {len(letters)} numbers", "check that --columns has a letter for each")
    table = np.array(rows, np.int64)
    column = {letter: np.ascontiguousarray(table[:, place]) for place, letter in enumerate(letters)}
    taken, place = _places(column, len(table))
    again = len(table) - len(taken)
    if not len(taken):
        raise nothing_in(
            path, "row with a sequence number from 1 on", "check that q is at the right position in --columns"
        )
    stream = _text_stream({letter: _spread(values[taken], place) for letter, values in column.items()}, place)
    left_out = [LeftOut("lines", odd, f"not {len(letters)} whole numbers or times")] if odd else []
    left_out += [LeftOut("rows", again, "with a sequence number that came before, or 0")] if again else []
    return ReadFiles(
        "isochron",
        "its own export, whose version is not in the file",
        LATENCY,
        streams=(stream,),
        notes=_numbering(column["q"][taken], place) if "q" in column else (),
        left_out=tuple(left_out),
        problems=_unit_problems(path, stream),
        facts={"columns": letters},
    )


def _unit_problems(path: Path, stream: PacketStream) -> tuple[Reason, ...]:
    """Packets that follow each other faster than any thread can be woken: their timestamps are no nanoseconds."""
    if len(stream.sent) < _LOOKED_AT or not 1 < stream.period_ns < _LEAST_PERIOD_NS:
        return ()
    return (
        reason_of(
            "unit-possible",
            path.name,
            f"{_LEAST_PERIOD_NS} ns or more between two packets: isochron sleeps before each",
            f"{stream.period_ns} ns",
            "export them again as isochron prints them, by %T or in nanoseconds",
        ),
    )


def _places(column: dict[str, NDArray[np.int64]], n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(rows that are taken, the packet that each of them is), int64 [taken], of n rows.

    A packet is its sequence number less the least, so that numbers that are not in the file leave room. Where far too
    many are not there, or no number is in the file, rows follow each other: a file takes no more memory than it is
    worth.
    """
    if "q" not in column:
        return np.arange(n), np.arange(n)
    numbers, taken = np.unique(column["q"], return_index=True)
    numbers, taken = numbers[numbers > 0], taken[numbers > 0]
    if not len(taken) or int(numbers[-1] - numbers[0]) >= 4 * n + 1000:
        return taken, np.arange(len(taken))
    return taken, numbers - numbers[0]


def _spread(values: NDArray[np.int64], place: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each value at its place, and 0, which is no timestamp, between them."""
    found = np.zeros(int(place[-1]) + 1, np.int64)
    found[place] = values
    return found


def _numbering(numbers: NDArray[np.int64], place: NDArray[np.int64]) -> tuple[str, ...]:
    """What is to be known of the packets' numbers. numbers: isochron's, ascending; place: ours."""
    first, absent = int(numbers[0]), int(numbers[-1] - numbers[0]) + 1 - len(numbers)
    numbers_are = ("number", "is") if absent == 1 else ("numbers", "are")
    told = f"{absent} {numbers_are[0]} between the first and the last {numbers_are[1]} not in the file"
    if absent and place[-1] + 1 == len(place):
        return (f"{told}, too many to keep gaps for: packets are counted from 0, not by isochron's numbers",)
    return numbered_from(first), *([f"{told}: these packets are not known"] if absent else [])


def _check_letters(path: Path, letters: str) -> None:
    known = ", ".join(f"{letter} {what}" for letter, what in (COLUMNS | _OTHERS).items())
    if not letters:
        raise UsageError(
            "its columns have no names",
            where=str(path),
            remedy=f"--columns LETTERS, as they were given to isochron report --printf-args: {known}",
        )
    wrong = [letter for letter in letters if letter not in COLUMNS and letter not in _OTHERS]
    if wrong or len(set(letters)) < len(letters):
        what = f"isochron has no variable {wrong[0]!r}" if wrong else "a column appears twice"
        raise UsageError(what, where="--columns", remedy=known)
    if sum(letter in COLUMNS for letter in letters) < 2:
        raise UsageError(
            "fewer than two timestamps in it", where=str(path), remedy="export two or more, as with -a STR"
        )


def _row(line: str, width: int) -> list[int] | None:
    """The numbers of a line, ns; None for another one."""
    words = _words(line)
    numbers = [_ns(word) for word in words]
    return [n for n in numbers if n is not None] if len(words) == width and None not in numbers else None


def _ns(word: str) -> int | None:
    """ "12" (%d, %u) and "1.000000002" (%T) in ns; None for what is neither, or fits no int64."""
    if _NUMBER.match(word):
        value = int(word)
    elif match := _TIME.match(word):
        value = int(match[1]) * SECOND_NS + int(match[2])
    else:
        return None
    return value if abs(value) < 2**63 else None


def _text_stream(column: dict[str, NDArray[np.int64]], place: NDArray[np.int64]) -> PacketStream:
    """The stream. column: by packet, 0 where the file has none; place: the packets that it has."""
    stamps = {
        name: Stamps.where_set(column[letter], _LEAST_TEXT_SOFTWARE_NS if letter in _SOFTWARE else 1)
        for letter, name in COLUMNS.items()
        if letter in column
    }
    if "S" in column and "A" in column:
        stamps["wake_due"] = Stamps(column["S"] - column["A"], stamps["launch"].there)
    ends = [name for name in ("rx_user", "rx_hard", "rx_soft") if name in stamps]
    n = int(place[-1]) + 1
    in_file = np.zeros(n, np.bool_)
    in_file[place] = True
    arrived = np.logical_or.reduce([stamps[name].there for name in ends]) if ends else np.zeros(n, np.bool_)
    at = stamps[ends[0]].ns if ends else np.zeros(n, np.int64)
    counts: dict[str, int | None] = {} if ends else {"received": None, "lost": None, "reordered": None}
    if not in_file.all():
        # As in isochron's log they are no packets sent; but here they may have been, and be filtered out.
        counts["unsent"] = None
    start = next(stamps[name] for name in ("launch", "wake", "tx_hard", *stamps) if name in stamps)
    told = int(column["C"][0]) if "C" in column else 0
    period_ns = told if told > 0 else usual_gap_ns(start.ns[start.there])
    # Without isochron's own cycle a period is but the usual gap, of which an offset from the period would be made.
    metrics = METRICS if told > 0 else tuple(name for name in METRICS if name != "arrival_offset")
    return PacketStream(
        name="packets",
        talker="sender",
        listener="receiver",
        described=f"every {in_us(period_ns)}{'' if told > 0 else ' (median)'} · sender → receiver",
        stamps=stamps,
        metrics=metrics,
        sent=in_file,
        arrived=arrived,
        arrival=in_order_of(at, arrived),
        period_ns=period_ns,
        two_clocks=True,
        counts=counts,
    )


def read_summary(paths: Sequence[Path], given: Given) -> ReadFiles:
    """One stream, `packets`, of which minimum, mean, maximum and deviation are known. UsageError: none of them is."""
    (path,) = paths
    figures, lost, others = [], None, []
    for line in lines_of(path):
        if match := _NOT_RECEIVED.match(line):
            lost = int(match[1])
        if not (match := _METRIC.match(line)):
            continue
        if match[1] in _SUMMARY:
            figures.append(_summed_up(_SUMMARY[match[1]], match, lost))
        else:
            others.append(match[1])
    if not figures:
        raise nothing_in(path, "metric that latlab has, too", "isochron report --summary; better: import isochron.dat")
    return ReadFiles(
        "isochron",
        "its summary, whose version is not in the file",
        LATENCY,
        figures=tuple(figures),
        notes=(
            numbered_from(1),
            "packets with missing timestamps are not in its figures; the file does not count them",
        ),
        left_out=tuple(LeftOut("metrics", 1, f"isochron's {name!r}: latlab has no such metric") for name in others),
    )


def _summed_up(one: _Sum, match: re.Match[str], lost: int | None) -> Figures:
    """The figures of a line. Where isochron subtracts the end, all signs turn, and the least becomes the greatest."""
    least, most, mean = int(match[2]), int(match[3]), float(match[4])
    first, last = (None if number is None else int(number) - 1 for number in (match[6], match[7]))
    if one.turned:
        least, most, mean, first, last = -most, -least, -mean, last, first
    return Figures(
        stream="packets",
        metric=one.metric,
        kept="summary",
        between=one.between,
        resolution_ns=0,  # whole differences of whole nanoseconds, the mean to a thousandth: nothing is cut
        min=least,
        max=most,
        mean=mean,
        stddev=float(match[5]),
        min_sequence=first,
        max_sequence=last,
        lost=lost,
        two_clocks=one.metric != "wakeup",
        described="sender → receiver, as isochron sums it up",
    )


CSV: Final = Format(
    "isochron-csv", "isochron report's packets as a table (--columns)", 1, recognises_csv, read_csv, runs_of_csv
)
SUMMARY: Final = Format(
    "isochron-summary",
    "isochron report --summary",
    1,
    recognises_summary,
    read_summary,
    runs_of_summary,
    r"Path delay: min -?\d+ max ",
)
