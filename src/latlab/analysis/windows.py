"""Clean windows, which leave out what the network did not do, and windows that somebody has named.

Whole run and clean windows stand side by side; nothing is cut without being listed, and nothing that the path did is
cut at all: a stall there is a finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.anomalies.classes import BY_NAME
from latlab.analysis.anomalies.find import Anomalies
from latlab.analysis.confidence import confidence_of
from latlab.analysis.metrics import Values, metric_values
from latlab.analysis.statistics import statistics
from latlab.analysis.way import EXPLAINED
from latlab.analysis.words import cause_in, duration
from latlab.model.metrics import METRICS
from latlab.result.types import (
    Beside,
    Chosen,
    ChosenWindow,
    CleanStatistics,
    Cut,
    Episode,
    KeptWindow,
    PacketsKept,
    PassedOver,
    Statistics,
    Windows,
)

Span = tuple[int, int]

BY_HAND: Final = "user-defined"


@dataclass(frozen=True)
class Selection:
    """What is kept of a stream and what is cut: together all of it after the warm-up, in order of time.

    chosen: whether the windows are user-defined. passed_over: episodes that lie in a window that was named, though they
    would have been cut.
    """

    kept: tuple[KeptWindow, ...]
    cuts: tuple[Cut, ...]
    chosen: bool
    passed_over: tuple[PassedOver, ...] = ()


def clean_windows(rows: pl.DataFrame, anomalies: Anomalies, chosen: Sequence[Span] | None = None) -> Selection:
    """The clean windows of one stream, and what was cut.

    rows: its part of the packet table. Cut are clock swings, drifts and steps, the slow beginning, and throttling of
    our own threads (talker, application): see docs/explanation/anomalies.md. chosen: [from, to) in ns TAI, instead of
    all that; what of them lies outside the stream is left off. ValueError: one of them ends before it begins, or holds
    no packet of the stream.
    """
    launch = launched(rows)
    if not len(launch):
        return Selection((), (), chosen is not None)
    whole = int(launch[0]), int(launch[-1]) + 1
    if chosen is not None:
        return _by_hand(launch, whole, anomalies, chosen)
    cuts = [
        Cut(
            from_tai_ns=begin,
            to_tai_ns=end,
            reason=" + ".join(dict.fromkeys(one.class_ for one in episodes)),
            text=_texts(episodes),
            packets=launches_within(launch, begin, end),
        )
        for begin, end, episodes in _joined(_cut(anomalies), whole)
    ]
    return Selection(_kept(launch, whole, [(cut.from_tai_ns, cut.to_tai_ns) for cut in cuts]), tuple(cuts), False)


def is_cut(episode: Episode) -> bool:
    """Whether clean windows leave the episode out: its class is cut, and it is not the path that was throttled.

    A thread of ours that is throttled is our measurement's doing; a guest's or vhost's is what is measured.
    """
    return BY_NAME[episode.class_].cut and bool(episode.evidence.get("own_thread", True))


def _cut(anomalies: Anomalies) -> list[Episode]:
    return [one for one in anomalies.episodes.of(name for name, class_ in BY_NAME.items() if class_.cut) if is_cut(one)]


def launched(rows: pl.DataFrame) -> NDArray[np.int64]:
    """The launch times after the warm-up, ascending."""
    launch: NDArray[np.int64] = rows["launch_tai_ns"].to_numpy()[int(rows["warmup"].sum()) :]
    return launch


def launches_within(launch: NDArray[np.int64], begin: int, end: int) -> int:
    """How many of these launch times, ascending, are in [begin, end)."""
    first, last = np.searchsorted(launch, (begin, end))
    return int(last - first)


def _joined(episodes: Sequence[Episode], whole: Span) -> list[tuple[int, int, list[Episode]]]:
    """The episodes' intervals within the whole, those that overlap or touch as one."""
    found: list[tuple[int, int, list[Episode]]] = []
    for one in sorted(episodes, key=lambda episode: episode.from_tai_ns):
        begin, end = max(one.from_tai_ns, whole[0]), min(one.to_tai_ns, whole[1])
        if begin >= end:
            continue
        if found and begin <= found[-1][1]:
            before, last, inside = found[-1]
            found[-1] = before, max(last, end), [*inside, one]
        else:
            found.append((begin, end, [one]))
    return found


def _texts(episodes: Sequence[Episode]) -> str:
    """What several have in common is said once, with the figures of the first."""
    of_cause: dict[str, str] = {}
    for one in episodes:
        of_cause.setdefault(cause_in(one.text), one.text)
    texts = list(of_cause.values())
    more = len(texts) - SAID
    return "; ".join(texts[:SAID]) + (f"; and {more} more" if more > 0 else "")


