"""What of a run can be taken elsewhere: its figures as CSV, and links from the page to the files next to it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from latlab.analysis.statistics import NAMES
from latlab.model.statistics import LOW_PERCENTILES, PERCENTILES
from latlab.recordings.run_folder import RunFolder
from latlab.report import rows
from latlab.report.rows import VARIATION_FORMS
from latlab.result.places import cell_title
from latlab.result.types import Metric, Result, Statistics

FIGURES: Final = "figures.csv"
_WITHOUT_UNIT: Final = frozenset({"n", "min_sequence", "max_sequence"})
_COUNTS: Final = ("lost", "duplicated", "reordered", "missing", "unbounded")
_FIGURES: Final = (*NAMES[:1], *_COUNTS, *NAMES[1:])
_ESTIMATES: Final = ("mean", "stddev", *PERCENTILES)
_INTERVALS: Final = tuple(f"{name}_{end}_ns" for name in _ESTIMATES for end in ("low", "high"))
_VARIED: Final = tuple(LOW_PERCENTILES)


@dataclass(frozen=True)
class FileLink:
    """A file of the run folder. address: relative to the page, as a URL has it."""

    text: str
    address: str
    what: str


def figures_csv(result: Result) -> str:
    """Every statistic as CSV (RFC 4180): a row a cell, repeat, stream and metric; blank where there is none.

    The matrix's keys are the first columns. Times are in nanoseconds, and their columns end in `_ns`. Of a metric that
    has its delay variation, rows of `METRIC.pdv` and `METRIC.ipdv` follow. The last columns: what its meaeffective n in
    independent packets, the low and the high end of the 95 % intervals, and IPDV's low percentiles.
    """
    keys = list(dict.fromkeys(key for cell in result.cells for key in cell.cell))
    head = ("slug", "repeat", "status", "verdict", "label", "stream", "metric", "from", "to", "uncertainty_ns")
    figures = (name if _is_count(name) else f"{name}_ns" for name in _FIGURES)
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow([*keys, *head, *figures, "effective_n", *_INTERVALS, *(f"{name}_ns" for name in _VARIED)])
    for cell in rows.ordered_cells(result):
        values = [_short(cell.cell.get(key)) for key in keys]
        shared = [cell.slug, cell.repeat, cell.status, cell.verdict, cell.label]
        for stream, block in cell.streams.items():
            for metric, found in block.metrics.items():
                for name, ends, one in _entries(metric, found):
                    writer.writerow([*values, *shared, stream, name, *ends, *_figures(one)])
    return written.getvalue()


def _entries(metric: str, found: Metric) -> Iterator[tuple[str, list[str | int | None], Statistics]]:
    """(name, ends and ±, figures) of a metric, then of its delay variation."""
    ends = [found.from_, found.to]
    yield metric, [*ends, found.uncertainty_ns], found
    for form in VARIATION_FORMS if found.variation else ():
        # A constant offset between the clocks is in no difference of delays: the metric's ± is not theirs.
        yield f"{metric}.{form}", [*ends, None], getattr(found.variation, form)


def _figures(found: Statistics) -> Iterator[float | None]:
    confidence = getattr(found, "confidence", None)
    yield from (getattr(found, name, None) for name in _FIGURES)
    yield confidence.mean.effective_n if confidence else None
    for name in _ESTIMATES:
        interval = getattr(confidence, name, None)
        yield from (getattr(interval, end, None) for end in ("low", "high"))
    yield from (getattr(found, name, None) for name in _VARIED)


def links(folder: RunFolder, result: Result) -> list[FileLink]:
    """What there is to take from the run folder, as links relative to the page."""
    named = [
        FileLink(FIGURES, FIGURES, "all figures of all cells, ns (CSV)"),
        FileLink(folder.result_path.name, folder.result_path.name, "the whole result (JSON)"),
        FileLink(folder.scenario_path.name, folder.scenario_path.name, "the scenario"),
    ]
    return named + list(_packets(folder, result))


def _packets(folder: RunFolder, result: Result) -> Iterator[FileLink]:
    for cell in rows.ordered_cells(result):
        one = folder.cell(cell.slug, cell.repeat)
        for path, what in ((one.packets_path, "every packet"), (one.classes_path, "each packet's anomaly, by class")):
            if path.exists():
                relative = path.relative_to(folder.path).as_posix()
                told = f"{cell_title(cell)}, repeat {cell.repeat}: {what} (Parquet)"
                yield FileLink(relative, quote(relative), told)


def _is_count(name: str) -> bool:
    return name in _WITHOUT_UNIT or name in _COUNTS


def _short(value: Any) -> str:
    return "" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)
