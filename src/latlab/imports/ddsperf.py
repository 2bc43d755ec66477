"""What ddsperf prints: each second's figures of each peer it pings, or receives from.

Cyclone DDS 0.8 to 11, src/tools/ddsperf/ddsperf.c (latencystat_print, latencystat_update).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from latlab.analysis.words import counted
from latlab.imports.base import COLOURS, Figures, Format, Given, ReadFiles, lines_of, nothing_in
from latlab.model.errors import UsageError
from latlab.recordings.cell import LeftOut, ToolInterval
from latlab.recordings.ddsperf import SAMPLES, Second, seconds

LATENCY: Final = (
    "half a round trip, (answer − question) / 2 of one participant's clock, as ddsperf prints it: whether both "
    "directions take equally long is not known"
)
ROUND_TRIP: Final = (
    "round trip, from just before the write call until the answer is taken, by one clock: ddsperf prints half of it, "
    "which is doubled here"
)
EACH_SECOND: Final = (
    "percentiles are of each second, shown as the least and the greatest: percentiles of all seconds cannot be "
    "computed from them"
)
FIRST_SECOND: Final = "the first one of each peer, during discovery"
_STAMPED: Final = re.compile(r"^\[(\d{1,10})\] (?:(\d{1,9}\.\d{3}) )?")
_RECEIVED: Final = re.compile(r"^\[\d+\] \d+\.\d{3}  ?size \d+ total \d+ lost \d+ delta \d+ ")
"""A subscriber's rates, which are no latencies."""
_SELF: Final = re.compile(r"^\[\d+\] participant \S+: new \(self\)\s*$")


def recognises(head: bytes, path: Path) -> float:
    """Sure of a line of figures."""
    text = head.decode("utf-8", "replace")
    if re.search(r"^\[\d+\] \d+\.\d{3} .* size \d+ mean \S+us min \S+us 50% ", text, re.MULTILINE):
        return 1.0
    begun = re.search(r"^\[\d+\] participant \S+: new|^\[\d+\] \d+\.\d{3}  ?size \d+ total ", text, re.MULTILINE)
    return 0.7 if begun else 0.0


def runs(lines: Sequence[str]) -> list[list[int]]:
    """The lines of each run that has figures: those of one process, whose number stands in every line.

    One number is two processes' where it names itself again, or its time goes back. Lines before the first process, and
    of processes without figures, as of a pong in the same terminal, are the first run's.
    """
    found: list[list[int]] = []
    current: dict[str, list[int]] = {}
    last_s: dict[str, float] = {}
    others: list[int] = []
    for place, raw in enumerate(lines):
        line = COLOURS.sub("", raw)
        match = _STAMPED.match(line)
        if match is None:
            others.append(place)
            continue
        process, at_s = match[1], float(match[2] or last_s.get(match[1], 0.0))
        if process not in current or at_s < last_s[process] or (_SELF.match(line) and last_s[process] > 0):
            current[process] = []
            found.append(current[process])
        last_s[process] = at_s
        current[process].append(place)
    figured = [run for run in found if seconds(COLOURS.sub("", lines[place]) for place in run)]
    if len(figured) < 2:
        return [list(range(len(lines)))]
    rest = set(range(len(lines))).difference(*figured)
    return [sorted({*figured[0], *rest}), *figured[1:]]


