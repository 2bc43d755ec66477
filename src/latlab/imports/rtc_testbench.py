"""RTC-Testbench's log file, with statistics each interval or a line a frame, and its histogram file.

RTC-Testbench 5.0 to 5.5, src/log.c (log_message, log_add_stats) and src/stat.c. Up to 5.4 stamps are padded by spaces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from latlab.analysis.bins import Tally, bin_of_extremes
from latlab.analysis.words import counted
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
    nothing_in,
    unknown_version,
)
from latlab.imports.packets import clock_problems, in_order_of, usual_gap_ns, went_back_ns
from latlab.model.reasons import Reason, reason_of
from latlab.model.units import MICROSECOND_NS, SECOND_NS, in_us
from latlab.recordings.cell import LeftOut

LATENCY: Final = (
    "round trip: from just after the reference's send call until it has the frame that the mirror returns in its next "
    "cycle, so it includes up to two cycles; one way: from a timestamp taken before the send call to the other "
    "application, on two clocks"
)
_UNSET: Final = {str(2**64 - 1), str(2**63 - 1), str(-(2**63))}
"""What a minimum or maximum is before there is a value (stat_reset)."""

_WRAPPED: Final = 2**63 // MICROSECOND_NS
"""Microseconds from here on were below 0 before they were printed unsigned, as 5.0 to 5.4 do."""
_WHY_WRAPPED: Final = (
    "times below 0 wrap in 5.0 to 5.4, which print them unsigned: the clocks differ by more than the path takes"
)

_LINE: Final = re.compile(r"^\[ *(\d{1,12})\. {0,8}(\d{1,9})\]: \[(INFO|DEBUG|WARNING|ERROR)\]: (.*)$")
_ITEM: Final = re.compile(
    r"([\w.-]{1,64}?)(Sent|Received|RttMin|RttMax|RttAvg|OnewayMin|OnewayMax|OnewayAvg|RttOutliers|OnewayOutliers)"
    r"=(-?\d{1,20}(?:\.\d{1,6})?)(?: \[us\])?"
)
_BAR: Final = re.compile(r" \| ?")
_FRAME: Final = re.compile(r"^([\w.-]{1,64}): (?:(\d{1,9}) )?frames?\[(\d{1,18})\] (sent|received)$")
_LOG: Final = r"^\[ *\d+\. {0,8}\d{1,9}\]: \[(INFO|DEBUG|WARNING|ERROR)\]: "


def recognises(head: bytes, path: Path) -> float:
    """Sure of a line of statistics; likely with its way of stamping lines."""
    text = head.decode("utf-8", "replace")
    if re.search(_LOG + r"[\w.-]+Sent=\d+ \| [\w.-]+Received=\d+ \| ", text, re.MULTILINE):
        return 1.0
    return 0.8 if re.search(_LOG + r"[\w.-]+: (\d+ )?frames?\[\d+\] sent", text, re.MULTILINE) else 0.0


@dataclass
class _Class:
    """One traffic class: its last statistics, and its frames: cycle counter → when, ns.

    first: (when, ns; sent) of its first statistics; last: of its last.
    """

    said: dict[str, str] = field(default_factory=dict)
    first: tuple[int, int] | None = None
    last: tuple[int, int] | None = None
    sent: dict[int, int] = field(default_factory=dict)
    received: dict[int, int] = field(default_factory=dict)
    again: int = 0


def read(paths: Sequence[Path], given: Given) -> ReadFiles:
    """A stream a traffic class, and another of its frames where the log has them. UsageError: it has neither."""
    (path,) = paths
    classes, stamps, odd = _parse(lines_of(path))
    streams, left_out, figures = list[PacketStream](), list[LeftOut](), list[Figures]()
    notes = ["its statistics count from the start of the run, or from the last SIGUSR1: the last line is used"]
    problems = clock_problems(path.name, went_back_ns(np.array(stamps, np.int64)), 0)
    for name, found in classes.items():
        figures += _figures(name, found.said)
        if _wrapped(found.said):
            left_out.append(LeftOut("figures", 1, f"{name}'s one-way {_WHY_WRAPPED}"))
        if any(one.stream == name and one.metric == "round_trip" for one in figures):
            notes += _unanswered(name, found)
            problems += _lost_problem(path, name, found)
        stream, lacking = _frames(f"{name}-frames", found)
        streams += [stream] if stream else []
        left_out += lacking
    if not streams and not figures:
        raise nothing_in(path, "statistics", "let the testbench run for longer than its StatsCollectionIntervalNS")
    left_out += [LeftOut("lines", odd, "not of the testbench, or cut")] if odd else []
    if streams:
        notes.append("frames are by the log's own stamps, taken where the testbench takes those of its statistics")
    return ReadFiles(
        "RTC-Testbench",
        "version not in the file",
        LATENCY,
        streams=tuple(streams),
        figures=tuple(figures),
        notes=tuple(notes),
        left_out=tuple(left_out),
        problems=tuple(problems),
    )


def runs(lines: Sequence[str]) -> list[list[int]]:
    """The lines of each run: one begins where statistics, by a start or SIGUSR1, or frames count from 0 again."""
    begins: list[int] = []
    counts: dict[str, int] = {}
    frames: dict[str, int] = {}
    for place, line in enumerate(lines):
        if not (match := _LINE.match(line)):
            continue
        if frame := _FRAME.match(match[4]):
            if frame[4] == "sent":
                if int(frame[3]) < frames.get(frame[1], -1):
                    begins.append(place)
                    counts, frames = {}, {}
                frames[frame[1]] = int(frame[3])
            continue
        said = _items(match[4])
        sent = {name: int(float(items[key])) for name, items in said.items() for key in ("Sent",) if key in items}
        got = {f"{name} received": int(float(one["Received"])) for name, one in said.items() if "Received" in one}
        if any(count < counts.get(name, 0) for name, count in (sent | got).items()):
            begins.append(place)
            counts = {}
        counts |= sent | got
    return from_each(begins, len(lines))


def _items(text: str) -> dict[str, dict[str, str]]:
    """{traffic class: {figure: value}} of a line of statistics."""
    said: dict[str, dict[str, str]] = {}
    # The last part is what follows the last bar: nothing, or an item that was cut.
    for item in filter(None, map(_ITEM.fullmatch, _BAR.split(text)[:-1])):
        said.setdefault(item[1], {})[item[2]] = item[3]
    return said


def _parse(lines: Sequence[str]) -> tuple[dict[str, _Class], list[int], int]:
    """{traffic class: what is said of it}, the stamps of all lines, how many lines are none."""
    classes: dict[str, _Class] = {}
    stamps: list[int] = []
    odd = 0
    for line in lines:
        if not line:
            continue
        match = _LINE.match(line)
        at_ns = int(match[1]) * SECOND_NS + int(match[2]) if match else 0
        if match is None or at_ns >= 2**63:
            odd += 1
            continue
        stamps.append(at_ns)
        if frame := _FRAME.match(match[4]):
            _note_frame(classes.setdefault(frame[1], _Class()), frame, at_ns)
            continue
        for name, items in _items(match[4]).items():
            found = classes.setdefault(name, _Class())
            found.said = items
            found.last = at_ns, int(float(items.get("Sent", 0)))
            found.first = found.first or found.last
    return classes, stamps, odd


def _wrapped(said: Mapping[str, str]) -> bool:
    """Whether one-way times below 0 wrapped; a minimum and a maximum without any value are none of these."""
    told = [said.get(f"Oneway{key}") for key in ("Min", "Avg", "Max")]
    return any(value is not None and value not in _UNSET and float(value) >= _WRAPPED for value in told)


def _not_back(found: _Class) -> tuple[int, int]:
    """(at least, at most) how many frames were lost, of those that were not back when the last line was printed.

    As many may be under way as are sent in the longest round trip, and one burst more. The rate is that between the
    first line and the last; without a second line nothing is known of it.
    """
    sent, received = (int(float(found.said.get(key, 0))) for key in ("Sent", "Received"))
    missing = max(0, sent - received)
    if not missing or not found.first or not found.last or found.last[0] <= found.first[0]:
        return 0, missing
    a_second = (found.last[1] - found.first[1]) / (found.last[0] - found.first[0]) * SECOND_NS
    under_way = 2 * (int(a_second * float(found.said.get("RttMax", 0)) / 1e6) + 1)
    return max(0, missing - under_way), missing


def _unanswered(name: str, found: _Class) -> list[str]:
    least, most = _not_back(found)
    if not most:
        return []
    lost = f"{least} to {most}" if least else f"at most {most}"
    return [f"{name}: {counted(most, 'frame')} not returned when the log ends, some of them in flight: {lost} are lost"]


def _lost_problem(path: Path, name: str, found: _Class) -> list[Reason]:
    least, most = _not_back(found)
    if not least:
        return []
    return [
        reason_of(
            "frames-returned",
            f"{path.name}, {name}",
            "no more frames in flight at the end than a round trip takes",
            f"{most} had not returned: at least {least} of them are lost",
        )
    ]


def _note_frame(found: _Class, frame: re.Match[str], at_ns: int) -> None:
    first, number = int(frame[3]), min(int(frame[2] or 1), 4096)
    seen = found.sent if frame[4] == "sent" else found.received
    for counter in range(first, first + number):
        found.again += counter in seen
        seen.setdefault(counter, at_ns)


def _frames(name: str, found: _Class) -> tuple[PacketStream | None, list[LeftOut]]:
    """The stream of a reference's frames; None where there are none, or the log is a mirror's: it receives first."""
    if not found.sent or not found.received:
        return None, []
    pairs = [(found.sent[counter], found.received[counter]) for counter in found.sent if counter in found.received]
    if sum(came > left for left, came in pairs) * 2 <= len(pairs):
        why = "the log is a mirror's, which has no round trips: import the reference's"
        return None, [LeftOut("frames", len(found.sent), why)]
    last = max(counter for counter in found.sent if counter in found.received)
    counters = sorted(counter for counter in found.sent if counter <= last)
    first = counters[0]
    left_out = [LeftOut("lines", found.again, "of frames that already have one")] if found.again else []
    if under_way := len(found.sent) - len(counters):
        left_out.append(LeftOut("frames", under_way, "sent after the last one that returned before the log ends"))
    unknown = sum(counter not in found.sent for counter in found.received)
    left_out += [LeftOut("frames", unknown, "received, and sent before the log begins")] if unknown else []
    tx = np.array([found.sent[counter] for counter in counters], np.int64)
    rx = np.array([found.received.get(counter, 0) for counter in counters], np.int64)
    arrived = np.array([counter in found.received for counter in counters], np.bool_)
    everyone = np.ones(len(counters), np.bool_)
    gap_ns = usual_gap_ns(tx)
    return PacketStream(
        name=name,
        talker="reference",
        listener="reference",
        described=f"reference → mirror → reference · a frame every {in_us(gap_ns)} (median), from counter {first}",
        stamps={"sent": Stamps(tx, everyone), "answered": Stamps(rx, arrived)},
        metrics=("round_trip",),
        sent=everyone,
        arrived=arrived,
        arrival=in_order_of(rx, arrived),
        period_ns=gap_ns,
        two_clocks=False,
    ), left_out


def _figures(name: str, said: Mapping[str, str]) -> list[Figures]:
    """Round trip and one way of one class, as its last line has them; none of what has no value yet."""
    sent, received = (int(float(said.get(key, 0))) for key in ("Sent", "Received"))
    found = []
    for prefix, metric, between, listener in (
        ("Rtt", "round_trip", ("sent", "answered"), "reference"),
        ("Oneway", "sent_latency_user", ("submit", "rx_user"), "listener"),
    ):
        least, mean, most = (said.get(f"{prefix}{key}") for key in ("Min", "Avg", "Max"))
        if least is None or most is None or mean is None or {least, most} & _UNSET:
            continue
        if prefix == "Oneway" and _wrapped(said):
            continue
        if prefix == "Rtt" and float(most) == 0:  # a mirror measures none
            continue
        found.append(
            Figures(
                stream=name,
                metric=metric,
                kept="summary",
                between=between,
                resolution_ns=MICROSECOND_NS,
                n=received,
                min=int(float(least)) * MICROSECOND_NS,
                mean=float(mean) * MICROSECOND_NS,
                max=int(float(most)) * MICROSECOND_NS,
                # Of frames that are not back some are under way: only where there are none is it known.
                lost=0 if prefix == "Rtt" and sent == received else None,
                two_clocks=prefix == "Oneway",
                talker="talker" if prefix == "Oneway" else "reference",
                listener=listener,
                described=f"{name} · {sent} frames sent, {received} received",
            )
        )
    return found


FORMAT: Final = Format(
    "rtc-testbench", "RTC-Testbench's log file", 1, recognises, read, runs, r"\]: \[(INFO|DEBUG)\]: [\w.-]+Sent=\d+ \|"
)

# RTC-Testbench's histogram file: round trips of each traffic class, by microseconds.
#
# RTC-Testbench 5.2 to 5.5, src/hist.c (histogram_write, histogram_update).


_VERSION: Final = re.compile(r"^Testbench: Version '([^']{0,64})'")
_CLASSES: Final = re.compile(r"^Testbench RTT Histogram:((?: [^\s]{1,64}){1,64})\s*$")
_BIN: Final = re.compile(r"^(\d{8,15}): (\d{8,15}(?: +\d{8,15}){0,63}) *$")
_BEYOND: Final = re.compile(r"^(Overflow|Underflow): (\d{8,15}(?: +\d{8,15}){0,63}) *$")


def recognises_histogram(head: bytes, path: Path) -> float:
    """Sure of its heading."""
    return 1.0 if re.search(rb"^Testbench RTT Histogram:", head, re.MULTILINE) else 0.0


def histogram_runs(lines: Sequence[str]) -> list[list[int]]:
    """The lines of each histogram: what stands before its heading is its own, from its version on."""
    headings = [place for place, line in enumerate(lines) if _CLASSES.match(line)]
    versions = [place for place, line in enumerate(lines) if _VERSION.match(line)]
    ends = [
        max((at for at, line in enumerate(lines[:heading]) if _BEYOND.match(line)), default=0) for heading in headings
    ]
    return from_each(
        [
            next((at for at in versions if end < at < heading), heading)
            for heading, end in zip(headings[1:], ends[1:], strict=True)
        ],
        len(lines),
    )


def read_histogram(paths: Sequence[Path], given: Given) -> ReadFiles:
    """A stream a traffic class that has round trips. UsageError: another version, or no round trip."""
    (path,) = paths
    version, classes = "", list[str]()
    bins: list[list[int]] = []
    beyond: dict[str, list[int]] = {}
    odd = 0
    for line in lines_of(path):
        if match := _VERSION.match(line):
            version = match[1]
        elif match := _CLASSES.match(line):
            classes = match[1].split()
        elif match := _BIN.match(line):
            row = [int(match[1]), *map(int, match[2].split())]
            bins += [row] if len(row) == len(classes) + 1 else []
            odd += len(row) != len(classes) + 1
        elif match := _BEYOND.match(line):
            beyond[match[1]] = [int(word) for word in match[2].split()]
        elif line.strip() and not line.startswith("Kernel"):
            odd += 1
    if version and not re.match(r"v?5\.", version):
        raise unknown_version(path, f"RTC-Testbench {version}", "the histograms of RTC-Testbench 5")
    table = np.array(bins, np.int64).reshape(-1, len(classes) + 1)
    ordered = bool((np.diff(table[:, 0]) > 0).all())
    table = table[np.argsort(table[:, 0], kind="stable")]
    figures = [
        one
        for place, name in enumerate(classes)
        if (one := _histogram_figures(name, table[:, [0, place + 1]], beyond, place))
    ]
    if not figures:
        raise nothing_in(path, "round trip", "the reference writes them, with StatsHistogramEnabled: true")
    whole = len(beyond.get("Underflow", ())) == len(classes)
    zeros = int(table[table[:, 0] == 0, 1:].sum()) if len(table) else 0
    return ReadFiles(
        "RTC-Testbench",
        version or "version not in the file",
        LATENCY,
        figures=tuple(figures),
        notes=(f"{zeros} round trips of 0 µs are frames whose sending time was lost",) if zeros else (),
        left_out=(LeftOut("lines", odd, "not of a histogram, or truncated"),) if odd else (),
        problems=(*_whole(path, whole, len(table)), *_ordered(path, ordered)),
    )


def _whole(path: Path, whole: bool, bins: int) -> list[Reason]:
    return [] if whole else [cut_short(path.name, f"{bins} bins, without the lines that end them")]


def _ordered(path: Path, ordered: bool) -> list[Reason]:
    """It prints its bins ascending, each once, and no sum of them."""
    if ordered:
        return []
    return [reason_of("rows-whole", path.name, "bins that ascend, each once", "bins that do not", case="order")]


def _histogram_figures(name: str, rows: np.ndarray, beyond: dict[str, list[int]], place: int) -> Figures | None:
    """One class; None where it has no round trip. A bin holds what begins in it: values are cut to microseconds."""
    below, above = (row[place] if place < len(row := beyond.get(key, [])) else 0 for key in ("Underflow", "Overflow"))
    held = rows[rows[:, 1] > 0]
    tally = Tally(
        held[:, 0] * MICROSECOND_NS, (held[:, 0] + 1) * MICROSECOND_NS, np.ascontiguousarray(held[:, 1]), below, above
    )
    if not tally.n:
        return None
    lowest, highest = bin_of_extremes(tally)
    return Figures(
        stream=name,
        metric="round_trip",
        kept="histogram",
        between=("sent", "answered"),
        resolution_ns=MICROSECOND_NS,
        n=tally.n,
        min=lowest[0] if lowest else None,
        max=highest[0] if highest else None,
        tally=tally,
        talker="reference",
        listener="reference",
        described=f"{name} · reference → mirror → reference · {below} below and {above} beyond the histogram",
    )


HISTOGRAM: Final = Format(
    "rtc-histogram",
    "RTC-Testbench's histogram file (StatsHistogramFile)",
    1,
    recognises_histogram,
    read_histogram,
    histogram_runs,
    "Testbench RTT Histogram:",
)
