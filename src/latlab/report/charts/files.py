"""Every chart of a run, as files and by name: one list for both."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property, partial
from multiprocessing import get_context
from pathlib import Path
from types import TracebackType
from typing import Final

from latlab.analysis.reception import RECEPTION
from latlab.evaluation.gates import run_schedules
from latlab.model.metrics import METRICS_BY_NAME
from latlab.recordings.run_folder import RunFolder
from latlab.report import rows
from latlab.report.charts.chain import chain_chart, chain_views
from latlab.report.charts.clocks import clock_charts, clock_drawings
from latlab.report.charts.comparison import compared_metrics, comparison_chart
from latlab.report.charts.gates import gates_chart
from latlab.report.charts.repeats import repeats_chart, together_chart
from latlab.report.charts.sheet import FORMATS, Drawing, Plotted, file_stem, write_chart
from latlab.report.charts.sweep import sweep_chart
from latlab.report.charts.sweeps import FrameRooms, sweeps
from latlab.report.charts.tail import tail_chart, tail_views
from latlab.report.charts.timers import timer_chart, timer_ranges
from latlab.report.testbed import label_text
from latlab.report.view import View, view, views
from latlab.result import load_result
from latlab.result.types import Result

Chart = Drawing | Plotted
OF_PACKETS: Final = ("series", "ccdf", "repeats", "together")
OF_FIGURES: Final = ("chain", "comparison", "tail", "sweep", "clocks", "timers", "gates")
KINDS: Final = (*OF_PACKETS, *OF_FIGURES)
WORTH_CELLS: Final = 4
"""With fewer cells the pictures are drawn before a process has imported what draws them."""


@dataclass(frozen=True)
class Charts:
    """All charts of a run that has this result."""

    folder: RunFolder
    result: Result

    @property
    def caption(self) -> str:
        """What stands below each title."""
        label, verdict = label_text(self.result), f"verdict: {self.result.verdict}"
        return " · ".join((label, verdict, self.result.scenario, self.result.run))

    def of(self, kind: str, stream: str | None = None, metric: str | None = None) -> Iterator[Chart]:
        """Those of a kind, one of KINDS; of this stream and metric, where one is given."""
        wanted = stream, metric
        if kind in OF_PACKETS:
            for one in views(self.result):
                if all(asked in (None, has) for asked, has in zip(wanted, one, strict=True)):
                    yield from (chart for name, chart in self.of_packets(self.view(*one)) if name == kind)
            return
        for name, whose, make in self.of_figures():
            if name == kind and all(asked in (None, has) for asked, has in zip(wanted, whose, strict=True)):
                yield from make()

    def view(self, stream: str, metric: str) -> View:
        """What every packet of a stream has of a metric."""
        return view(self.folder, self.result, stream, metric)

    def of_packets(self, shown: View) -> Iterator[tuple[str, Chart]]:
        """(kind, chart) of what needs every packet."""
        makers: tuple[Callable[[View], Chart | None], ...] = (
            _plotted("series_chart"),
            _plotted("ccdf_chart"),
            partial(repeats_chart, self.result),
            partial(together_chart, self.result),
        )
        for kind, make in zip(OF_PACKETS, makers, strict=True):
            if chart := make(shown):
                yield kind, chart

    def of_figures(self) -> Iterator[tuple[str, tuple[str, str], Callable[[], Iterable[Chart]]]]:
        """(kind, (stream, metric), what makes its charts) of what needs figures alone, clocks over time, and gates."""
        result = self.result
        for whose, chain in chain_views(result).items():
            yield "chain", whose, partial(_alone, chain_chart, chain)
        for one in compared_metrics(result):
            for stream in dict.fromkeys(group.stream for group in one.groups):
                panels = [
                    (group.title, group.panels) for group in one.groups if group.stream == stream and group.panels
                ]
                make = partial(comparison_chart, stream, one.metric, one.summary, panels, one.notes)
                yield "comparison", (stream, one.metric), partial(_alone, make)
        for whose, tail in tail_views(result).items():
            yield "tail", whose, partial(_alone, tail_chart, tail)
        for sweep in sweeps(result, FrameRooms(self.folder).of):
            yield "sweep", (sweep.stream, sweep.metric), partial(_alone, sweep_chart, sweep)
        yield "clocks", ("", ""), lambda: clock_drawings(clock_charts(self.folder, result))
        if ranges := timer_ranges(result):
            yield "timers", ("", ""), partial(_alone, timer_chart, ranges)
        if scheduled := run_schedules(self.folder):
            labels = {cell.slug: cell.cell for cell in result.cells}
            yield "gates", ("", ""), partial(_alone, gates_chart, result.scenario, scheduled, labels)


def _plotted(name: str) -> Callable[[View], Chart]:
    """What needs all of matplotlib, which takes a while to import."""

    def make(shown: View) -> Chart:
        from latlab.report.charts import series

        made: Chart = getattr(series, name)(shown)
        return made

    return make


def _alone(make: Callable[..., Chart], *shown: object) -> tuple[Chart]:
    return (make(*shown),)


@dataclass(frozen=True)
class PictureFiles:
    """Draws into a run's folder. formats: of FORMATS, at least one. metrics: to be drawn, next to traces; None: all."""

    charts: Charts
    formats: Sequence[str]
    metrics: Collection[str] | None

    @cached_property
    def drawings(self) -> list[Callable[[], None]]:
        """Every picture, each to be drawn whenever; the same ones in the same order for the same run."""
        of_packets = [partial(self._of_view, *one) for one in views(self.charts.result) if self._is_wanted(one[1])]
        return [*of_packets, *self._of_figures()]

    def of_packets(self, shown: View) -> None:
        """Draw what needs every packet."""
        if self._is_wanted(shown.metric):
            for _, chart in self.charts.of_packets(shown):
                self._write(chart)

    def of_figures(self) -> None:
        """Draw all others."""
        for draw in self._of_figures():
            draw()

    def _of_view(self, stream: str, metric: str) -> None:
        self.of_packets(self.charts.view(stream, metric))

    def _of_figures(self) -> Iterator[Callable[[], None]]:
        for _, (_, metric), make in self.charts.of_figures():
            if metric in ("", RECEPTION) or self._is_wanted(metric):
                yield partial(self._write_all, make)

    def _write_all(self, make: Callable[[], Iterable[Chart]]) -> None:
        for chart in make():
            self._write(chart)

    def _write(self, chart: Chart) -> None:
        with _collected_afterwards():
            folder = self.charts.folder.pictures_path
            write_chart(chart, folder, caption=self.charts.caption, formats=self.formats)

    def _is_wanted(self, metric: str) -> bool:
        return self.metrics is None or metric in self.metrics


