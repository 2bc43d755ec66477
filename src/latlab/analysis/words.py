"""How durations, rates and shares are written for people, in reasons and limits."""

from __future__ import annotations

import re

from latlab.model.units import PREFIXES_SHOWN, TIMES_SHOWN

_DURATION = re.compile(r"(\d+(?:\.\d+)?) (s|ms|µs|ns)\b")


def duration(ns: float, digits: int = 4) -> str:
    """A duration in its own unit, `digits` significant digits: 2000000 is "2 ms", 14213456 is "14.21 ms"."""
    # What rounds up to a larger unit is written in that: a second less a nanosecond is "1 s", not "1000 ms".
    rounded = float(f"{abs(ns):.{digits}g}")
    for step, unit in TIMES_SHOWN[:-1]:
        if rounded >= step:
            # Whole digits are all written: 37000 s has no exponent.
            text = f"{ns / step:.{digits}g}" if rounded < 10**digits * step else f"{ns / step:.0f}"
            return minus(f"{text} {unit}")
    return minus(f"{ns:.{digits}g} ns")


def cause_in(text: str) -> str:
    """A sentence about one episode with its durations in three digits: those of one cause are then the same.

    "throttled for 50.01 ms: …" is what "throttled for 50 ms: …" is.
    """
    return _DURATION.sub(lambda found: f"{float(found[1]):.3g} {found[2]}", text)


def counted(count: int, what: str) -> str:
    """How many there are of what: "1 cell", "2 cells", "no cell"."""
    return plural(count, what) if count else f"no {what}"


def plural(count: int, one: str, several: str = "") -> str:
    """A number with its noun: "1 cell", "0 cells"; several: what there is more than one of, if no s makes it."""
    return f"{count} {one if count == 1 else several or f'{one}s'}"


def left_out_text(count: int, what: str, why: str) -> str:
    """What was left out: "1 packet of a.pcap: cut". what: begins with its plural, as "packets of a.pcap"."""
    noun, _, rest = what.partition(" ")
    one = f"{noun[:-3]}y" if noun.endswith("ies") else noun.removesuffix("s")
    return f"{count} {f'{one} {rest}'.rstrip() if count == 1 else what}: {why}"


def minus(text: str) -> str:
    """A figure with a minus sign (U+2212) where it begins with a hyphen: as wide as a plus sign."""
    return f"−{text[1:]}" if text.startswith("-") else text


def percent(share: float, digits: int = 4) -> str:
    """A share of one, `digits` significant digits: 0.001 is "0.1%"."""
    return f"{100 * share:.{digits}g}%"


def rate(per_s: float | None, unit: str) -> str:
    """A rate with three digits and a decimal prefix, as "812 Mbit/s"; blank where there is none."""
    if per_s is None:
        return ""
    for step, prefix in PREFIXES_SHOWN:
        if abs(per_s) >= step:
            return f"{per_s / step:.3g} {prefix}{unit}"
    return f"{per_s:.3g} {unit}"
