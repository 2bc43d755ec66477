"""Samples as they travel inside the page: small, exact, and decoded by the browser alone."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

import numpy as np
import polars as pl
from markupsafe import Markup
from numpy.typing import NDArray

from latlab.analysis.bins import beginnings, binned, ccdf, histogram
from latlab.report.legend import Key
from latlab.report.marks import Payload
from latlab.report.view import ValueTrace, View

PAGE_BYTES: Final = 2_900_000
"""What a page takes at most, where all that it has next to its data leaves room for that in fewest bins."""

WHOLE_PACKETS: Final = 20_000
"""A series of so many packets at most is drawn whole, whatever else the page has."""
WHOLE_BYTES: Final = 9_000_000
"""What such series take at most, so that a browser opens the page; further metrics are fitted as longer series are."""

_BIN_BYTES: Final = 6
_SAMPLE_BYTES: Final = 3
_LEAST_SAMPLE_BYTES: Final = 1
_TRACE_BYTES: Final = 220
"""What a bin takes; what a sample takes usually; what it takes at least, so that it is not tried where there is no
room for it; and what a trace's bins or samples take as JSON next to the numbers themselves.
"""
MOST_BINS: Final = 4_000
GOOD_BINS: Final = 500
FEWEST_BINS: Final = 40
"""Of a trace: bins before any samples as long as there is room for so many; and so many in any case. Few are an honest
series still: each has the least and the greatest of its packets.
"""
_BINS_SHARE: Final = 0.6
"""Of the room for data, what all traces' bins have where that is more; the rest is for samples."""
_TRIES: Final = 6

CCDF_POINTS: Final = 400
"""As many as a chart of some 900 × 300 pixels can show, the tail whole."""

ORDER: Final = ("latency", "delivery", "latency_user", "arrival_offset", "lateness", "path")
"""The metrics whose samples come first into the page, each after those it is a sum of; then the others."""

SUMS: Final[Mapping[str, tuple[tuple[str, int], ...]]] = {
    "latency_user": (("latency", 1), ("delivery", 1)),
    "arrival_offset": (("latency", 1),),
    "path": (("latency", 1), ("lateness", -1)),
}
"""What a metric's values are, but for a constant, where all its timestamps are those of the others: (metric, sign)."""

Held = Mapping[str, Mapping[str, ValueTrace]]
"""The samples that the page has of a stream: {metric: {cell: trace}}."""


def payload_order(metric: str) -> int:
    """The metric's place in ORDER; the others behind."""
    return ORDER.index(metric) if metric in ORDER else len(ORDER)


@dataclass(frozen=True)
class _Metric:
    """One metric of one stream until the room for it is known.

    head, heads: what the page has of it, and of each of its traces, in any case. shown: with its samples, or None where
    there is no room for them whatever else the page has: its traces are binned then, in MOST_BINS. is_whole: the page
    has them whatever the room.
    """

    stream: str
    metric: str
    head: Payload
    heads: list[Payload]
    shown: View | None
    is_whole: bool
    binned: list[pl.DataFrame]
    span_ns: tuple[int, int]