def read(paths: Sequence[Path], given: Given) -> ReadFiles:
    """One stream a peer and kind. UsageError: no second but the first of each, or no latencies at all."""
    (path,) = paths
    lines = lines_of(path)
    found: dict[tuple[str, str, int], list[Second]] = {}
    for second in seconds(lines):
        found.setdefault((second.peer, second.kind, second.size), []).append(second)
    odd = sum(bool(line.strip()) and not _STAMPED.match(line) for line in lines)
    figures, first = [], 0
    for (peer, kind, size), told in found.items():
        # Whenever a peer comes, its first second is that in which it is discovered.
        kept = [_interval(one) for one in told[1:]]
        first += 1
        if kept:
            figures.append(_figures(peer, kind, size, kept, len(found)))
    if not found and any(map(_RECEIVED.match, lines)):
        raise UsageError(
            "a subscriber's output, which has rates and no latencies",
            where=str(path),
            remedy="import what ddsperf ping printed, or measure one way with ddsperf -l sub",
        )
    if not figures:
        raise nothing_in(
            path, "second of figures after the first", "run ddsperf ping for longer: ddsperf -D 10 ping listener"
        )
    left_out = [LeftOut("seconds", first, FIRST_SECOND)] if first else []
    left_out += [LeftOut("lines", odd, "not ddsperf's")] if odd else []
    return ReadFiles(
        "ddsperf",
        "version not in the file",
        LATENCY,
        figures=tuple(figures),
        notes=_notes(figures),
        left_out=tuple(left_out),
    )


def _interval(second: Second) -> ToolInterval:
    """The second, as intervals are kept."""
    return ToolInterval(
        start_ns=second.start_ns,
        n=second.n,
        min=second.min,
        mean=second.mean,
        max=second.max,
        p50=second.p50,
        p90=second.p90,
        p99=second.p99,
    )


def _figures(peer: str, kind: str, size: int, kept: list[ToolInterval], streams: int) -> Figures:
    """What holds for all seconds together: counts add, extremes are extremes, means weigh by count; no percentile."""
    n = sum(one.n for one in kept)
    heard = kind == "sublat"
    return Figures(
        stream=f"{peer}-{size}" if streams > 1 else peer,
        metric="sent_latency_user" if heard else "half_round_trip",
        kept="intervals",
        between=("submit", "rx_user") if heard else ("", "(answered − submit) / 2"),
        resolution_ns=1,
        n=n,
        min=min(one.min for one in kept),
        mean=sum(one.mean * one.n for one in kept) / n if n else None,
        max=max(one.max for one in kept),
        intervals=tuple(kept),
        two_clocks=heard,
        talker=peer if heard else "here",
        listener="here" if heard else peer,
        described=f"{peer} · size {size} · {counted(len(kept), 'second')}",
    )


def round_trips(told: Sequence[Second], stream: str, talker: str, listener: str, version: str) -> ReadFiles:
    """The whole round trips of the seconds that one ping reported, twice what it printed. stream: what they are called.

    talker, listener: who asked, who answered.
    """
    whole = [_doubled(_interval(second)) for second in told]
    figures = replace(
        _figures(stream, "ping", told[0].size, whole, 1),
        metric="round_trip",
        between=("submit", "answered"),
        resolution_ns=2,
        talker=talker,
        listener=listener,
    )
    return ReadFiles(
        "ddsperf",
        version,
        ROUND_TRIP,
        figures=(figures,),
        left_out=(LeftOut("seconds", 1, FIRST_SECOND),),
        notes=(EACH_SECOND, *_many(figures)),
    )


def _doubled(one: ToolInterval) -> ToolInterval:
    double = {name: 2 * getattr(one, name) for name in ("min", "mean", "max", "p50", "p90", "p99")}
    return replace(one, **double)


def _notes(figures: Sequence[Figures]) -> tuple[str, ...]:
    notes = [EACH_SECOND]
    notes += _many(*figures)
    notes.append("without a rate the next question waits for the answer: a stall causes fewer questions, not late ones")
    return tuple(notes)


def _many(*figures: Figures) -> list[str]:
    over = sum(one.n > SAMPLES for stream in figures for one in stream.intervals)
    told = f"in {counted(over, 'second')} with over {SAMPLES} samples percentiles are of the first {SAMPLES} only"
    return [told] if over else []


_MARK: Final = r"\[\d+\] participant \S+: new|size \d+ mean \S+us min \S+us 50% "

FORMAT: Final = Format("ddsperf", "ddsperf's output, second by second", 1, recognises, read, runs, _MARK)
