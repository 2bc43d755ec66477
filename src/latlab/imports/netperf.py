"""netperf's round trips: the NAME=VALUE lines that its omni test prints with `-k`.

netperf 2.5 to 2.7, src/nettest_omni.c (netperf_output_name, print_omni) and src/netlib.c (the histogram).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import floor, log10
from typing import Final

from latlab.imports.base import Figures, ReadFiles
from latlab.model.units import MICROSECOND_NS

LATENCY: Final = (
    "round trip, from just before the client's send call until its receive call has the response; one transaction at a "
    "time"
)
COARSE: Final = (
    "percentiles are of netperf's histogram, whose bins are 1 µs wide below 10 µs, and above as wide as a tenth of the "
    "decade they are in, between whose ends netperf interpolates"
)
_CLOSED: Final = "a closed loop: a stall delays what follows and counts once"
_PACED: Final = "one transaction each period, counted from its send call: a stall counts once"
_LINE: Final = re.compile(r"^([A-Z][A-Z0-9_]*)=(.*)$")
_NUMBER: Final = re.compile(r"^-?\d{1,15}(\.\d{1,9})?$")
_NEEDED: Final = ("ELAPSED_TIME", "TRANSACTION_RATE", "MIN_LATENCY", "MEAN_LATENCY", "MAX_LATENCY", "STDDEV_LATENCY")
_PERCENTILES: Final = ("P50_LATENCY", "P90_LATENCY", "P99_LATENCY")


def read_round_trips(
    printed: str, stream: str, talker: str, listener: str, version: str, paced: bool = False
) -> ReadFiles:
    """The round trips of one run, of which netperf kept sums and a histogram. stream: what they are called.

    talker, listener: who asked, who answered. paced: one each period, not a closed
    loop. ValueError: a figure is not there, or is not a number: what and where.
    """
    said = {match[1]: match[2].strip() for line in printed.splitlines() if (match := _LINE.match(line.strip()))}
    lacking = [name for name in (*_NEEDED, *_PERCENTILES) if not _NUMBER.match(said.get(name, ""))]
    if lacking:
        raise ValueError(f"no number for {', '.join(lacking)} in what it printed: {printed.strip()[-200:]!r}")
    n = round(float(said["ELAPSED_TIME"]) * float(said["TRANSACTION_RATE"]))
    if n < 1:
        raise ValueError("it completed no transaction: check that it reaches the server, including its data port")
    figures = Figures(
        stream,
        "round_trip",
        "summary",
        ("submit", "answered"),
        resolution_ns=max(_bin_ns(float(said[name])) for name in _PERCENTILES),
        n=n,
        min=_ns(said, "MIN_LATENCY"),
        mean=float(_ns(said, "MEAN_LATENCY")),
        max=_ns(said, "MAX_LATENCY"),
        stddev=_ns(said, "STDDEV_LATENCY"),
        binned=True,
        percentiles={name[:3].lower(): _ns(said, name) for name in _PERCENTILES},
        talker=talker,
        listener=listener,
    )
    return ReadFiles(
        "netperf",
        version,
        LATENCY,
        figures=(figures,),
        notes=(COARSE, _PACED if paced else _CLOSED),
        facts={name: said[name] for name in said},
    )


def _bin_ns(value_us: float) -> int:
    """How wide the bin is that this value is in, ns: 1 µs, or a tenth of its decade."""
    decade: int = 10 ** max(0, floor(log10(max(1.0, value_us))))
    return MICROSECOND_NS * decade


def _ns(said: Mapping[str, str], name: str) -> int:
    return round(float(said[name]) * MICROSECOND_NS)