class Payloads:
    """The page's data, metric by metric, as much of it packet by packet as there is room for.

    What is not there packet by packet comes as min, max and count in fixed bins; those of all traces are taken off the
    room first. What the page has room for is known last, when everything else on it is known.

    whole_bytes: what series of at most WHOLE_PACKETS may take beyond any room.
    """

    def __init__(self, whole_bytes: int = 0) -> None:
        self._metrics: list[_Metric] = []
        self._spare = PAGE_BYTES
        self._whole_spare = whole_bytes

    def add(self, shown: View) -> None:
        """One metric of one stream, all of its cells. Metrics are added in ORDER."""
        counts = [histogram(trace.value_ns, shown.edges_ns).count for trace in shown.traces]
        is_whole = self._is_whole(shown)
        kept = is_whole or self._may_be_whole(shown)
        self._metrics.append(
            _Metric(
                shown.stream,
                shown.metric,
                _head(shown, counts),
                [_trace_payload(trace, count) for trace, count in zip(shown.traces, counts, strict=True)],
                shown if kept else None,
                is_whole,
                [] if kept else [_binned(shown, trace) for trace in shown.traces],
                shown.span_ns,
            )
        )

    def fitting(self, room: int, order: Sequence[tuple[str, str]]) -> Markup:
        """For report.js, metrics as (stream, metric) in this order: as JSON of at most so many bytes, as long as what
        comes in any case and the fewest bins of every trace are not more.
        """
        aim = room
        for _ in range(_TRIES):
            filled = self._filled(aim)
            found = embedded([filled[one] for one in order])
            excess = len(found.encode()) - room
            if excess <= 0:
                break
            aim -= excess
        return found

    def _is_whole(self, shown: View) -> bool:
        """Whether its series are short enough to be there in any case, next to those that were added before."""
        counts = [len(trace.value_ns) for trace in shown.traces]
        if max(counts, default=0) > WHOLE_PACKETS:
            return False
        whole = {one.metric for one in self._metrics if one.stream == shown.stream and one.is_whole}
        is_sum = shown.metric in SUMS and all(name in whole for name, _ in SUMS[shown.metric])
        needed = 0 if is_sum else sum(counts) * _SAMPLE_BYTES
        if needed > self._whole_spare:
            return False
        self._whole_spare -= needed
        return True

    def _may_be_whole(self, shown: View) -> bool:
        """Whether a page without anything else could have its samples, next to those that were added before."""
        whole = {one.metric for one in self._metrics if one.stream == shown.stream and one.shown}
        if shown.metric in SUMS and all(name in whole for name, _ in SUMS[shown.metric]):
            return True
        least = sum(len(trace.value_ns) for trace in shown.traces) * _LEAST_SAMPLE_BYTES
        if least > self._spare:
            return False
        self._spare -= least
        return True

    def _filled(self, room: int) -> dict[tuple[str, str], Payload]:
        """{(stream, metric): its payload}: what so many bytes have room for, by estimate of what bins take."""
        traces = sum(len(one.heads) for one in self._metrics)
        spare = room - sum(len(embedded((one.head, one.heads)).encode()) for one in self._metrics)
        spare -= traces * _TRACE_BYTES
        bins = _bins_of_each(spare // (_BIN_BYTES * max(traces, 1)))
        spare -= traces * bins * _BIN_BYTES
        held: dict[str, dict[str, dict[str, ValueTrace]]] = {}
        found = {}
        for one in self._metrics:
            series, spare = _series(one, held.setdefault(one.stream, {}), bins, spare)
            traced = [head | drawn for head, drawn in zip(one.heads, series, strict=True)]
            found[one.stream, one.metric] = one.head | {"traces": traced}
        return found


def _bins_of_each(most: int) -> int:
    """How many bins each trace has, where there is room for so many at most."""
    wanted = min(max(int(_BINS_SHARE * most), min(GOOD_BINS, most)), MOST_BINS)
    return max(wanted, FEWEST_BINS)


def _series(one: _Metric, held: dict[str, dict[str, ValueTrace]], bins: int, spare: int) -> tuple[list[Payload], int]:
    """Each trace's samples, or its bins where there is no room for those of all; and the room that is left."""
    if one.shown is None:
        return [{"bins": bins_of(one.span_ns, table, bins)} for table in one.binned], spare
    reserved = len(one.shown.traces) * bins * _BIN_BYTES
    binned = sum(min(len(trace.value_ns), bins) for trace in one.shown.traces) * _BIN_BYTES
    samples = _within(one.shown, held, None if one.is_whole else max(spare + reserved, binned))
    if samples is None:
        tables = [_binned(one.shown, trace) for trace in one.shown.traces]
        return [{"bins": bins_of(one.span_ns, table, bins)} for table in tables], spare + reserved - binned
    held[one.metric] = {_cell(trace): trace for trace in one.shown.traces}
    drawn = [{"samples": samples[_cell(trace)]} for trace in one.shown.traces]
    return drawn, spare + reserved - sum(map(_size, samples.values()))


def _head(shown: View, counts: Sequence[NDArray[np.int64]]) -> Payload:
    """What all traces share."""
    axis = shown.axis
    return {
        "stream": shown.stream,
        "metric": shown.metric,
        "label": shown.label,
        "thing": shown.thing,
        "axis": {
            "kind": axis.kind,
            "low": axis.low_ns,
            "high": axis.high_ns,
            "linear": axis.linear_ns,
            "told": axis.told(),
            "ticks": axis.round_values_ns() if axis.kind == "asinh" else [],
        },
        "span": list(shown.span_ns),
        "edges": shown.edges_ns.tolist(),
        "largest": max((int(count.max(initial=0)) for count in counts), default=0),
        "uncertainty": shown.uncertainty,
        "legend": [_key_payload(key) for key in shown.legend],
    }


def _within(shown: View, held: Held, room: int | None) -> dict[str, Payload] | None:
    """{cell: its samples}; None where they take more bytes than the room; room None has no end."""
    found: dict[str, Payload] = {}
    for trace in shown.traces:
        own = _summed(shown.metric, trace, held)
        if own is None and room is not None and len(trace.value_ns) * _LEAST_SAMPLE_BYTES > room:
            return None
        found[_cell(trace)] = own = (own or _packed_samples(trace)) | _times(trace, "time", trace.sequence)
        if room is not None:
            room -= _size(own)
    return found if room is None or room >= 0 else None


def _packed_samples(trace: ValueTrace) -> Payload:
    return {"sequence": packed(trace.sequence, delta=True), "value": packed(trace.value_ns, delta=False)}


def _cell(trace: ValueTrace) -> str:
    return f"{trace.slug}/r{trace.repeat}"


def _size(samples: Payload) -> int:
    return sum(len(part["data"]) for part in samples.values() if isinstance(part, dict))


def _summed(metric: str, trace: ValueTrace, held: Held) -> Payload | None:
    """The samples as what they are added up from, exactly, of those that the page has; None where they are not.

    {"sum": [[metric, sign], …], "plus": ns, "sequence"}; `sequence` is null where it is that of the first metric.
    """
    parts = [(held.get(name, {}).get(_cell(trace)), sign) for name, sign in SUMS.get(metric, ())]
    total = np.zeros(len(trace.sequence), np.int64)
    for source, sign in parts:
        if source is None or len(source.sequence) == 0 or len(total) == 0:
            return None
        place = np.minimum(np.searchsorted(source.sequence, trace.sequence), len(source.sequence) - 1)
        if not np.array_equal(source.sequence[place], trace.sequence) or _beyond_doubles(source.value_ns):
            return None
        total += sign * source.value_ns[place]
    if not parts or _beyond_doubles(trace.value_ns):
        return None
    plus = int(trace.value_ns[0] - total[0])
    if not np.array_equal(total + plus, trace.value_ns):
        return None
    first = parts[0][0]
    same = first is not None and np.array_equal(first.sequence, trace.sequence)
    sequence = None if same else packed(trace.sequence, delta=True)
    return {"sum": [list(one) for one in SUMS[metric]], "plus": plus, "sequence": sequence}


def _beyond_doubles(value_ns: NDArray[np.int64]) -> bool:
    """Whether sums of such values may not be exact in the doubles of a browser."""
    return len(value_ns) > 0 and bool(max(abs(int(value_ns.min())), abs(int(value_ns.max()))) >= 2**50)


def packed(values: NDArray[np.int64], *, delta: bool) -> Payload:
    """Integers as {"n", "bytes", "delta", "data"}: base64 of raw DEFLATE (RFC 1951) of their byte planes.

    delta: differences from the value before (the first from 0). bytes: 4, or 8 where 32 bits do not
    hold them. Planes, all lowest bytes first, compress better than whole integers and as fast.
    """
    stored = np.diff(values, prepend=np.int64(0)) if delta else values
    small = len(stored) == 0 or (stored.min() >= -(2**31) and stored.max() < 2**31)
    width = 4 if small else 8
    planes = np.ascontiguousarray(stored.astype(f"<i{width}")).view(np.uint8).reshape(-1, width).T
    return {"n": len(stored), "bytes": width, "delta": delta, "data": deflated(planes.tobytes())}


def _key_payload(key: Key) -> Payload:
    """One dimension of the legend; each of its entries names the cells whose line it shows or hides."""
    return {
        "heading": key.heading,
        "entries": [
            {
                "text": one.text,
                "colour": one.colour,
                "dash": list(one.dash),
                "marker": one.marker,
                "cells": sorted(one.cells),
            }
            for one in key.entries
        ],
    }


def _trace_payload(trace: ValueTrace, counts: NDArray[np.int64]) -> Payload:
    tail = ccdf(trace.value_ns, CCDF_POINTS)
    return {
        "cell": _cell(trace),
        "title": trace.name,
        "figures": trace.figures,
        "colour": trace.look.colour,
        "dash": list(trace.look.dash),
        "marker": trace.look.marker,
        "period": trace.period_ns,
        "offset": trace.offset_ns,
        "n": len(trace.value_ns),
        "lost": packed(trace.lost_sequence, delta=True),
        **_times(trace, "lostTime", trace.lost_sequence),
        "histogram": packed(counts, delta=False),
        "ccdf": {
            "value": packed(tail.value_ns, delta=True),
            "count": packed(np.rint(tail.share * len(trace.value_ns)).astype(np.int64), delta=True),
        },
    }


def _times(trace: ValueTrace, name: str, sequence: NDArray[np.int64]) -> Payload:
    """{name: launch times} of what has none by period and sequence."""
    return {} if trace.launch_ns is None else {name: packed(trace.at_ns(sequence), delta=True)}


def _binned(shown: View, trace: ValueTrace) -> pl.DataFrame:
    """MOST_BINS equal parts of the common time span."""
    return binned(trace.at_ns(trace.sequence), trace.value_ns, MOST_BINS, span_tai_ns=shown.span_ns)


def bins_of(span_ns: tuple[int, int], table: pl.DataFrame, bins: int) -> Payload:
    """min, max and count of each filled one of at most so many parts, all but the last equal: neighbours together."""
    together = ceil(MOST_BINS / bins)
    length = (span_ns[1] - span_ns[0] + 1) * together / MOST_BINS
    at, least, most, count = (table[name].to_numpy() for name in ("bin", "min_ns", "max_ns", "count"))
    # Where each filled part begins among the filled bins.
    first = np.flatnonzero(np.diff(at // together, prepend=-1))
    return {
        "length": length,
        "begin": packed(beginnings(*span_ns, MOST_BINS)[at[first] // together * together], delta=True),
        "min": packed(_of_parts(np.minimum, least, first), delta=False),
        "max": packed(_of_parts(np.maximum, most, first), delta=False),
        "count": packed(_of_parts(np.add, count, first), delta=False),
    }


def _of_parts(what: np.ufunc, values: NDArray[np.int64], first: NDArray[np.int64]) -> NDArray[np.int64]:
    """What comes of the values of each part, where parts begin at `first`; `reduceat` takes no empty ones."""
    found: NDArray[np.int64] = what.reduceat(values, first) if len(first) else values[:0]
    return found


# Parts of the page for reference, as facts and steps: packed together; the browser unpacks one when it is opened.


FALLBACK = Markup(
    '<p class="quiet">This part is unpacked by JavaScript. The same is in the run\'s folder: facts-before.json, '
    "facts-after.json and cell.json of each cell, and plan.txt.</p>"
)
"""What stands in the place of a part until it is unpacked."""


def deflated(data: bytes, level: int = 6) -> str:
    """Raw DEFLATE (RFC 1951) as base64: what `inflated` of decode.js takes."""
    squeezer = zlib.compressobj(level=level, wbits=-15)
    return base64.b64encode(squeezer.compress(data) + squeezer.flush()).decode("ascii")


class PackedParts:
    """Parts of one page, in their order."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def keep(self, part: Markup, fallback: Markup = FALLBACK) -> Markup:
        """What stands on the page instead of this part: its number, and the fallback."""
        self._parts.append(str(part))
        return Markup('<div data-part="{}">{}</div>').format(len(self._parts) - 1, fallback)

    def data(self) -> Markup:
        """All parts for report.js: a JSON list of HTML, deflated as one, so that what cells share is there once."""
        return Markup(deflated(json.dumps(self._parts, ensure_ascii=False).encode(), level=9))


# Documents inside the page


def embedded(document: object) -> Markup:
    """A document as JSON that can stand inside a script element, whatever its texts contain.

    "<" is written as an escape, so no text can end the element or open a comment in it (HTML standard,
    "Restrictions for contents of script elements").
    """
    return Markup(json.dumps(document, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c"))
