"""RTC-Testbench's log file: a line of statistics each interval, and with LogLevel Debug a line a frame.

RTC-Testbench 5.0 to 5.5, src/log.c (log_message, log_add_stats) and src/stat.c. Up to 5.4 stamps are padded by spaces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from latlab.imports.base import Figures, Format, Given, Imported, LeftOut, PacketStream, Stamps, lines_of, nothing_in
from latlab.imports.packets import clock_problems, in_order_of, usual_gap_ns, went_back_ns

LATENCY: Final = (
    "round trip: from just after the reference's send call until it has the frame that the mirror sends back, in its "
    "next cycle, so up to two cycles are in it; one way: from a timestamp taken before the send call to the other "
    "application, on two clocks"
)
_US: Final = 1_000
_UNSET: Final = {str(2**64 - 1), str(2**63 - 1), str(-(2**63))}
"""What a minimum or maximum is before there is a value (stat_reset)."""

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
    """One traffic class: its last statistics, and its frames: cycle counter → when, ns."""

    said: dict[str, str] = field(default_factory=dict)
    sent: dict[int, int] = field(default_factory=dict)
    received: dict[int, int] = field(default_factory=dict)
    again: int = 0


def read(paths: Sequence[Path], given: Given) -> Imported:
    """A stream a traffic class, and another of its frames where the log has them. UsageError: it has neither."""
    (path,) = paths
    classes, stamps, odd, resets = _parse(lines_of(path))
    streams, left_out, figures = [], [], []
    for name, found in classes.items():
        figures += _figures(name, found.said)
        stream, lacking = _frames(f"{name}-frames", found)
        streams += [stream] if stream else []
        left_out += lacking
    if not streams and not figures:
        raise nothing_in(path, "statistics", "let the testbench run for longer than its StatsCollectionIntervalNS")
    left_out += [LeftOut("lines", odd, "they are none of the testbench's, or cut")] if odd else []
    notes = ["its statistics count from the start of the run, or from the last SIGUSR1: the last line is what is shown"]
    if resets:
        notes.append(f"they were reset {resets} times: what was before the last time is in no figure")
    if streams:
        notes.append("frames are by the log's own stamps, taken where the testbench takes those of its statistics")
    return Imported(
        "RTC-Testbench",
        "version not in the file",
        LATENCY,
        streams=tuple(streams),
        figures=tuple(figures),
        notes=tuple(notes),
        left_out=tuple(left_out),
        problems=tuple(clock_problems(path.name, went_back_ns(np.array(stamps, np.int64)), 0)),
    )


def _parse(lines: Sequence[str]) -> tuple[dict[str, _Class], list[int], int, int]:
    """{traffic class: what is said of it}, the stamps of all lines, how many lines are none, how many resets."""
    classes: dict[str, _Class] = {}
    stamps: list[int] = []
    odd = resets = 0
    for line in lines:
        if not line:
            continue
        if not (match := _LINE.match(line)):
            odd += 1
            continue
        at_ns, text = int(match[1]) * 10**9 + int(match[2]), match[4]
        if at_ns >= 2**63:
            odd += 1
            continue
        stamps.append(at_ns)
        if frame := _FRAME.match(text):
            _note_frame(classes.setdefault(frame[1], _Class()), frame, at_ns)
        else:
            said: dict[str, dict[str, str]] = {}
            # The last part is what follows the last bar: nothing, or an item that was cut.
            for item in filter(None, map(_ITEM.fullmatch, _BAR.split(text)[:-1])):
                said.setdefault(item[1], {})[item[2]] = item[3]
            for name, items in said.items():
                before = classes.setdefault(name, _Class()).said
                resets += int(float(items.get("Received", 0)) < float(before.get("Received", 0)))
                classes[name].said = items
    return classes, stamps, odd, resets


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
    left_out = [LeftOut("lines", found.again, "of a frame that has one already")] if found.again else []
    if under_way := len(found.sent) - len(counters):
        left_out.append(LeftOut("frames", under_way, "sent after the last one that came back before the log ends"))
    unknown = sum(counter not in found.sent for counter in found.received)
    left_out += [LeftOut("frames", unknown, "they were received, and sent before the log begins")] if unknown else []
    tx = np.array([found.sent[counter] for counter in counters], np.int64)
    rx = np.array([found.received.get(counter, 0) for counter in counters], np.int64)
    arrived = np.array([counter in found.received for counter in counters], np.bool_)
    everyone = np.ones(len(counters), np.bool_)
    gap_ns = usual_gap_ns(tx)
    return PacketStream(
        name=name,
        talker="reference",
        listener="reference",
        described=f"reference → mirror → reference · a frame every {gap_ns / 1000:g} µs (median), from counter {first}",
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
        if prefix == "Rtt" and float(most) == 0:  # a mirror measures none
            continue
        found.append(
            Figures(
                stream=name,
                metric=metric,
                kept="summary",
                between=between,
                resolution_ns=_US,
                n=received,
                min=int(float(least)) * _US,
                mean=float(mean) * _US,
                max=int(float(most)) * _US,
                lost=max(0, sent - received) if prefix == "Rtt" else None,
                two_clocks=prefix == "Oneway",
                talker="talker" if prefix == "Oneway" else "reference",
                listener=listener,
                described=f"{name} · {sent} frames sent, {received} received",
            )
        )
    return found


FORMAT: Final = Format("rtc-testbench", "RTC-Testbench's log file", 1, recognises, read)
