"""Every picture of a report as files: imports matplotlib, which takes a while; only who wants pictures pays for it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from latlab.analysis.reception import RECEPTION
from latlab.recordings.run_folder import RunFolder
from latlab.report.chain_pictures import write_chain_picture
from latlab.report.chains import chain_views
from latlab.report.clock_pictures import write_clock_pictures
from latlab.report.clock_series import clock_charts
from latlab.report.comparison.page import compared_metrics
from latlab.report.comparison.pictures import write_comparison_pictures
from latlab.report.frame_rooms import FrameRooms
from latlab.report.gates_picture import write_schedules
from latlab.report.pictures import write_pictures
from latlab.report.repeat_pictures import write_repeats_picture
from latlab.report.schedules import run_schedules
from latlab.report.sweep_pictures import write_sweep_picture
from latlab.report.sweeps import sweeps
from latlab.report.tail_pictures import write_tail_picture
from latlab.report.tail_view import tail_views
from latlab.report.testbed import label_text
from latlab.report.timer_pictures import write_timer_picture
from latlab.report.timer_ranges import timer_ranges
from latlab.report.together_pictures import write_together_picture
from latlab.report.view import View, view, views
from latlab.result.types import Result


@dataclass(frozen=True)
class PictureFiles:
    """Draws into a run's folder.

    caption: of every picture. formats: png, svg, pdf, at least one. metrics: what is drawn, next to traces;
    None: all.
    """

    folder: RunFolder
    result: Result
    caption: str
    formats: Sequence[str]
    metrics: Collection[str] | None

    @classmethod
    def of_run(
        cls, folder: RunFolder, result: Result, formats: Sequence[str], metrics: Collection[str] | None
    ) -> PictureFiles:
        """Those of a run that has this result."""
        label, verdict = label_text(result), f"verdict: {result.verdict}"
        caption = " · ".join((label, verdict, result.scenario, result.run))
        return cls(folder, result, caption, formats, metrics)

    def drawings(self) -> list[Callable[[], None]]:
        """Every picture, each to be drawn whenever; the same ones in the same order for the same run."""
        return [*self._of_every_packet(), *self._of_figures()]

    def of_packets(self, shown: View) -> None:
        """Draw series, histograms and CCDFs, and repetitions next to each other."""
        if self._is_wanted(shown.metric):
            self._draw(write_pictures, shown)
            self._draw(partial(write_repeats_picture, self.result), shown)
            self._draw(partial(write_together_picture, self.result), shown)

    def of_figures(self) -> None:
        """Draw what needs figures alone, clocks over time, and gate schedules."""
        for draw in self._of_figures():
            draw()

    def _of_every_packet(self) -> Iterator[Callable[[], None]]:
        for stream, metric in views(self.result):
            if self._is_wanted(metric):
                yield partial(self._of_view, stream, metric)

    def _of_view(self, stream: str, metric: str) -> None:
        self.of_packets(view(self.folder, self.result, stream, metric))

    def _of_figures(self) -> Iterator[Callable[[], None]]:
        kinds: Iterable[tuple[Callable[..., Any], Iterable[Any]]] = (
            (write_chain_picture, chain_views(self.result).values()),
            (write_comparison_pictures, compared_metrics(self.result)),
            (write_tail_picture, tail_views(self.result).values()),
            (write_sweep_picture, sweeps(self.result, FrameRooms(self.folder).of)),
        )
        for write, every in kinds:
            for shown in every:
                if shown.metric == RECEPTION or self._is_wanted(shown.metric):
                    yield partial(self._draw, write, shown)
        yield lambda: self._draw(write_clock_pictures, clock_charts(self.folder, self.result))
        if ranges := timer_ranges(self.result):
            yield partial(self._draw, write_timer_picture, ranges)
        if scheduled := run_schedules(self.folder):
            yield partial(self._draw, write_schedules, scheduled)

    def _draw(self, write: Callable[..., Any], shown: Any) -> None:
        with _collected_afterwards():
            write(shown, self.folder.pictures_path, caption=self.caption, formats=self.formats)

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
