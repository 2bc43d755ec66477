"""RTC-Testbench's histogram file: round trips of each traffic class, by microseconds.

RTC-Testbench 5.2 to 5.5, src/hist.c (histogram_write, histogram_update).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from latlab.analysis.bins import Tally, bin_of_extremes
from latlab.imports.base import (
    Figures,
    Format,
    Given,
    Imported,
    Problem,
    cut_short,
    from_each,
    lines_of,
    nothing_in,
    unknown_version,
)
from latlab.imports.rtc_testbench import LATENCY
from latlab.recordings.cell import LeftOut

_US: Final = 1_000
_VERSION: Final = re.compile(r"^Testbench: Version '([^']{0,64})'")
_CLASSES: Final = re.compile(r"^Testbench RTT Histogram:((?: [^\s]{1,64}){1,64})\s*$")
_BIN: Final = re.compile(r"^(\d{8,15}): (\d{8,15}(?: +\d{8,15}){0,63}) *$")
_BEYOND: Final = re.compile(r"^(Overflow|Underflow): (\d{8,15}(?: +\d{8,15}){0,63}) *$")


def recognises(head: bytes, path: Path) -> float:
    """Sure of its heading."""
    return 1.0 if re.search(rb"^Testbench RTT Histogram:", head, re.MULTILINE) else 0.0


def runs(lines: Sequence[str]) -> list[list[int]]:
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


def read(paths: Sequence[Path], given: Given) -> Imported:
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
        one for place, name in enumerate(classes) if (one := _figures(name, table[:, [0, place + 1]], beyond, place))
    ]
    if not figures:
        raise nothing_in(path, "round trip", "the reference writes them, with StatsHistogramEnabled: true")
    whole = len(beyond.get("Underflow", ())) == len(classes)
    zeros = int(table[table[:, 0] == 0, 1:].sum()) if len(table) else 0
    return Imported(
        "RTC-Testbench",
        version or "version not in the file",
        LATENCY,
        figures=tuple(figures),
        notes=(f"{zeros} round trips of 0 µs are frames whose sending time was lost",) if zeros else (),
        left_out=(LeftOut("lines", odd, "not of a histogram, or truncated"),) if odd else (),
        problems=(*_whole(path, whole, len(table)), *_ordered(path, ordered)),
    )


def _whole(path: Path, whole: bool, bins: int) -> list[Problem]:
    return [] if whole else [cut_short(path.name, f"{bins} bins, without the lines that end them")]


def _ordered(path: Path, ordered: bool) -> list[Problem]:
    """It prints its bins ascending, each once, and no sum of them."""
    if ordered:
        return []
    return [
        Problem(
            "rows-whole",
            "rows are out of order, or appear twice",
            "untrusted",
            "bins that ascend, each once",
            "bins that do not",
            "copy the file again, complete and unfiltered",
            path.name,
        )
    ]


def _figures(name: str, rows: np.ndarray, beyond: dict[str, list[int]], place: int) -> Figures | None:
    """One class; None where it has no round trip. A bin holds what begins in it: values are cut to microseconds."""
    below, above = (row[place] if place < len(row := beyond.get(key, [])) else 0 for key in ("Underflow", "Overflow"))
    held = rows[rows[:, 1] > 0]
    tally = Tally(held[:, 0] * _US, (held[:, 0] + 1) * _US, np.ascontiguousarray(held[:, 1]), below, above)
    if not tally.n:
        return None
    lowest, highest = bin_of_extremes(tally)
    return Figures(
        stream=name,
        metric="round_trip",
        kept="histogram",
        between=("sent", "answered"),
        resolution_ns=_US,
        n=tally.n,
        min=lowest[0] if lowest else None,
        max=highest[0] if highest else None,
        tally=tally,
        talker="reference",
        listener="reference",
        described=f"{name} · reference → mirror → reference · {below} below and {above} beyond the histogram",
    )


FORMAT: Final = Format(
    "rtc-histogram",
    "RTC-Testbench's histogram file (StatsHistogramFile)",
    1,
    recognises,
    read,
    runs,
    "Testbench RTT Histogram:",
)
