"""Where on its path a packet lost its time: its lateness by stage and place, and from where on that is no noise.

A stage's own noise is often far narrower than that of the whole path: what the whole path's tail hides, this shows.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.anomalies.blocks import members, ranges, run_starts, runs, spread_over
from latlab.analysis.anomalies.limit import Usual, either, local_spreads
from latlab.analysis.anomalies.thresholds import AnomalyThresholds
from latlab.model.metrics import METRICS_BY_NAME
from latlab.model.timestamps import PATH, RECORDED, TALKER, WAY

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class PathPart:
    """One place alone, of some judged packets [m], which are late in all or at one place.

    places int64 [m]: which they are, ascending. late_ns float64 [m]: how much longer than usual each was there. late
    bool [m]: which were longer there than its noise makes them, and did not make up for it later. limits float32
    [intervals]: from where on that is no noise of the place's, in each interval of `size` packets.
    """

    places: Int64
    late_ns: Float64
    late: Bools
    limits: NDArray[np.float32]
    size: int

    @property
    def limit_ns(self) -> NDArray[np.float32]:
        """From where on that is no noise of the place's, at each of these packets, float32 [m]."""
        return self.limits[self.places // self.size]

    def at(self, places: Int64) -> PathPart:
        """The same, of some of these packets."""
        which = np.searchsorted(self.places, places)
        return replace(self, places=places, late_ns=self.late_ns[which], late=self.late[which])


def find_parts(
    stages: Stages,
    row: Int64,
    size: int,
    held: Bools | None,
    slow_start: int,
    thresholds: AnomalyThresholds,
    *,
    late: Bools,
    elsewhere: Container[str] = (),
) -> tuple[Int64, dict[str, PathPart]]:
    """The packets that are late in all or at one place, ascending; and {place: their lateness there}, of the places
    that timestamps show, none of a single one.

    row: the judged rows [n]; size: packets in an interval; held: those that say nothing of noise, bool [n]; late: those
    that are late in all, bool [n]. All places together have as many false alarms as the whole path has. The talker's
    late wake-ups come in trains: they are left out of its limit, which is that of a single one. elsewhere: places at
    which no packet is late, as it is judged otherwise.
    """
    taken = stages.taken_ns(row)
    if len(taken) < 2 or not len(row):
        return np.flatnonzero(late), {}
    false_alarms = thresholds.false_alarms / len(taken)
    late_ns: dict[str, Float64] = {}
    limits: dict[str, NDArray[np.float32]] = {}
    over: dict[str, Int64] = {}
    for place in list(taken):
        aside = None
        after_ns = taken[place].astype(np.int64) if place == TALKER else None
        # What a packet took is given away, and becomes how late it was.
        usual = Usual.of(taken.pop(place), size, held, thresholds, false_alarms)
        if after_ns is not None:
            launch = stages.rows["launch_tai_ns"].to_numpy()[row]
            trains = find_trains(usual.late_ns, launch + after_ns, launch, usual.spread_ns, thresholds)
            aside = with_trains(None, trains, len(row))
        late_ns[place] = usual.late_ns
        limits[place] = usual.limits_ns(
            either(held, aside), slow_start, thresholds, false_alarms, thresholds.part_beyond
        )
        over[place] = np.flatnonzero(usual.late_ns > spread_over(limits[place], size, len(row)))
        if len(over[place]):
            beside = beside_neighbours(usual, either(held, aside), slow_start, thresholds, false_alarms)
            over[place] = over[place] if beside is None else beside.without_excursions(over[place])
    own = {
        place: np.empty(0, np.int64) if place in elsewhere else _lasting(late_ns, place, over[place], thresholds)
        for place in late_ns
    }
    every = late.copy()
    for which in own.values():
        every[which] = True
    places = np.flatnonzero(every)
    return places, {
        place: PathPart(places, late_ns[place][places], np.isin(places, own[place]), limits[place], size)
        for place in late_ns
    }


def _lasting(late: dict[str, Float64], place: str, which: Int64, thresholds: AnomalyThresholds) -> Int64:
    """Which of some packets that were late at a place made up for less than half of it further on, ascending."""
    places = list(late)
    so_far = late[place][which]
    least = so_far.copy()
    for after in places[places.index(place) + 1 :]:
        so_far = so_far + late[after][which]
        least = np.minimum(least, so_far)
    return which[least >= thresholds.sender * late[place][which]]


# Where on its path a packet lost its time: its lateness, divided over the intervals between its timestamps.


Rows = NDArray[np.int64]

AFTER: Final = {one.name: one.place for one in RECORDED if one.place}
"""The stage that ends at a timestamp; that from the talker's side to the listener's is the path, whatever ends it."""

ONE_WAY: Final = (*METRICS_BY_NAME["path"].pairs, *METRICS_BY_NAME["latency"].pairs)
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


# Trains: packets that arrived at once, each less late than the one before by the time between their launches.
#
# Found by that shape, whatever a single packet's limit is: how far the tail of single packets goes says little of how
# often several follow one another like this.


Spans = tuple[Int64, Int64]
"""Where each of some packets in a row begins and where it ends (excluded), ascending."""
NO_TRAINS: Final[Spans] = (np.empty(0, np.int64), np.empty(0, np.int64))

OCTAVE: Final = 2.0
"""How often a lateness occurs is counted from half of it to twice as much: single ones are too rare to count."""
ARRIVAL_LEAST_NS: Final = 1_000
"""Arrivals closer together than this are no further evidence: a listener reads no faster."""


def find_trains(late: Float64, end: Int64, launch: Int64, spread_ns: float, thresholds: AnomalyThresholds) -> Spans:
    """The trains among packets: where each begins and ends (excluded), ascending.

    late: how late each was, float64 ns [n]; end, launch: when it arrived and when it was due, int64 ns [n]; spread_ns:
    how wide packets lie. The first of a train is plainly late, and those behind it came at once with it and not in
    their own time. Of those reported chance makes less than the share `chance`. Where more than `bursts_most` of all
    packets are in trains they always come like this, and it is no exception.
    """
    if len(late) < 2:
        return NO_TRAINS
    near = thresholds.tight * np.diff(launch)
    # One that is less late than that would have come so close in its own time: nothing shows that it was held.
    begins, lasts = runs((np.diff(end) <= near) & (late[1:] > np.maximum(near, thresholds.least_ns)))
    plain = late[begins] > max(thresholds.tail_spreads * spread_ns, thresholds.least_ns)
    begins, ends = begins[plain], lasts[plain] + 1
    if not 0 < int((ends - begins).sum()) <= thresholds.bursts_most * len(late):
        return NO_TRAINS
    single = np.sort(late[~members((begins, ends), len(late))])
    firsts = np.sort(np.concatenate((single, late[begins])))
    taken = reported(_by_chance(late, end, begins, ends, single, firsts), thresholds.chance)
    return begins[taken], ends[taken]


def with_trains(held: Bools | None, trains: Spans, n: int) -> Bools | None:
    """What was held, and trains too, bool [n]: the limit is how late single packets are."""
    if not len(trains[0]):
        return held
    both = members(trains, n)
    return both if held is None else both | held


def reported(by_chance: Float64, share: float) -> Bools:
    """Which are reported, bool [n], so that chance made less than `share` of them (Benjamini and Hochberg 1995, §3.1).

    by_chance: how many like each one chance makes in the stream. A single one is reported if those are under `share`;
    where trains are frequent, each of k is if it is fewer than k times that.
    """
    order = np.argsort(by_chance, kind="stable")
    enough = np.flatnonzero(by_chance[order] < share * np.arange(1, len(order) + 1))
    told = np.zeros(len(order), np.bool_)
    told[order[: enough[-1] + 1 if len(enough) else 0]] = True
    return told


def _by_chance(late: Float64, end: Int64, begins: Int64, ends: Int64, single: Float64, firsts: Float64) -> Float64:
    """How many trains like each one [k] there would be if each packet were late independently.

    late, end: of all packets [n]; begins, ends: the trains. single: how late those outside of trains were, firsts:
    these and the trains' first ones, both ascending. As many packets as are that late may begin one; each that follows
    has to be late, by chance, by just what lets it arrive so close.
    """
    begun = (len(firsts) - np.searchsorted(firsts, late[begins])).astype(np.float64)
    place, starts = ranges(begins + 1, ends)
    behind = late[place]
    low, high = np.searchsorted(single, behind / OCTAVE), np.searchsorted(single, behind * OCTAVE)
    # One more than there are: what did not happen among so many may still.
    each_ns = (high - low + 1) / (len(single) + 1) / (behind * (OCTAVE - 1 / OCTAVE))
    window = 2 * np.maximum(end[place] - end[place - 1], ARRIVAL_LEAST_NS)
    found: Float64 = begun * np.multiply.reduceat(np.minimum(each_ns * window, 1.0), starts)
    return found


# Packets that are late next to those before and after them, where noise changes little from one to the next.
#
# Noise that is correlated over many packets makes excursions: the limit of single packets lies beyond these. From one
# packet to the next it goes in small steps, and a packet that stands out of its neighbours by much more is none of it.


SIDE: Final = 3
"""Packets on either side: of as many one or two may be late themselves."""
ALIKE: Final = 0.5
"""Neighbours are alike where they differ by this share of what any two packets do: of an autoregressive process with a
correlation above 0.75."""
NEARLY_NONE, PLAINLY = 0.1, 0.75
"""Of rows that begin with a step some are the noise's own: by so many, and by so much less than the others, is noise
told from them."""
PIECES, PIECE = 64, 4_096
"""Of so many pieces of a stream, of so many packets each, that is estimated."""
_AT_ONCE: Final = 1 << 20


@dataclass(frozen=True)
class Neighbours:
    """How packets stand next to their neighbours.

    late_ns, above_ns float64 [n]: how late each is, and how much later than the later of its two sides: the medians of
    `SIDE` packets before and after. limits float32 [intervals]: how far noise goes there, in each interval of `size`;
    steps: how far that of one packet of the stream does.
    """

    late_ns: Float64
    above_ns: Float64
    limits: NDArray[np.float32]
    steps: NDArray[np.float32]
    size: int

    @property
    def late(self) -> Int64:
        """Those that are later than their neighbours, and than usual, by more than noise makes them, ascending."""
        found = np.flatnonzero(self.above_ns > np.repeat(self.limits, self.size)[: len(self.above_ns)])
        later: Int64 = found[self.late_ns[found] > self.limits[found // self.size]]
        return later

    def limit_ns(self, places: Int64) -> Float64:
        """How late noise makes these packets at most, next to the neighbours that they have, float64 [m]."""
        found: Float64 = self.late_ns[places] - self.above_ns[places] + self.limits[places // self.size]
        return found

    def without_excursions(self, late: Int64) -> Int64:
        """Late packets without those that noise took there in its own steps.

        A row of late packets begins or ends with a step that is none of noise's. Where most rows do, those that do not,
        and are plainly less late than these, are excursions of the noise, which the others' gap lies in.
        """
        starts = run_starts(late)
        if not len(starts):
            return late
        before, after = (_sides(self.late_ns, late, side) for side in (-1, 1))
        steps = self.late_ns[late] - np.fmin(before, after) > self.steps[late // self.size]
        sudden = np.logical_or.reduceat(steps, starts)
        most = np.maximum.reduceat(self.late_ns[late], starts)
        if 2 * np.count_nonzero(sudden) < len(starts):
            return late
        kept = sudden | (most >= PLAINLY * np.quantile(most[sudden], NEARLY_NONE))
        left: Int64 = late[np.repeat(kept, np.diff(starts, append=len(late)))]
        return left


def beside_neighbours(
    usual: Usual, aside: Bools | None, slow_start: int, thresholds: AnomalyThresholds, false_alarms: float
) -> Neighbours | None:
    """How packets stand next to their neighbours; None where these are not alike.

    aside: packets that say nothing of noise, bool [n]; so do the first slow_start.
    """
    late, left_out = usual.late_ns, either(aside, either(usual.held, usual.apart))
    if len(late) < 4 * SIDE or not _are_alike(late, left_out):
        return None
    above = np.empty(len(late))
    for first in range(0, len(late), _AT_ONCE):
        here = np.arange(first, min(first + _AT_ONCE, len(late)))
        above[here] = late[here] - np.fmax(_sides(late, here, -1), _sides(late, here, 1))
    spreads = local_spreads(above, usual.size, left_out, usual.step_ns)
    noise = Usual(usual.level_ns, above, spreads, usual.size, usual.step_ns, None, left_out)
    limits, steps = (noise.limits_ns(None, slow_start, thresholds, chance) for chance in (false_alarms, 1.0))
    return Neighbours(late, above, limits, steps, usual.size)


def _are_alike(late: Float64, left_out: Bools | None) -> bool:
    """Whether packets differ from the next ones by less than from others."""
    chosen = np.zeros(len(late), np.bool_)
    for first in np.linspace(0, max(0, len(late) - PIECE), PIECES).astype(np.int64).tolist():
        chosen[first : first + PIECE] = True
    place = np.flatnonzero(chosen[:-1] & chosen[1:])
    if left_out is not None:
        place = place[~(left_out[place] | left_out[place + 1])]
    if len(place) < SIDE:
        return False
    values = late[place]
    apart = float(np.median(np.abs(values - np.median(values))))
    step = float(np.median(np.abs(late[place + 1] - values)))
    return 0 < step < ALIKE * 2**0.5 * apart


def _sides(late: Float64, places: Int64, side: int) -> Float64:
    """The median of the packets before (−1) or after (1) each of these, float64 [m]; NaN where there are too few."""
    found = np.full(len(places), np.nan)
    far = places + side * SIDE
    there = (far >= 0) & (far < len(late))
    near = places[there]
    one, two, three = (late[near + side * (number + 1)] for number in range(SIDE))
    found[there] = np.maximum(np.minimum(one, two), np.minimum(np.maximum(one, two), three))
    return found
