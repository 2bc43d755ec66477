"""Delay variation as RFC 5481 has it: above the least delay (PDV), and from one packet to the next (IPDV)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from latlab.report import rows
from latlab.report.places import cell_title
from latlab.report.text import microseconds, whole
from latlab.result.types import Result

TITLE: Final = "delay variation (RFC 5481), µs"
NOTE: Final = (
    "PDV: each packet's delay minus the smallest of all; IPDV: minus that of the previous packet, undefined if one of "
    "the two has none. A constant offset between two clocks affects neither."
)
FORMS: Final[Mapping[str, str]] = {"pdv": "PDV", "ipdv": "IPDV"}
_TIMES: Final = (
    *(("min", "min"), ("p0_1", "p0.1"), ("p1", "p1"), ("p50", "p50"), ("p90", "p90"), ("p99", "p99")),
    *(("p99_9", "p99.9"), ("max", "max"), ("stddev", "stddev")),
)
HEADINGS: Final = ("cell", "repeat", "stream", "of", "n", "undefined", *(heading for _, heading in _TIMES))
NAMES: Final = 4
"""The leading columns, which say whose figures they are."""
NUMBERS: Final = range(NAMES, len(HEADINGS))


def variation_rows(result: Result, metric: str) -> tuple[tuple[str, ...], ...]:
    """Rows of a metric, as many texts as HEADINGS, times in µs: PDV, then IPDV, of each cell, repetition and stream.

    Blank is what n cannot support, and low percentiles of PDV, which has one tail.
    """
    return tuple(_rows(result, metric))


def _rows(result: Result, metric: str) -> Iterator[tuple[str, ...]]:
    for cell in rows.ordered_cells(result):
        for stream, block in cell.streams.items():
            measured = block.metrics.get(metric)
            found = measured.variation if measured else None
            for name, form in FORMS.items() if found else ():
                figures = getattr(found, name)
                whose = (cell_title(cell), str(cell.repeat), stream, form)
                counts = (whole(figures.n), whole(getattr(figures, "undefined", None)))
                yield (*whose, *counts, *(microseconds(getattr(figures, key, None)) for key, _ in _TIMES))
