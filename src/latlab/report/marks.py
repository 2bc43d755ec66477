"""What is marked in series over time: anomalies by class, what clean windows cut, user-defined windows.

A class is marked by a letter in a shape, never by a colour: squares are what happened to packets on their path, circles
what single late packets were, diamonds what moved all of them, hexagons what is the measurement's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl

from latlab.analysis.anomalies import CLASSES
from latlab.model.errors import check_is_file
from latlab.model.metrics import METRICS_BY_NAME
from latlab.recordings.cell import RecordedCell, RecordedStream
from latlab.recordings.run_folder import RunFolder
from latlab.report import rows
from latlab.result.types import Chosen, Result, Stream
from latlab.scenario import format_duration

SQUARE, CIRCLE, DIAMOND, HEXAGON = "square", "circle", "diamond", "hexagon"

GLYPHS: Final[Mapping[str, tuple[str, str]]] = {one.name: (one.letter, one.shape) for one in CLASSES if one.letter}
"""{class: its letter and shape}, of those whose packets are known."""

PLACES_OF: Final[Mapping[str, frozenset[str]]] = {
    name: frozenset(metric.places) for name, metric in METRICS_BY_NAME.items() if metric.places
}
"""{metric: the places that a packet passes in it}; the others go all the way."""
_HAPPENS: Final[Mapping[str, frozenset[str]]] = {one.name: frozenset(one.places) for one in CLASSES if one.places}
"""{class: where it happens}, of those whose episodes do not say it; what is lost or overtaken is so in every metric."""

CUT_LABEL: Final = "cut from the clean windows"
CHOSEN_LABEL: Final = "user-defined window"
MARKED_MOST: Final = 400
"""The number of episodes of a class marked in one series of the page: those that are listed first, then evenly."""


Payload = dict[str, Any]
"""Data of the page, as its script reads them."""


@dataclass(frozen=True)
class Mark:
    """An episode in a series. from_ns, to_ns: of launch times, after the cell's start. text: empty where none is kept.

    severity: the larger, the worse, within a class; 0 where it is not kept. where: the place it happened at; empty
    where that is not known.
    """

    class_: str
    number: int
    from_ns: int
    to_ns: int
    severity: float = 0.0
    text: str = ""
    where: str = ""

    def is_seen_in(self, metric: str) -> bool:
        """Whether its packets are late in the metric, as far as is known where they were held."""
        passed = PLACES_OF.get(metric)
        places = frozenset({self.where}) if self.where else _HAPPENS.get(self.class_)
        return passed is None or places is None or bool(passed & places)


@dataclass(frozen=True)
class Stretch:
    """A part of a series, [from, to) ns after the cell's start, and what there is to say of it."""

    from_ns: int
    to_ns: int
    text: str


@dataclass(frozen=True)
class Marks:
    """All that is marked in one series. episodes: {class: how many there are}, of those that can be marked.

    told: the episodes that the result lists. cuts: what clean windows leave out; chosen: user-defined windows.
    """

    episodes: Mapping[str, int]
    told: tuple[Mark, ...]
    cuts: tuple[Stretch, ...]
    chosen: tuple[Stretch, ...]

    def seen_in(self, metric: str) -> Marks:
        """Those that are seen in the series of one metric: a late sender is none of the path's."""
        told = tuple(one for one in self.told if one.is_seen_in(metric))
        elsewhere = [one.class_ for one in self.told if not one.is_seen_in(metric)]
        episodes = {
            name: 0 if not Mark(name, 0, 0, 0).is_seen_in(metric) else count - elsewhere.count(name)
            for name, count in self.episodes.items()
        }
        return replace(self, episodes={name: count for name, count in episodes.items() if count}, told=told)


NO_MARKS: Final = Marks({}, (), (), ())


def marks_of(block: Stream, stream: RecordedStream, cell: RecordedCell) -> Marks:
    """The marks of one stream of one cell. block: its part of the result; stream, cell: its entry of cell.json, which.

    Empty where the result has no anomalies, as of imported cells.
    """
    start = cell.start_of(stream)
    found = block.anomalies or {}
    told = tuple(
        Mark(
            name,
            one.number,
            one.from_tai_ns - start,
            one.to_tai_ns - start,
            one.severity,
            one.text,
            str(one.evidence.get("where", "")),
        )
        for name, of_class in found.items()
        if name in GLYPHS
        for one in of_class.shown
    )
    windows = block.windows
    cuts = windows.cuts if windows else []
    chosen = windows.chosen if windows else []
    episodes = {name: of_class.episodes for name, of_class in found.items() if name in GLYPHS}
    left_out = (Stretch(one.from_tai_ns - start, one.to_tai_ns - start, one.text) for one in cuts)
    return Marks(episodes, told, tuple(left_out), tuple(_chosen(chosen)))


