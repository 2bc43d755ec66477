"""The anomalies of one stream: every detector in its turn, and what they found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import log
from typing import Final, overload

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.anomalies.beginning import find_warm_up
from latlab.analysis.anomalies.blocks import spread_over
from latlab.analysis.anomalies.classes import CLASSES, CODE
from latlab.analysis.anomalies.context import Context
from latlab.analysis.anomalies.counted import find_duplicates, find_loss_bursts, find_reordered
from latlab.analysis.anomalies.found import Claimed, FoundEpisode, Holds, Several
from latlab.analysis.anomalies.held import find_holds, find_stalls, find_throttled
from latlab.analysis.anomalies.levels import find_levels
from latlab.analysis.anomalies.limit import MIXED
from latlab.analysis.anomalies.oscillation import fast_wave_ns, find_oscillation, line_of, note_oscillation
from latlab.analysis.anomalies.parts import PathPart
from latlab.analysis.anomalies.regular import find_periodic
from latlab.analysis.anomalies.shifts import find_shifts
from latlab.analysis.anomalies.signals import Signals, make_signals
from latlab.analysis.anomalies.singles import find_late_senders, find_missed_slots, find_unexplained
from latlab.analysis.anomalies.thresholds import THRESHOLDS, AnomalyThresholds
from latlab.model.timestamps import TALKER
from latlab.result.types import Anomaly, Episode, Gap, LateLimits, Range

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]
Detector = Callable[[Claimed], Iterator[FoundEpisode] | Iterator[Several]]

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

    def __init__(self, seen: Claimed) -> None:
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


def _columns(seen: Claimed, one: FoundEpisode | Several) -> tuple[Int64, Int64, Int64, Float64]:
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


def find_anomalies(rows: pl.DataFrame, context: Context, thresholds: AnomalyThresholds = THRESHOLDS) -> Anomalies:
    """The anomalies of one stream.

    rows: its part of the packet table (docs/reference/run-folder.md), by sequence, one row a scheduled packet.
    """
    signals = make_signals(rows, context, thresholds)
    line = line_of(signals)
    if (wave_ns := fast_wave_ns(signals, line)) is not None:
        signals = make_signals(rows, context, thresholds, wave_ns)
        line = line_of(signals)
    seen = Claimed(signals, find_holds(signals) if len(signals.row) else Holds.none())
    note_oscillation(seen, line)
    for detector in DETECTORS:
        # All of a detector's findings before any is taken: its own claims do not block it.
        found: list[FoundEpisode | Several] = list(detector(seen))
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


# From when on a packet of a stream counted as late: the limits that its own noise has drawn.


OF_EXPONENTIAL: Final = 0.8462
"""The spread (`blocks.block_spreads`) of exponential values whose mean is 1."""
NEAR: Final = 0.01
"""The last share of the tail that is looked at, as in `limit.TAIL`; further out it is reckoned."""


def late_limits(signals: Signals) -> LateLimits | None:
    """What a packet of one stream was compared with; None where no packet of it was judged. What is a Range moves with
    the stream over the run.

    packets: how many were judged, launched every period_ns. until: the last timestamp that the stream has; latency is
    from the launch to it. usual_ns: the usual latency around a packet. above_ns: by how much more than that noise may
    make it longer. from_ns: the two together, the latency from which on a packet is late. sender_share, sender_ns: a
    late packet is the talker's if it lost that share of its lateness, and more than this, before it was submitted, be
    it by the way's limit or by the talker's own (`senders`); None without `wake` and `submit`. spread_ns: how wide
    packets lie. exponential_ns: by how much more than usual a packet would be late if noise of that spread had an
    exponential tail; heavy: it has a heavier one, and single packets are late from further on. largest_ns: the longest
    latency of a packet that was judged; out_of_reach: the limit is beyond it, so what lies between the two would not
    be called late. parted: of the packets beyond a gap, if there is one. bursts: of packets that came in bursts, where
    many did. beside_ns: a packet that is by so much later than those before and after it is late, too; None where
    neighbours are not alike.
    """
    if not len(signals.row):
        return None
    share, sender, beside = signals.thresholds.sender, signals.parts.get(TALKER), signals.beside
    above_ns, from_ns = _range(signals.limit_ns), _range(signals.level_ns + signals.limit_ns)
    exponential_ns = round(exponential_limit_ns(signals.spread_ns, len(signals.row), signals.thresholds))
    largest_ns = round(float((signals.level_ns + signals.late_ns).max()))
    return LateLimits(
        packets=len(signals.row),
        period_ns=signals.context.period_ns,
        until=signals.stages.stamps[-1],
        usual_ns=_range(signals.level_ns),
        above_ns=above_ns,
        from_ns=from_ns,
        sender_share=share,
        sender_ns=_range(_senders(signals, sender)) if sender else None,
        spread_ns=round(signals.spread_ns),
        exponential_ns=exponential_ns,
        largest_ns=largest_ns,
        parted=_parted(signals),
        bursts=signals.bursts,
        beside_ns=_range(spread_over(beside.limits, beside.size, len(signals.row))) if beside else None,
        heavy=above_ns.middle > exponential_ns,
        out_of_reach=from_ns.middle > largest_ns,
    )


def _senders(signals: Signals, sender: PathPart) -> NDArray[np.float32]:
    """More than how much late packets have lost at their talker, at each judged packet, float32 [n]."""
    own = spread_over(sender.limits, sender.size, len(signals.row))
    found: NDArray[np.float32] = np.minimum(signals.thresholds.sender * signals.limit_ns, own)
    return found


def _parted(signals: Signals) -> Gap | None:
    if signals.apart is None:
        return None
    below = ~signals.apart if signals.held is None else ~signals.apart & ~signals.held
    begins = float(np.quantile(signals.late_ns[signals.apart], MIXED))
    nearer = signals.late_ns[below & (signals.late_ns < begins)]
    ends = float(nearer.max()) if len(nearer) else begins
    packets = int(np.count_nonzero(signals.apart))
    return Gap(packets=packets, of=len(signals.row), ends_ns=round(ends), begins_ns=round(begins))


def exponential_limit_ns(spread_ns: float, n: int, thresholds: AnomalyThresholds) -> float:
    """Where an exponential tail comes down to `false_alarms` of n packets, with the same safety as any, ns.

    From the median (ln 2) on: ln(1/NEAR) to the last percentile, and `tail_safety` times as far as from there to the
    share.
    """
    near, far = log(1 / NEAR), log(n / thresholds.false_alarms)
    reach = near - log(2) + thresholds.tail_safety * max(0.0, far - near)
    return max(reach * spread_ns / OF_EXPONENTIAL, float(thresholds.least_ns))


def _range(values: NDArray[np.float32] | NDArray[np.float64]) -> Range:
    least, middle, greatest = (round(float(one)) for one in (values.min(), np.median(values), values.max()))
    return Range(least=least, middle=middle, greatest=greatest)
