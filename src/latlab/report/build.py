"""A run's report: its pictures and its page."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from latlab.evaluation.gates import run_schedules
from latlab.model.errors import reads_files
from latlab.recordings.run_folder import RunFolder, publishing
from latlab.report.charts.files import Charts, PictureFiles, PictureProcess, remove_own_pictures
from latlab.report.charts.sweeps import FrameRooms, sweeps
from latlab.report.files import FIGURES, figures_csv
from latlab.report.html import render
from latlab.report.payload import PAGE_BYTES, WHOLE_BYTES, Payloads, payload_order
from latlab.report.repeats import Strips, drawn
from latlab.report.view import view, views
from latlab.result import load_result


@reads_files
def write_report(
    run: RunFolder | Path,
    *,
    formats: Sequence[str] = ("png",),
    pictured: Collection[str] | None = None,
    budget: int | None = None,
    beside: PictureProcess | None = None,
) -> Path:
    """report.html of a run folder, written with its pictures and figures.csv; the same run gives the same bytes.

    formats: of the pictures: png, svg, pdf; none draws none. Those of an earlier report go. pictured: the metrics to
    draw, next to traces; None: all. budget: how many bytes the page's data may take, None: what is left of PAGE_BYTES,
    and series of at most WHOLE_PACKETS whatever they take; what does not fit packet by packet comes in bins. beside: a
    process that draws meanwhile, the same pictures.
    UsageError, LabError: no such run, or it has no result.
    """
    folder = run if isinstance(run, RunFolder) else RunFolder.open(run)
    result = load_result(folder)
    strips: dict[tuple[str, str], Strips] = {}
    wanted = views(result)
    swept = sweeps(result, FrameRooms(folder).of)
    scheduled = run_schedules(folder)
    # What an earlier analysis drew would stand next to what this one finds.
    remove_own_pictures(folder.pictures_path, result, [one.heading for one in swept])
    every = PictureFiles(Charts(folder, result), formats, pictured) if formats else None
    pictures = None if beside else every
    if beside and every:
        beside.begin(every)
    payloads = Payloads(WHOLE_BYTES if budget is None else 0)
    for stream, metric in sorted(wanted, key=lambda one: payload_order(one[1])):
        shown = view(folder, result, stream, metric)
        payloads.add(shown)
        strips[stream, metric] = drawn(shown)
        if pictures:
            pictures.of_packets(shown)
    if pictures:
        pictures.of_figures()
    with publishing(folder.path / FIGURES) as temporary:
        temporary.write_text(figures_csv(result), encoding="utf-8", newline="")
    page = render(folder, strips, swept, scheduled)
    room = PAGE_BYTES - page.size if budget is None else budget
    whole = page.with_data(payloads.fitting(room, wanted))
    if beside and every:
        beside.finish(every)
    with publishing(folder.report_path) as temporary:
        temporary.write_text(whole, encoding="utf-8")
    return folder.report_path
