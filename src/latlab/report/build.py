"""A run's report: its pictures and its page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from latlab.data.run_folder import RunFolder, publishing
from latlab.report.html import render
from latlab.report.payload import SAMPLE_BUDGET, view_payload
from latlab.report.repeats import Strips, drawn
from latlab.report.testbed import label_text
from latlab.report.view import METRIC_ORDER, view, views


def write_report(
    run: RunFolder | Path, *, formats: Sequence[str] = ("png",), sample_budget: int = SAMPLE_BUDGET
) -> Path:
    """report.html of a run folder, written with its pictures; the same run gives the same bytes.

    formats: of the pictures: png, svg, pdf; none draws none. sample_budget: how many samples the page may
    hold one by one; metrics are taken in METRIC_ORDER, and those beyond it come in bins. UsageError,
    LabError: no such run, or it has no result.
    """
    if formats:
        # matplotlib takes a while to import: only who wants pictures pays for it.
        from latlab.report.pictures import write_pictures

    folder = run if isinstance(run, RunFolder) else RunFolder.open(run)
    result = folder.result()
    label, verdict = label_text(result), f"verdict: {result['verdict']}"
    caption = " · ".join((label, verdict, result["scenario"], result["run"]))
    payloads: dict[tuple[str, str], dict[str, Any]] = {}
    strips: dict[tuple[str, str], Strips] = {}
    wanted = views(result)
    for stream, metric in sorted(wanted, key=lambda one: METRIC_ORDER.index(one[1])):
        shown = view(folder, result, stream, metric)
        samples = sum(len(trace.value_ns) for trace in shown.traces)
        raw = samples <= sample_budget
        sample_budget -= samples if raw else 0
        payloads[stream, metric] = view_payload(shown, raw=raw)
        strips[stream, metric] = drawn(shown)
        if formats:
            write_pictures(shown, folder.pictures_path, caption=caption, formats=formats)
    page = render(folder, [payloads[one] for one in wanted], strips)
    with publishing(folder.report_path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return folder.report_path
