"""The anomalies of one stream: every detector in its turn, and the document of what they found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.anomalies.beginning import find_warm_up
from latlab.analysis.anomalies.classes import CLASSES, CODE
from latlab.analysis.anomalies.context import Context
from latlab.analysis.anomalies.counted import find_duplicates, find_loss_bursts, find_reordered
from latlab.analysis.anomalies.found import Found, Seen
from latlab.analysis.anomalies.held import find_holds, find_stalls, find_throttled
from latlab.analysis.anomalies.judged import LateLimits, late_limits
from latlab.analysis.anomalies.levels import find_levels
from latlab.analysis.anomalies.oscillation import find_oscillation, note_oscillation
from latlab.analysis.anomalies.regular import find_periodic
from latlab.analysis.anomalies.shifts import find_shifts
from latlab.analysis.anomalies.signals import make_signals
from latlab.analysis.anomalies.singles import find_late_senders, find_missed_slots, find_unexplained
from latlab.analysis.anomalies.thresholds import THRESHOLDS, Thresholds

Detector = Callable[[Seen], Iterator[Found]]

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


@dataclass(frozen=True, slots=True)
class Episode:
    """Something that happened, from one packet to another.

    number: its place among the stream's episodes, from 1. class_: a name of CLASSES. from_tai_ns, to_tai_ns: from the
    launch of the first packet until a period after that of the last. from_sequence, to_sequence: those two packets,
    both included. packets: how many of its class are in it; 0 of an episode that tells how others come. severity: the
    larger, the worse, within a class. evidence: figures, ready for JSON. text: one sentence.
    """

    number: int
    class_: str
    from_tai_ns: int
    to_tai_ns: int
    from_sequence: int
    to_sequence: int
    packets: int
    severity: float
    evidence: Mapping[str, Any]
    text: str


@dataclass(frozen=True)
class Anomalies:
    """What is the matter with a stream.

    class_of uint8 [rows]: by row of the stream, which is by sequence: the code of its class (CODE), 0 for nothing;
    packets of the warm-up have none. episode_of uint32 [rows]: the number of the episode that it has its class by, 0
    for none. episodes: by class, in the order of CLASSES, and by time. limits: what packets were held against; None
    where none was judged.
    """

    class_of: NDArray[np.uint8]
    episode_of: NDArray[np.uint32]
    episodes: list[Episode]
    limits: LateLimits | None = None


def find_anomalies(rows: pl.DataFrame, context: Context, thresholds: Thresholds = THRESHOLDS) -> Anomalies:
    """The anomalies of one stream.

    rows: its part of the packet table (docs/formats.md), by sequence, one row a scheduled packet.
    """
    signals = make_signals(rows, context, thresholds)
    seen = Seen(signals, find_holds(signals) if len(signals.row) else [])
    note_oscillation(seen)
    for detector in DETECTORS:
        # All of a detector's findings before any is taken: none of its own claims is in its way.
        for one in list(detector(seen)):
            seen.take(one)
    rank = {one.name: number for number, one in enumerate(CLASSES)}
    order = sorted(range(len(seen.found)), key=lambda at: (rank[seen.found[at].name], seen.found[at].first))
    number_of = np.zeros(len(order) + 1, np.uint32)
    number_of[np.array(order, np.int64) + 1] = np.arange(1, len(order) + 1)
    episodes = _episodes(seen, [seen.found[at] for at in order])
    return Anomalies(seen.class_of, number_of[seen.taken_by], episodes, late_limits(signals))


def _episodes(seen: Seen, found: list[Found]) -> list[Episode]:
    # Of all at once: where a stream has hundreds of thousands, one by one takes longer than all else.
    ends = seen.signals.rows.select("launch_tai_ns", "sequence")
    first, last = (
        ends[np.array(rows, np.int64)] for rows in ([one.first for one in found], [one.last for one in found])
    )
    from_ns, to_ns = first["launch_tai_ns"].to_list(), last["launch_tai_ns"].to_list()
    from_sequence, to_sequence = first["sequence"].to_list(), last["sequence"].to_list()
    return [
        Episode(
            number=number,
            class_=one.name,
            from_tai_ns=from_ns[number - 1],
            to_tai_ns=to_ns[number - 1] + seen.signals.context.period_ns,
            from_sequence=from_sequence[number - 1],
            to_sequence=to_sequence[number - 1],
            packets=_count(seen, one),
            severity=one.severity,
            evidence=one.evidence,
            text=one.text,
        )
        for number, one in enumerate(found, start=1)
    ]


def _count(seen: Seen, one: Found) -> int:
    if one.packets is not None:
        return one.packets
    if one.first == one.last and one.rows is not None:
        return int(seen.class_of[one.first] == CODE[one.name])
    rows = seen.signals.between(one.first, one.last) if one.rows is None else one.rows
    return int(np.count_nonzero(seen.class_of[rows] == CODE[one.name]))


def anomalies_document(anomalies: Anomalies, shown: int = SHOWN) -> dict[str, Any]:
    """What was found, ready for JSON, of the classes that occur.

    {class: {"title", "meaning", "packets", "episodes", "worst", "shown": […]}}. packets: of the class; episodes: how
    many there are in all; worst: the text of the most severe. shown: the most severe of them, `shown` at most, by time,
    whole.
    """
    counts = np.bincount(anomalies.class_of, minlength=len(CLASSES) + 1)
    document: dict[str, Any] = {}
    for code, one in enumerate(CLASSES, start=1):
        episodes = [episode for episode in anomalies.episodes if episode.class_ == one.name]
        if not episodes:
            continue
        worst = sorted(episodes, key=lambda episode: -episode.severity)[:shown]
        document[one.name] = {
            "title": one.title,
            "meaning": one.meaning,
            "packets": int(counts[code]),
            "episodes": len(episodes),
            "worst": worst[0].text,
            "shown": [episode_document(e) for e in sorted(worst, key=lambda episode: episode.from_tai_ns)],
        }
    return document


def episode_document(episode: Episode) -> dict[str, Any]:
    """An episode, ready for JSON."""
    return {
        "number": episode.number,
        "class": episode.class_,
        "from_tai_ns": episode.from_tai_ns,
        "to_tai_ns": episode.to_tai_ns,
        "from_sequence": episode.from_sequence,
        "to_sequence": episode.to_sequence,
        "packets": episode.packets,
        "severity": episode.severity,
        "evidence": dict(episode.evidence),
        "text": episode.text,
    }
