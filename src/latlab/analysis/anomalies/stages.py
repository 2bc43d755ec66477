"""Where on its path a packet lost its time: its lateness, divided over the intervals between its timestamps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.model.timestamps import PATH, RECORDED, WAY

Float64 = NDArray[np.float64]
Rows = NDArray[np.int64]

AFTER: Final = {one.name: one.place for one in RECORDED if one.place}
"""The stage that ends at a timestamp; that from the talker's side to the listener's is the path, whatever ends it."""

ONE_WAY: Final = (("tx_hard", "rx_hard"), ("tx_soft", "rx_soft"), ("launch", "rx_hard"), ("launch", "rx_soft"))
"""Between which two timestamps a packet is on its path from host to host: the first pair that a stream has."""

_SENT: Final = frozenset(one.name for one in RECORDED if one.side == "talker")
_SAMPLE: Final = 200_000


@dataclass(frozen=True)
class Stages:
    """The intervals between the timestamps that a stream has.

    stamps: their names, launch first. places: where each interval is; two may be at one place. usual_ns: its median.
    path: which interval crosses from the talker to the listener.
    """

    rows: pl.DataFrame
    stamps: tuple[str, ...]
    places: tuple[str, ...]
    usual_ns: tuple[float, ...]
    path: int

    @classmethod
    def of(cls, rows: pl.DataFrame, judged: Rows) -> Stages:
        """Those of a stream. rows: of the packet table; judged: the numbers of those that are looked at."""
        stamps = tuple(name for name in WAY if _has(rows, f"{name}_tai_ns"))
        places = tuple(PATH if start in _SENT and end not in _SENT else AFTER[end] for start, end in pairwise(stamps))
        sample = judged[:: max(1, len(judged) // _SAMPLE)]
        usual = tuple(_usual(rows, start, end, sample) for start, end in pairwise(stamps))
        return cls(rows, stamps, places, usual, places.index(PATH) if PATH in places else len(places) - 1)

    def excess_ns(self, which: Rows, level_ns: Float64) -> dict[str, Float64]:
        """{timestamp: how much longer than usual packets took up to it from the one before}, float64 [len(which)] each.

        which: rows. level_ns: what a packet takes from first to last timestamp around there, float64 of the same
        length: the path's usual time is what the other intervals leave of it, so that a clock that moves slowly delays
        nobody. The excesses of a packet add up to what it took beyond the level. A timestamp that is missing leaves
        its interval's excess to the next one.
        """
        chosen = self.rows.select(f"{name}_tai_ns" for name in self.stamps)[which]
        others = sum(self.usual_ns) - self.usual_ns[self.path]
        found: dict[str, Float64] = {}
        before = chosen["launch_tai_ns"].to_numpy()
        for number, name in enumerate(self.stamps[1:]):
            usual: Float64 | float = level_ns - others if number == self.path else self.usual_ns[number]
            stamps = chosen[f"{name}_tai_ns"]
            there = stamps.is_not_null().to_numpy()
            at = np.where(there, stamps.fill_null(0).to_numpy(), before + np.rint(usual).astype(np.int64))
            found[name] = (at - before) - usual
            before = at
        return found

    def taken_ns(self, which: Rows) -> dict[str, Float64]:
        """{place: how long packets were there}, float64 [len(which)] each, in the order of the path.

        A timestamp that is missing leaves a packet's time to the next place; it then takes the usual time here.
        """
        found: dict[str, Float64] = {}
        before = _taken(self.rows["launch_tai_ns"], which)
        for place, name, usual in zip(self.places, self.stamps[1:], self.usual_ns, strict=True):
            stamps = self.rows[f"{name}_tai_ns"]
            at = _taken(stamps, which)
            if stamps.null_count():
                at = np.where(at == 0, before + round(usual), at)
            here = (at - before).astype(np.float64)
            found[place] = found[place] + here if place in found else here
            before = at
        return found

    def by_place(self, excess: Mapping[str, Float64]) -> dict[str, Float64]:
        """{place: how much longer packets were there}: the excesses of `excess_ns`, those of one place together."""
        found: dict[str, Float64] = {}
        for place, name in zip(self.places, self.stamps[1:], strict=True):
            found[place] = found[place] + excess[name] if place in found else excess[name]
        return found


def one_way_stamps(rows: pl.DataFrame) -> tuple[str, str] | None:
    """Those of ONE_WAY that some of a stream's rows have; None without any."""
    found = (pair for pair in ONE_WAY if all(_has(rows, f"{name}_tai_ns") for name in pair))
    return next(found, None)


def _taken(column: pl.Series, which: Rows) -> NDArray[np.int64]:
    values = column.fill_null(0).to_numpy()
    return values if len(which) == len(values) else values[which]


def _has(rows: pl.DataFrame, column: str) -> bool:
    return column in rows.columns and rows[column].null_count() < rows.height


def _usual(rows: pl.DataFrame, start: str, end: str, sample: Rows) -> float:
    both = rows.select(f"{start}_tai_ns", f"{end}_tai_ns")[sample]
    return float((both[f"{end}_tai_ns"] - both[f"{start}_tai_ns"]).median() or 0)  # type: ignore[arg-type]