def _chosen(sets: Iterable[Chosen]) -> Iterator[Stretch]:
    for one in sets:
        for kept in one.kept:
            span = f"{format_duration(kept.from_ns)} to {format_duration(kept.to_ns)}"
            later = ", after the fact" if one.after_the_fact else ""
            why = f": {kept.why}" if kept.why else ""
            yield Stretch(kept.from_ns, kept.to_ns, f"{span}, user-defined{later}{why}")


def page_marks(folder: RunFolder, result: Result) -> Payload:
    """What the page's script draws, ready for JSON.

    {"classes": {class: {"letter", "shape", "title", "meaning"}}, "places": {metric: the places a packet passes in it},
    "streams": {stream: {`SLUG/rN`: {"episodes": {class: {"of", "number", "from", "length", "text": {number: …},
    "where": {number: …}}}, "cuts": [{"from", "to", "text"}], "chosen": […]}}}}; all times in ns after the cell's start.
    A class whose episodes are all at some places has these as `places`.
    """
    streams: dict[str, Payload] = {}
    for outcome in rows.ordered_cells(result):
        if not outcome.streams:
            continue
        cell_folder = folder.cell(outcome.slug, outcome.repeat)
        cell = cell_folder.cell()
        path = cell_folder.classes_path
        check_is_file(path, "remove it, then: latlab report RUN")
        classes = pl.scan_parquet(path) if path.exists() else None
        for stream in cell.streams:
            block = outcome.streams.get(stream.name)
            if block is None:
                continue
            marks = marks_of(block, stream, cell)
            if marks != NO_MARKS:
                of_stream = None if classes is None else classes.filter(pl.col("stream") == stream.stream)
                streams.setdefault(stream.name, {})[outcome.key] = _payload(marks, of_stream, stream)
    places = {metric: sorted(passed) for metric, passed in PLACES_OF.items()}
    return {"classes": _classes(), "places": places, "streams": streams}


def _classes() -> dict[str, Payload]:
    return {
        one.name: {"letter": letter, "shape": shape, "title": one.title, "meaning": one.meaning}
        | ({"places": sorted(_HAPPENS[one.name])} if one.name in _HAPPENS else {})
        for one in CLASSES
        if one.name in GLYPHS
        for letter, shape in [GLYPHS[one.name]]
    }


def _payload(marks: Marks, classes: pl.LazyFrame | None, stream: RecordedStream) -> Payload:
    every = every_mark(marks, classes, stream.offset_ns, stream.period_ns or 0)
    episodes = {}
    for name, count in marks.episodes.items():
        shown = [one for one in every if one.class_ == name]
        episodes[name] = {
            "of": count,
            "number": [one.number for one in shown],
            "from": [one.from_ns for one in shown],
            "length": [one.to_ns - one.from_ns for one in shown],
            "text": {str(one.number): one.text for one in shown if one.text},
            "where": {str(one.number): one.where for one in shown if one.where},
        }
    return {
        "episodes": episodes,
        "cuts": [{"from": one.from_ns, "to": one.to_ns, "text": one.text} for one in marks.cuts],
        "chosen": [{"from": one.from_ns, "to": one.to_ns, "text": one.text} for one in marks.chosen],
    }


def every_mark(marks: Marks, classes: pl.LazyFrame | None, offset_ns: int, period_ns: int) -> list[Mark]:
    """The marks of all episodes, by time, of each class MARKED_MOST at most.

    classes: the stream's rows of classes.parquet, which has those that the result does not report; None: there is no
    such file.
    """
    told = {name: [one for one in marks.told if one.class_ == name] for name in GLYPHS}
    kept = [one for of_class in told.values() for one in of_class]
    if classes is not None:
        spans = (
            classes.filter(pl.col("episode").is_not_null())
            .group_by("episode")
            .agg(
                pl.col("class").first().cast(pl.String),
                pl.col("sequence").min().alias("first"),
                pl.col("sequence").max().alias("last"),
            )
            .filter(~pl.col("episode").is_in([one.number for one in marks.told]))
            .sort("first", "episode")
            .collect()
        )
        # A stream may have millions of them: of each class only those that are marked are looked at one by one.
        for name, of_class in spans.partition_by("class", as_dict=True).items():
            others = _evenly(of_class, MARKED_MOST - len(told.get(name[0], ())))
            kept += [
                Mark(name[0], number, offset_ns + first * period_ns, offset_ns + (last + 1) * period_ns)
                for number, first, last in others.select("episode", "first", "last").iter_rows()
                if name[0] in GLYPHS
            ]
    return sorted(kept, key=lambda one: (one.from_ns, one.number))


def _evenly(spans: pl.DataFrame, most: int) -> pl.DataFrame:
    """So many of them at most, evenly."""
    if spans.height <= most:
        return spans
    return spans[np.linspace(0, spans.height - 1, most).astype(int)] if most > 0 else spans.clear()
