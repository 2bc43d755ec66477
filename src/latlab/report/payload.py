"""Samples as they travel inside the page: small, exact, and decoded by the browser alone."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.histogram import ccdf, histogram
from latlab.analysis.series import binned
from latlab.report.legend import Key
from latlab.report.view import Trace, View

SAMPLE_BUDGET = 2_000_000
COARSE_BINS = 4_000


def view_payload(shown: View, *, raw: bool) -> dict[str, Any]:
    """One metric of one stream for report.js. raw: every sample; else min, max and count in fixed bins."""
    axis = shown.axis
    return {
        "stream": shown.stream,
        "metric": shown.metric,
        "label": shown.label,
        "axis": {"kind": axis.kind, "low": axis.low_ns, "high": axis.high_ns, "linear": axis.linear_ns},
        "span": list(shown.span_ns),
        "edges": shown.edges_ns.tolist(),
        "uncertainty": shown.uncertainty,
        "legend": [_key_payload(key) for key in shown.legend],
        "traces": [_trace_payload(shown, trace, raw) for trace in shown.traces],
    }


def packed(values: NDArray[np.int64], *, delta: bool) -> dict[str, Any]:
    """Integers as {"n", "bytes", "delta", "data"}: base64 of raw DEFLATE (RFC 1951) of their byte planes.

    delta: differences from the value before (the first from 0). bytes: 4, or 8 where 32 bits do not
    hold them. Planes, all lowest bytes first, compress better than whole integers and as fast.
    """
    stored = np.diff(values, prepend=np.int64(0)) if delta else values
    small = len(stored) == 0 or (stored.min() >= -(2**31) and stored.max() < 2**31)
    width = 4 if small else 8
    planes = np.ascontiguousarray(stored.astype(f"<i{width}")).view(np.uint8).reshape(-1, width).T
    squeezer = zlib.compressobj(level=6, wbits=-15)
    data = squeezer.compress(planes.tobytes()) + squeezer.flush()
    return {"n": len(stored), "bytes": width, "delta": delta, "data": base64.b64encode(data).decode("ascii")}


def _key_payload(key: Key) -> dict[str, Any]:
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


def _trace_payload(shown: View, trace: Trace, raw: bool) -> dict[str, Any]:
    tail = ccdf(trace.value_ns)
    payload: dict[str, Any] = {
        "cell": f"{trace.slug}/r{trace.repeat}",
        "title": trace.name,
        "figures": trace.figures,
        "colour": trace.look.colour,
        "dash": list(trace.look.dash),
        "marker": trace.look.marker,
        "period": trace.period_ns,
        "offset": trace.offset_ns,
        "n": len(trace.value_ns),
        "lost": packed(trace.lost_sequence, delta=True),
        "histogram": packed(histogram(trace.value_ns, shown.edges_ns).count, delta=False),
        "ccdf": {
            "value": packed(tail.value_ns, delta=True),
            "count": packed(np.rint(tail.share * len(trace.value_ns)).astype(np.int64), delta=True),
        },
    }
    if raw:
        payload["samples"] = {
            "sequence": packed(trace.sequence, delta=True),
            "value": packed(trace.value_ns, delta=False),
        }
    else:
        payload["bins"] = _bins(shown, trace)
    return payload


def _bins(shown: View, trace: Trace) -> dict[str, Any]:
    """min, max and count of each filled one of COARSE_BINS equal parts of the common time span."""
    parts = binned(trace.at_ns(trace.sequence), trace.value_ns, COARSE_BINS, span_tai_ns=shown.span_ns)
    filled = parts.drop_nulls()
    return {
        "length": (shown.span_ns[1] - shown.span_ns[0] + 1) / COARSE_BINS,
        "begin": packed(filled["at_tai_ns"].to_numpy(), delta=True),
        "min": packed(filled["min_ns"].to_numpy(), delta=False),
        "max": packed(filled["max_ns"].to_numpy(), delta=False),
        "count": packed(filled["count"].to_numpy(), delta=False),
    }
