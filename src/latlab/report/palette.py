"""The colours, dashes and markers of lines, told apart by the colour-blind too, and in print.

Sources: M. Okabe, K. Ito, "Color Universal Design", 2008, without its yellow, which white paper swallows; the last two
are wine and indigo of P. Tol, "Colour Schemes", SRON/EPS/TN/09-002, 2021, "muted".
"""

from __future__ import annotations

from dataclasses import dataclass

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#1A1A1A", "#882255", "#332288")
LOST_COLOUR = "#D55E00"
WAY_COLOURS = (*(COLOURS[one] for one in (1, 4, 2, 3, 5, 0, 6)), LOST_COLOUR, "#767676")
"""Of the intervals of a packet's path, in its order: wake-up, prepare, socket, qdisc, sending NIC, path, receiving NIC,
delivery; and of a guest's way to its interrupt's handler. Neighbours stay apart for the colour-blind, and a line of
paper is between them.
"""
WAY_INKS = (*("#14181c",) * 4, "white", "white", "#ffffff", "#14181c", "white")
"""What is written on each of them; "white" is the page's paper, which is dark in the dark, as these are light there."""
DASHES: tuple[tuple[int, ...], ...] = ((), (6, 2), (2, 2), (8, 2, 2, 2), (12, 2, 2, 2, 2, 2))
MARKERS = ("", "o", "s", "^", "D", "v")


ANY_COLOUR = -1
"""Instead of an index into COLOURS, grey: no bridge's where bridges have colours, or lines of any colour."""


@dataclass(frozen=True)
class Look:
    """One cell's colour (index into COLOURS, or ANY_COLOUR), dash (lengths in points; empty is solid) and marker."""

    colour: int
    dash: tuple[int, ...]
    marker: str