SAID: Final = 3
"""The number of episodes that one cut lists."""


def _kept(launch: NDArray[np.int64], whole: Span, cuts: Sequence[Span]) -> tuple[KeptWindow, ...]:
    """What the cuts leave of the whole, as far as there are packets in it."""
    edges = [whole[0], *(edge for cut in cuts for edge in cut), whole[1]]
    kept = _windows(launch, zip(edges[::2], edges[1::2], strict=True))
    return tuple(one for one in kept if one.packets)


def _windows(launch: NDArray[np.int64], spans: Iterable[Span]) -> Iterator[KeptWindow]:
    for begin, end in spans:
        yield KeptWindow(from_tai_ns=begin, to_tai_ns=end, packets=launches_within(launch, begin, end))


def _by_hand(launch: NDArray[np.int64], whole: Span, anomalies: Anomalies, chosen: Sequence[Span]) -> Selection:
    spans: list[Span] = []
    for begin, end in sorted(chosen):
        inside = max(begin, whole[0]), min(end, whole[1])
        if begin >= end:
            raise ValueError(f"the window from {begin} to {end} ns ends before it begins")
        if inside[0] >= inside[1] or not launches_within(launch, *inside):
            first, last = (duration(edge - whole[0]) for edge in (begin, end))
            raise ValueError(
                f"the window from {first} to {last} after the first packet contains no packet of the stream"
            )
        if spans and inside[0] <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], inside[1])
        else:
            spans.append(inside)
    edges = [whole[0], *(edge for span in spans for edge in span), whole[1]]
    outside = [
        (begin, end) for begin, end in zip(edges[::2], edges[1::2], strict=True) if launches_within(launch, begin, end)
    ]
    cuts = [
        Cut(
            from_tai_ns=begin,
            to_tai_ns=end,
            reason=BY_HAND,
            text="outside the windows that were chosen",
            packets=launches_within(launch, begin, end),
        )
        for begin, end in outside
    ]
    passed = [
        PassedOver(class_=one.class_, text=one.text)
        for one in _cut(anomalies)
        if any(one.from_tai_ns < end and one.to_tai_ns > begin for begin, end in spans)
    ]
    kept = tuple(_windows(launch, spans))
    return Selection(kept, tuple(cuts), True, tuple(passed))


def clean_rows(rows: pl.DataFrame, windows: Selection) -> pl.DataFrame:
    """The rows of the warm-up, which are in no statistic, and of those launched in a clean window."""
    launch = rows["launch_tai_ns"].to_numpy()
    taken = rows["warmup"].to_numpy().copy()
    for one in windows.kept:
        first, last = np.searchsorted(launch, (one.from_tai_ns, one.to_tai_ns))
        taken[first:last] |= True
    return rows.filter(pl.Series(taken))


def windows_of(rows: pl.DataFrame, windows: Selection, period_ns: int, chosen: Sequence[Chosen] = ()) -> Windows:
    """Whole run and clean windows side by side; chosen: user-defined ones next to them.

    Of no clean window n is 0. Where something is cut, the clean windows' latencies have their `confidence`, as the
    whole's have among its metrics: packets on both sides of a cut are taken for neighbours, as those on both sides of a
    loss are.
    """
    clean = clean_rows(rows, windows)
    metrics = {}
    for metric in METRICS:
        whole = metric_values(rows, metric, period_ns)
        if whole is None:
            continue
        found = statistics(whole.value_ns, whole.sequence)
        kept = CleanStatistics(**vars(found))
        if windows.cuts:
            # Taken from the whole, so that both are of the same timestamps, and offsets from the same first packet.
            inside = np.isin(whole.sequence, clean["sequence"].to_numpy(), assume_unique=True)
            kept = CleanStatistics(**vars(statistics(whole.value_ns[inside], whole.sequence[inside])))
            if metric.name in EXPLAINED and kept.n:
                kept = kept.model_copy(update={"confidence": confidence_of(whole.value_ns[inside], kept)})
        metrics[metric.name] = Beside(whole=found, clean=kept)
    counted = len(launched(rows))
    cut = sum(one.packets for one in windows.cuts)
    return Windows(
        kept=list(windows.kept),
        cuts=list(windows.cuts),
        packets=PacketsKept(whole=counted, kept=counted - cut, cut=cut),
        metrics=metrics,
        chosen=list(chosen),
    )


# User-defined windows: what is in them, next to the whole run and the clean windows.
#
# They change no other figure: which intervals were looked at is said, by whom and why, and what was passed over there.


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
