"""User-defined windows: what is in them, next to the whole run and the clean windows.

They change no other figure: which intervals were looked at is said, by whom and why, and what was passed over there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.anomalies.find import Anomalies
from latlab.analysis.metrics import Values, metric_values
from latlab.analysis.statistics import statistics
from latlab.analysis.windows import clean_windows, launched, launches_within
from latlab.model.metrics import METRICS
from latlab.result.types import Chosen, ChosenWindow, PacketsKept, Statistics


@dataclass(frozen=True)
class Named:
    """A window of launch times, [from, to) in ns from the start of the streams.

    why: in the words of who named it; empty where nothing was said. streams: which it is of; empty: all.
    after_the_fact: it was named when the run had been measured, possibly with its figures known.
    """

    from_ns: int
    to_ns: int
    why: str = ""
    streams: tuple[str, ...] = ()
    after_the_fact: bool = False

    def is_of(self, stream: str) -> bool:
        """Whether it is one of the stream's."""
        return not self.streams or stream in self.streams


def chosen_of(
    rows: pl.DataFrame, anomalies: Anomalies, start_tai_ns: int, period_ns: int, chosen: Sequence[Named]
) -> list[Chosen]:
    """What is in the windows of one stream: an entry for those of the scenario, one for later ones.

    rows: its part of the packet table. start_tai_ns: from when windows count.
    """
    values = {metric.name: metric_values(rows, metric, period_ns) for metric in METRICS} if chosen else {}
    known = {name: found for name, found in values.items() if found is not None}
    sets = ([one for one in chosen if one.after_the_fact == later] for later in (False, True))
    return [_chosen(rows, anomalies, start_tai_ns, known, named) for named in sets if named]


def _chosen(
    rows: pl.DataFrame,
    anomalies: Anomalies,
    start_tai_ns: int,
    values: Mapping[str, Values],
    named: Sequence[Named],
) -> Chosen:
    launch = launched(rows)
    spans = [(start_tai_ns + one.from_ns, start_tai_ns + one.to_ns) for one in named]
    counts = [launches_within(launch, *span) for span in spans]
    found = clean_windows(rows, anomalies, [span for span, count in zip(spans, counts, strict=True) if count])
    together = [(one.from_tai_ns, one.to_tai_ns) for one in found.kept]
    kept = sum(one.packets for one in found.kept)
    return Chosen(
        after_the_fact=named[0].after_the_fact,
        kept=[
            ChosenWindow(
                from_ns=one.from_ns, to_ns=one.to_ns, why=one.why, packets=count, metrics=_figures(values, [span])
            )
            for one, span, count in sorted(zip(named, spans, counts, strict=True), key=lambda found: found[1])
        ],
        cuts=list(found.cuts),
        passed_over=list(found.passed_over),
        packets=PacketsKept(whole=len(launch), kept=kept, cut=len(launch) - kept),
        metrics=_figures(values, together),
    )


def _figures(values: Mapping[str, Values], spans: Sequence[tuple[int, int]]) -> dict[str, Statistics]:
    """{metric: statistics of the packets launched in any of these spans}."""
    found = {}
    for name, one in values.items():
        inside = _inside(one.at_tai_ns, spans)
        found[name] = statistics(one.value_ns[inside], one.sequence[inside])
    return found


def _inside(at: NDArray[np.int64], spans: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    inside = np.zeros(len(at), np.bool_)
    for begin, end in spans:
        inside |= (at >= begin) & (at < end)
    return inside
