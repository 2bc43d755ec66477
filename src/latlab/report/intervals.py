"""The uncertainty of figures: their 95 % intervals, effective n, and the tail beyond the sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from latlab.analysis.confidence import HEAVY, TOO_HEAVY, TOO_SHORT
from latlab.model import statistics
from latlab.report import rows
from latlab.report.text import microseconds, whole
from latlab.result.places import cell_title
from latlab.result.types import Confidence, Interval, Metric, Result

_FIGURES: Final = ("mean", *statistics.PERCENTILES, "stddev")
HEADINGS: Final = ("cell", "repeat", "stream", "effective n", *(statistics.HEADINGS[key] for key in _FIGURES))
FEW: Final = 6
"""Of more rows words would only repeat what stands in the table."""
_SINGLY: Final = 3
"""So many tails that one reason refuses are each named."""
NAMES: Final = 3
"""The leading columns, which say whose figures they are."""
TITLE: Final = (
    "95 % intervals, µs, for dependent values; in brackets the number of values needed where n does not support an "
    "interval"
)


SHORT: Final = "run too short"
LARGE: Final = "tail too heavy"
UNBOUNDED: Final = "no clocks"
LOST: Final = "lost"
NO_CLOCKS: Final = "no packet is in the figures: the clocks are not bounded"
NONE_LEFT: Final = "no packet is in the figures: nothing arrived"
MEANINGS: Final[Mapping[str, str]] = {
    "": "too few independent values",
    SHORT: "values are correlated over so much of the run that neither an interval nor the length needed can be given",
    LARGE: TOO_HEAVY,
    UNBOUNDED: NO_CLOCKS,
    LOST: NONE_LEFT,
}
"""{what stands instead of an interval, "" for a number in brackets: why there is none}."""


@dataclass(frozen=True)
class Intervals:
    """One metric's: a row a cell, repeat and stream, as many texts as there are HEADINGS; what is said of tails.

    An interval is "low … high" in µs; where n does not support one, "(n)" gives how many values would, and if that is
    unknown, a word of MEANINGS gives the reason. supports: the same in words, of FEW rows at most.
    """

    rows: tuple[tuple[str, ...], ...]
    supports: tuple[str, ...]
    tails: tuple[str, ...]

    def filled(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """HEADINGS and the rows without the columns in which no row has an interval."""
        kept = [at for at in range(len(HEADINGS)) if at <= NAMES or any("…" in row[at] for row in self.rows)]
        shown = tuple(tuple(row[at] for at in kept) for row in self.rows)
        return tuple(HEADINGS[at] for at in kept), shown

    def notes(self) -> tuple[str, ...]:
        """What the words in the table mean, and which figures have no column; without any interval why there is none,
        in one sentence.
        """
        headings, shown = self.filled()
        if len(headings) == NAMES + 1:
            reasons = (
                f"{MEANINGS[word]} ({', '.join(names)})" for word in MEANINGS if (names := self._lacking_by(word))
            )
            return (f"no 95 % interval is supported: {'; '.join(reasons)}",)
        there = {text for row in shown for text in row[NAMES + 1 :]}
        told = [f"{word}: {meaning}" for word, meaning in MEANINGS.items() if word and word in there]
        if absent := [name for name in HEADINGS[NAMES + 1 :] if name not in headings]:
            words = (
                f"{MEANINGS[word]} ({', '.join(of)})" for word in MEANINGS if (of := self._lacking_by(word, absent))
            )
            told.append(f"without an interval in any row: {'; '.join(words)}")
        return tuple(told)

    def _lacking_by(self, word: str, names: Sequence[str] = HEADINGS[NAMES + 1 :]) -> list[str]:
        """The figures that have none for this reason in some row."""
        found = {name: {row[HEADINGS.index(name)] for row in self.rows} for name in names}
        return [name for name, texts in found.items() if any(_word(text) == word for text in texts)]


def intervals(result: Result, metric: str) -> Intervals | None:
    """None where no cell has the metric with its intervals."""
    shown, supports = [], []
    tails: dict[str, str] = {}
    untold: dict[str, list[str]] = {}
    for cell in rows.ordered_cells(result):
        for stream, block in cell.streams.items():
            figures = block.metrics.get(metric)
            found = figures.confidence if figures else None
            if not figures or not found:
                continue
            whose = (cell_title(cell), str(cell.repeat), stream)
            nothing = _of_no_packet(figures)
            shown.append((*whose, _worth(found), *(nothing or _interval(getattr(found, name)) for name in _FIGURES)))
            name = ", ".join((whose[0], f"repeat {whose[1]}", stream))
            supports.append(f"{name}: {MEANINGS[nothing] if nothing else found.supports}")
            if nothing:
                tails[name] = f"no tail estimate: {MEANINGS[nothing]}"
                untold.setdefault(MEANINGS[nothing], []).append(name)
            elif tail := figures.tail:
                tails[name] = tail.words or f"no tail estimate: {tail.why}"
                if not tail.words:
                    untold.setdefault(str(tail.why), []).append(name)
    few = len(shown) <= FEW
    return Intervals(tuple(shown), tuple(supports) if few else (), tuple(_folded(tails, untold))) if shown else None


def _folded(tails: Mapping[str, str], untold: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """What is said of each tail; where many have no estimate for the same reason, these in one line."""
    many = {why: names for why, names in untold.items() if len(names) > _SINGLY}
    folded = {name for names in many.values() for name in names}
    yield from (f"{name}: {words}" for name, words in tails.items() if name not in folded)
    for why, names in many.items():
        which = "any" if len(names) == len(tails) else f"{len(names)}"
        yield f"no tail estimate for {which} of the {len(tails)}: {why}"


def _of_no_packet(figures: Metric) -> str:
    """The word of MEANINGS that says why no packet is in the figures; empty if some are, or the reason is unknown."""
    if figures.n:
        return ""
    return LOST if figures.nothing_arrived else UNBOUNDED if figures.unbounded else ""


def _worth(found: Confidence) -> str:
    return whole(found.mean.effective_n)


def _interval(figure: Interval) -> str:
    if figure.low is None:
        if figure.needs_n:
            return f"({figure.needs_n:,})"
        why = figure.why or ""
        return SHORT if why.startswith(TOO_SHORT) else LARGE if why.startswith(HEAVY) else ""
    return f"{microseconds(figure.low)} … {microseconds(figure.high)}"


def _word(text: str) -> str | None:
    """Why a text of the table is no interval, a key of MEANINGS; None of one that is, or of which nothing is known."""
    if text.startswith("("):
        return ""
    return text if text and text in MEANINGS else None