@contextmanager
def _collected_afterwards() -> Iterator[None]:
    """Garbage is collected once, at the end: a figure lives until it is written, and looking through its tens of
    thousands of parts again and again meanwhile takes a tenth of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
        # All that came meanwhile is of the youngest generation.
        gc.collect(0)


# A second process that draws


def picture_process(folder: RunFolder, formats: Sequence[str]) -> PictureProcess | None:
    """The process, to be entered; None where it would be no help: few cells, no pictures, or one CPU."""
    helps = formats and len(os.sched_getaffinity(0)) > 1 and len(folder.cells()) >= WORTH_CELLS
    return PictureProcess(folder) if helps else None


class PictureProcess:
    """A context: within it a process draws pictures, while this one analyses and writes the page. It is a help and no
    more: what it does not draw, for whatever reason, is drawn here.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._begun: list[Future[None]] = []

    def __enter__(self) -> PictureProcess:
        self._pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        self._pool.submit(_warm)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.shutdown(wait=kind is None, cancel_futures=True)

    def begin(self, files: PictureFiles) -> None:
        """Let the process draw all of them, from the first one on. The result is written already."""
        path, metrics = self._folder.path.resolve(), None if files.metrics is None else tuple(files.metrics)
        with suppress(BrokenProcessPool):
            for number in range(len(files.drawings)):
                self._begun.append(self._pool.submit(_draw, path, tuple(files.formats), metrics, number))

    def finish(self, files: PictureFiles) -> None:
        """Wait until every picture is there. The last ones are drawn here while the process draws those before them."""
        for number, draw in reversed(list(enumerate(files.drawings))):
            future = self._begun[number] if number < len(self._begun) else None
            try:
                if future and not future.cancel():
                    future.result()
                    continue
            except (BrokenProcessPool, OSError):
                pass  # its error is that of the same drawing here
            draw()


def _warm() -> None:
    """Import what draws."""
    from latlab.report.charts import series

    assert series


@cache
def _files(path: Path, formats: tuple[str, ...], metrics: tuple[str, ...] | None) -> PictureFiles:
    folder = RunFolder(path)
    return PictureFiles(Charts(folder, load_result(folder)), formats, metrics)


def _draw(path: Path, formats: tuple[str, ...], metrics: tuple[str, ...] | None, number: int) -> None:
    _files(path, formats, metrics).drawings[number]()


# Which files are the report's own

_OF_A_METRIC: Final = ("", "-ccdf", "-repeats", "-together", "-chain", "-tail", "-comparison")
_OF_THE_RUN: Final = r"(clocks|gates|timers)(-\d+)?"


def remove_own_pictures(folder: Path, result: Result, headings: Iterable[str]) -> None:
    """Remove the pictures that an earlier report wrote into the folder, and no other file.

    headings: of the sweeps, as their pictures have them in their names.
    """
    suffixes = (*_OF_A_METRIC, *(f"-by-{heading}" for heading in headings))
    stems = {
        file_stem(f"{stream}-{metric}{suffix}")
        for stream in rows.stream_names(result)
        for metric in METRICS_BY_NAME
        for suffix in suffixes
    }
    for path in folder.glob("*"):
        own = path.stem in stems or re.fullmatch(_OF_THE_RUN, path.stem)
        if own and path.suffix.removeprefix(".") in FORMATS and path.is_file():
            path.unlink()
