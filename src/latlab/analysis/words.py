"""How durations are written for people, in reasons and limits."""

from __future__ import annotations

_UNITS = ((10**9, "s"), (10**6, "ms"), (10**3, "µs"))


def duration(ns: float, digits: int = 4) -> str:
    """A duration in its own unit, `digits` significant digits: 2000000 is "2 ms", 14213456 is "14.21 ms"."""
    for step, unit in _UNITS:
        if abs(ns) >= step:
            # Whole digits are all written: 37000 s has no exponent.
            return f"{ns / step:.{digits}g} {unit}" if abs(ns) < 10**digits * step else f"{ns / step:.0f} {unit}"
    return f"{ns:.{digits}g} ns"
