"""Where watched packets lost their time: the path from the first point to the last as hops between points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.chain import WORST_TOLD, Places, Ways, chain_of
from latlab.analysis.counts import stream_rows
from latlab.analysis.metrics import Values
from latlab.analysis.way import ONE_CLOCK, TWO_HOSTS, Split, intervals_of
from latlab.model.metrics import METRICS_BY_NAME
from latlab.recordings.cell import RecordedStream
from latlab.result.types import Chain

TRANSIT: Final = "transit"
"""The metric of packets that were watched at two points."""
FIRST, SECOND = (f"{name}_tai_ns" for name in METRICS_BY_NAME[TRANSIT].pairs[0])
MOST_STOPS: Final = 16
"""`Split.patterns` has a bit for each stop, in 16."""


@dataclass(frozen=True)
class WatchedPackets:
    """The packets that were watched in a cell: its streams, and their packet table."""

    streams: Sequence[RecordedStream]
    packets: pl.DataFrame

    def hops(self, stream: RecordedStream, values: Values) -> Chain | None:
        """The hops of a stream's packets on the whole path, by the points between its two. None where there are none,
        or it is not from a point that none is before to one that none is behind.

        values: of its `transit`. A packet is known again by the instant at which the first point saw it, which every
        pair from there on has; two of one instant have no hops. All instants are by the clock of the first point.
        """
        if len(stream.points) != 2:
            return None
        pairs, (start, end) = self._pairs(stream), stream.points
        if any(to == start or from_ == end for from_, to in pairs):
            return None
        between = [to for from_, to in pairs if from_ == start and (to, end) in pairs]
        if len(between) + 2 > MOST_STOPS:
            return None
        after = {point: self._after(pairs[start, point], values.at_tai_ns) for point in between}
        seen = [point for point in between if after[point].count()]
        if not seen:
            return None
        stops = (start, *sorted(seen, key=lambda point: after[point].median() or 0), end)
        found = chain_of(
            Ways(
                metric=values.metric.name,
                from_=start,
                to=end,
                sequence=values.sequence,
                value_ns=values.value_ns,
                split_at=lambda places: _split(stops, values, after, places),
            ),
            listed=WORST_TOLD,
        )
        if found is None:
            return None
        two = [any(one.two_clocks for one in pairs.get(hop, ())) for hop in pairwise(found.stops)]
        return found.model_copy(update={"clocks": [TWO_HOSTS if one else ONE_CLOCK for one in two]})

    def _pairs(self, stream: RecordedStream) -> Mapping[tuple[str, str], Sequence[RecordedStream]]:
        """(point, later point) → the streams of the same flow between these two."""
        pairs: dict[tuple[str, str], list[RecordedStream]] = {}
        for one in self.streams:
            if one.flow == stream.flow and len(one.points) == 2:
                pairs.setdefault((one.points[0], one.points[1]), []).append(one)
        return pairs

    def _after(self, streams: Sequence[RecordedStream], first_ns: NDArray[np.int64]) -> pl.Series:
        """How long after the first point, which saw packets at `first_ns`, the second one of these streams saw them,
        ns; null: it did not.
        """
        rows = pl.concat([stream_rows(self.packets, one.stream).select(FIRST, SECOND) for one in streams])
        seen = rows.drop_nulls().unique(FIRST, keep="none").select(FIRST, after=pl.col(SECOND) - pl.col(FIRST))
        return pl.DataFrame({FIRST: first_ns}).join(seen, on=FIRST, how="left", maintain_order="left")["after"]


def _split(stops: tuple[str, ...], values: Values, after: Mapping[str, pl.Series], places: Places) -> Split:
    """The values at these places, int64 [n], as hops between these points."""
    whole_ns = values.value_ns[places]
    at_ns = np.zeros((len(stops), len(whole_ns)), np.int64)
    passed = np.ones(at_ns.shape, np.bool_)
    at_ns[-1] = whole_ns
    for number, point in enumerate(stops[1:-1], start=1):
        passed[number] = after[point].is_not_null().to_numpy()[places]
        at_ns[number] = after[point].fill_null(0).to_numpy()[places]
    return intervals_of(stops, passed, at_ns)
