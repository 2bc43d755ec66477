"""Units of time, sizes, rates and shares: each is declared once, as a multiple of the unit that figures are kept in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MICROSECOND_NS: Final = 1_000
MILLISECOND_NS: Final = 1_000_000
SECOND_NS: Final = 1_000_000_000
MINUTE_NS: Final = 60 * SECOND_NS
HOUR_NS: Final = 60 * MINUTE_NS


def in_us(ns: float) -> str:
    """A duration for people, with six digits at most: "12.5 µs"."""
    return f"{ns / MICROSECOND_NS:g} µs"


PPB: Final = 1e-9
"""A part in a billion, the unit of clocks' rates: so many ns a second."""

TIMES: Final[Mapping[str, int]] = {
    "ns": 1,
    "us": MICROSECOND_NS,
    "µs": MICROSECOND_NS,  # micro sign
    "μs": MICROSECOND_NS,  # Greek mu
    "ms": MILLISECOND_NS,
    "s": SECOND_NS,
    "min": MINUTE_NS,
    "h": HOUR_NS,
}
"""{unit as it is read: ns}."""
TIMES_SHOWN: Final = tuple((TIMES[unit], unit) for unit in ("s", "ms", "µs", "ns"))
"""(ns, unit) of those that durations are written in for people, the largest first."""

SIZES: Final[Mapping[str, int]] = {
    "B": 1,
    "kB": 10**3,
    "KiB": 2**10,
    "MB": 10**6,
    "MiB": 2**20,
    "GB": 10**9,
    "GiB": 2**30,
}
"""{unit: bytes}."""

RATES: Final[Mapping[str, int]] = {"bit/s": 1, "kbit/s": 10**3, "Mbit/s": 10**6, "Gbit/s": 10**9}
"""{unit: bits a second}."""

WHOLE_PPM: Final = 10**6
"""All, in millionths."""
SHARES: Final[Mapping[str, int]] = {"ppm": 1, "%": WHOLE_PPM // 100}
"""{unit: millionths}."""

PREFIXES_SHOWN: Final = ((10**9, "G"), (10**6, "M"), (10**3, "k"))
"""(factor, prefix) of rates as they are written for people, the largest first."""
