"""The anomalies of one stream: every detector in its turn, and what they found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, overload

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.anomalies.beginning import find_warm_up
from latlab.analysis.anomalies.classes import CLASSES, CODE
from latlab.analysis.anomalies.context import Context
from latlab.analysis.anomalies.counted import find_duplicates, find_loss_bursts, find_reordered
from latlab.analysis.anomalies.found import Found, Holds, Seen, Several
from latlab.analysis.anomalies.held import find_holds, find_stalls, find_throttled
from latlab.analysis.anomalies.judged import late_limits
from latlab.analysis.anomalies.levels import find_levels
from latlab.analysis.anomalies.oscillation import fast_wave_ns, find_oscillation, line_of, note_oscillation
from latlab.analysis.anomalies.regular import find_periodic
from latlab.analysis.anomalies.shifts import find_shifts
from latlab.analysis.anomalies.signals import make_signals
from latlab.analysis.anomalies.singles import find_late_senders, find_missed_slots, find_unexplained
from latlab.analysis.anomalies.thresholds import THRESHOLDS, Thresholds
from latlab.result.types import Anomaly, Episode, LateLimits

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]
Detector = Callable[[Seen], Iterator[Found] | Iterator[Several]]

DETECTORS: Final[tuple[Detector, ...]] = (
    find_loss_bursts,
    find_throttled,
    find_stalls,
    find_missed_slots,
    find_reordered,
    find_warm_up,
    find_shifts,
    find_late_senders,
    find_periodic,
    find_unexplained,
    find_oscillation,
    find_levels,
    find_duplicates,
)
"""In the order of precedence of their classes. Each takes what it can explain of what those before it left."""

SHOWN: Final = 20
_RANK: Final = {one.name: number for number, one in enumerate(CLASSES)}


class Episodes(Sequence[Episode]):
    """The episodes of a stream, by class, in the order of CLASSES, and by time.

    A stream may have millions. Columns have what all are counted and sorted by; an episode is put together when
    somebody asks for it. severity float64 [k].
    """

    def __init__(self, seen: Seen) -> None:
        self._found = tuple(seen.found)
        ranks = [_RANK[one.name] for one in seen.found]
        counts = np.array([len(one.starts) if isinstance(one, Several) else 1 for one in seen.found], np.int64)
        columns = [_columns(seen, one) for one in seen.found]
        none = np.empty(0, np.int64)
        first, last, packets, severity = (
            np.concatenate([none, *parts]) for parts in (zip(*columns, strict=True) if columns else [()] * 4)
        )
        rank = np.repeat(np.array(ranks, np.int64), counts)
        order = np.lexsort((first, rank))
        self._rank = rank[order]
        launch, sequence = (seen.signals.rows[name].to_numpy() for name in ("launch_tai_ns", "sequence"))
        first, last = first[order], last[order]
        self._from_ns, self._to_ns = launch[first], launch[last] + seen.signals.context.period_ns
        self._from_sequence, self._to_sequence = sequence[first], sequence[last]
        self._packets = packets[order]
        self.severity: Float64 = severity[order].astype(np.float64)
        self._of = np.repeat(np.arange(len(counts)), counts)[order]
        self._place = (np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts))[order]
        self._number = np.zeros(len(order) + 1, np.uint32)
        self._number[order + 1] = np.arange(1, len(order) + 1)

    def __len__(self) -> int:
        return len(self._rank)

    @overload
    def __getitem__(self, index: int) -> Episode: ...
    @overload
    def __getitem__(self, index: slice) -> list[Episode]: ...
    def __getitem__(self, index: int | slice) -> Episode | list[Episode]:
        if isinstance(index, slice):
            return [self._episode(at) for at in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self._episode(index % len(self))

    def places(self, class_: str) -> range:
        """The indices of those of a class."""
        begin, end = np.searchsorted(self._rank, (_RANK[class_], _RANK[class_] + 1))
        return range(int(begin), int(end))

    def of(self, classes: Iterable[str]) -> Iterator[Episode]:
        """Those of some classes, one class after the other."""
        for class_ in classes:
            yield from (self._episode(at) for at in self.places(class_))

    def numbers(self, taken_by: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """The numbers of episodes by the order in which they were found, from 1; 0 stays 0."""
        return self._number[taken_by]

    def _episode(self, at: int) -> Episode:
        one = self._found[int(self._of[at])]
        evidence, text = one.told(int(self._place[at])) if isinstance(one, Several) else (one.evidence, one.text)
        return Episode(
            number=at + 1,
            class_=one.name,
            from_tai_ns=int(self._from_ns[at]),
            to_tai_ns=int(self._to_ns[at]),
            from_sequence=int(self._from_sequence[at]),
            to_sequence=int(self._to_sequence[at]),
            packets=int(self._packets[at]),
            severity=float(self.severity[at]),
            evidence=dict(evidence),
            text=text,
        )


def _columns(seen: Seen, one: Found | Several) -> tuple[Int64, Int64, Int64, Float64]:
    """The first and the last row, the packets, and the severity of each of these."""
    if isinstance(one, Several):
        own = seen.class_of[one.rows] == CODE[one.name]
        packets = np.add.reduceat(own.view(np.uint8), one.starts, dtype=np.int64)
        return one.firsts, one.lasts, packets, one.severity
    rows = seen.signals.between(one.first, one.last) if one.rows is None else one.rows
    count = np.count_nonzero(seen.class_of[rows] == CODE[one.name]) if one.packets is None else one.packets
    return np.array([one.first]), np.array([one.last]), np.array([count]), np.array([one.severity])


@dataclass(frozen=True)
class Anomalies:
    """What is the matter with a stream.

    class_of uint8 [rows]: by row of the stream, which is by sequence: the code of its class (CODE), 0 for nothing;
    packets of the warm-up have none. episode_of uint32 [rows]: the number of the episode that it has its class by, 0
    for none. episodes: by class, in the order of CLASSES, and by time. limits: what packets were compared with; None
    where none was judged.
    """

    class_of: NDArray[np.uint8]
    episode_of: NDArray[np.uint32]
    episodes: Episodes
    limits: LateLimits | None = None


def find_anomalies(rows: pl.DataFrame, context: Context, thresholds: Thresholds = THRESHOLDS) -> Anomalies:
    """The anomalies of one stream.

    rows: its part of the packet table (docs/reference/run-folder.md), by sequence, one row a scheduled packet.
    """
    signals = make_signals(rows, context, thresholds)
    line = line_of(signals)
    if (wave_ns := fast_wave_ns(signals, line)) is not None:
        signals = make_signals(rows, context, thresholds, wave_ns)
        line = line_of(signals)
    seen = Seen(signals, find_holds(signals) if len(signals.row) else Holds.none())
    note_oscillation(seen, line)
    for detector in DETECTORS:
        # All of a detector's findings before any is taken: its own claims do not block it.
        found: list[Found | Several] = list(detector(seen))
        for one in found:
            seen.take(one)
    episodes = Episodes(seen)
    return Anomalies(seen.class_of, episodes.numbers(seen.taken_by), episodes, late_limits(signals))


def by_class(anomalies: Anomalies, shown: int = SHOWN) -> dict[str, Anomaly]:
    """What was found, of the classes that occur.

    packets: of the class; episodes: how many there are in all; worst: the text of the most severe. shown: the most
    severe of them, `shown` at most, by time.
    """
    counts = np.bincount(anomalies.class_of, minlength=len(CLASSES) + 1)
    found = {}
    for code, one in enumerate(CLASSES, start=1):
        places = anomalies.episodes.places(one.name)
        if not places:
            continue
        severity = anomalies.episodes.severity[places.start : places.stop]
        order = np.argsort(-severity, kind="stable")[: max(shown, 1)]
        worst = [anomalies.episodes[places[int(at)]] for at in order]
        found[one.name] = Anomaly(
            title=one.title,
            meaning=one.meaning,
            packets=int(counts[code]),
            episodes=len(places),
            worst=worst[0].text,
            shown=sorted(worst[:shown], key=lambda episode: episode.from_tai_ns),
        )
    return found
