"""Which colour and line each cell has: Okabe and Ito's colours, told apart by the colour-blind too.

Source: M. Okabe, K. Ito, "Color Universal Design", 2008. Configurations differ in colour, and in the
marker once the colours are used up; repeats of one configuration differ in the dash.
"""

from __future__ import annotations

from dataclasses import dataclass

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9")
LOST_COLOUR = "#D55E00"
DASHES: tuple[tuple[int, ...], ...] = ((), (6, 2), (2, 2), (8, 2, 2, 2))
MARKERS = ("", "o", "s", "^", "D", "v")


@dataclass(frozen=True)
class Look:
    """One cell's colour (index into COLOURS), dash (lengths in points; empty is solid) and marker."""

    colour: int
    dash: tuple[int, ...]
    marker: str


def look(configuration: int, repeat: int) -> Look:
    """The look of a repeat (from 1) of the configuration with this index (from 0)."""
    group, colour = divmod(configuration, len(COLOURS))
    return Look(colour, DASHES[(repeat - 1) % len(DASHES)], MARKERS[group % len(MARKERS)])
