"""How numbers are written for people: microseconds, counts, and blanks where there is nothing."""

from __future__ import annotations

from decimal import Decimal
from math import ceil

from latlab.analysis.words import duration, minus
from latlab.model.units import MICROSECOND_NS


def microseconds(ns: float | None) -> str:
    """A duration in ns as microseconds with one decimal; blank where there is none."""
    if ns is None:
        return ""
    text = f"{ns / MICROSECOND_NS:.1f}"
    return "0.0" if text == "-0.0" else minus(text)


def exact(ns: int) -> str:
    """A duration in ns as microseconds, exact and as short as can be: 101000 is "101", 67 is "0.067"."""
    return minus(f"{Decimal(ns).scaleb(-3).normalize():f}")


def bound(ns: int | None) -> str:
    """What a figure may be off, ±, as microseconds with one decimal, never rounded down; "unknown" without a bound."""
    return "unknown" if ns is None else microseconds(ceil(ns / 100) * 100)


def whole(value: float | None) -> str:
    """A count as digits; blank where there is none."""
    return "" if value is None else f"{value:.0f}"


def plain(value: float) -> str:
    """A number of up to six significant digits as on an axis, never as a power of ten: 0.05, 100000, 1000000."""
    return minus(f"{Decimal(f'{value:.6g}'):f}")


def short_count(count: float) -> str:
    """A power of ten in little room, as on an axis: 100, 10k, 1M."""
    if count >= 1e6:
        return f"{count / 1e6:g}M"
    return f"{count / 1e3:g}k" if count >= 1e4 else f"{count:g}"


def limit(path: str, value: float | None) -> str:
    """A limit or what was found, as one would write it: "500 µs", or digits where the path counts packets."""
    if value is None:
        return ""
    counts = "counts" in path.split(".")[1:3]  # of a leg of a probe it is the third part
    return f"{value:.0f}" if counts else duration(value, digits=6)
