"""The report page: one HTML file that needs no network, no server and no other file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from latlab.evaluation.gates import Scheduled
from latlab.model.labels import LABELS
from latlab.recordings.run_folder import RunFolder
from latlab.report import definitions, testbed
from latlab.report.answer import answer, metric_of, title
from latlab.report.boxes import boxes
from latlab.report.charts.sweep import Sweep
from latlab.report.document import Fold, Pictured, Section, Table, Toned, Verbatim, filled
from latlab.report.marks import page_marks
from latlab.report.page import OnPage, page_metrics, page_sections
from latlab.report.payload import PackedParts, embedded
from latlab.report.repeats import Strips
from latlab.report.sections import default_metrics, reasons_of
from latlab.report.verdict import grouped_reasons, stated
from latlab.result import Result, load_result

_HERE = Path(__file__).parent
_STYLES = ("uPlot.min.css", "report.css")
_SCRIPTS = ("uPlot.iife.min.js", "decode.js", "axes.js", "marks.js", "series.js", "distribution.js", "report.js")
_DATA = '<script type="application/json" id="data">'
"""The beginning of the data's element: the page has it once, since what comes from a run is escaped."""
_ANSWERED = ("differences", "stages")
"""The sections of the answer that stand at the page's beginning, below its table."""
_VERDICT_MARKS = {"trusted": "✓", "suspect": "!", "untrusted": "✗"}
_LONG = 40
"""A text of more characters may be broken anywhere."""
_NUMBER = 10
"""A figure of more characters is made of several."""
_WIDE = 50
"""A table of more characters in a row does not fit a narrow screen."""


@dataclass(frozen=True)
class Page:
    """A page without the data of its charts: what stands before it, and behind it."""

    before: str
    after: str

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.before.encode()) + len(self.after.encode())

    def with_data(self, data: Markup) -> str:
        """The page whole. data: what `Payloads.fitting` gives."""
        return f"{self.before}{data}{self.after}"


def render(
    folder: RunFolder,
    strips: Mapping[tuple[str, str], Strips],
    sweeps: Sequence[Sweep] = (),
    scheduled: Scheduled = (),
) -> Page:
    """The page of this run. strips: (stream, metric) → what `repeats.drawn` gives; sweeps: what `sweeps.sweeps` gives;
    scheduled: what `evaluation.gates.run_schedules` gives.

    Nothing from the run reaches the page unescaped, and the page's own policy lets no script run but ours.
    """
    result, run = load_result(folder), folder.run()
    metrics = page_metrics(result)
    parts = PackedParts()
    style = "\n".join(_asset(name) for name in _STYLES)
    scripts = [_asset(name) for name in _SCRIPTS]
    sections = page_sections(OnPage(result, metrics, folder, strips, sweeps, scheduled))
    licence = Fold("Charts are drawn by uPlot, under this licence", [Verbatim(_asset("uPlot.LICENSE"))], reference=True)
    environment = new_environment()
    environment.filters["packed"] = parts.keep
    rendered = environment.get_template("report.html.j2").render(
        **_verdict(result),
        **_answer(result),
        sections=[*sections[:-1], Section("run", [*sections[-1].parts, licence], sections[-1].title)],
        chosen=next(iter(metrics), ""),
        result=result,
        moments=" to ".join(_moment(at) for at in (run.started, run.ended) if at),
        description=run.description,
        policy=_policy(style, scripts),
        # The style and the scripts are this package's own files; the data is escaped in `embedded`.
        style=Markup(style),
        scripts=[Markup(script) for script in scripts],
        parts=parts,
        marks=embedded(page_marks(folder, result)),
    )
    before, found, after = rendered.partition(_DATA)
    return Page(f"{before}{found}", after)


def new_environment() -> Environment:
    """The templates, and what they ask of a report's parts."""
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(kind=lambda one: type(one).__name__, shape=Shape, packed=lambda text, *_: text)
    environment.tests.update(
        plain=lambda text: type(text) is str,
        pictured=lambda text: isinstance(text, Pictured),
        filled=lambda part: bool(filled([part])),
    )
    return environment


@dataclass(frozen=True)
class Shape:
    """How a table is laid out, from what stands in it."""

    table: Table

    @cached_property
    def headings(self) -> Sequence[str]:
        """The headings; none where all are empty."""
        return self.table.headings if any(self.table.headings) else ()

    @cached_property
    def names(self) -> int:
        """How many leading columns name the row: those before the first figure or drawing, at least one."""
        drawn = [column for column, text in enumerate(self.table.rows[0]) if isinstance(text, Pictured)]
        first = min([*drawn, *self.table.figures], default=1)
        return first if first <= len(self.table.headings) // 2 else 1

    @cached_property
    def long(self) -> frozenset[int]:
        """The columns whose texts may be broken anywhere."""
        return frozenset(
            column for column, width in enumerate(self._widths) if width > _LONG and column not in self._figures
        )

    @cached_property
    def kind(self) -> str:
        """The table's class: `numbers` are aligned right; `words` stand as a block a row on a narrow screen."""
        mostly_words = 2 * len(self._figures) < len(self._widths) and sum(self._widths) > _WIDE
        words = mostly_words or any(self._widths[column] > _NUMBER for column in self._figures)
        return " ".join(filter(None, ("numbers" if self._figures else "", "words" if words else "")))

    @cached_property
    def begins(self) -> frozenset[int]:
        """The rows that begin what belongs together: the repetitions of a cell."""
        if "repeat" not in self.table.headings:
            return frozenset()
        until = list(self.table.headings).index("repeat")
        whose = [tuple(row[:until]) for row in self.table.rows]
        begins = frozenset(at for at, one in enumerate(whose) if at == 0 or one != whose[at - 1])
        return begins if len(begins) < len(whose) else frozenset()

    def attributes(self, column: int, text: str) -> Markup:
        """What stands in the tag of a cell: its classes, and on a narrow screen the heading before it."""
        tone = text.tone if isinstance(text, Toned) else ""
        is_word = self._figures and column >= self.names and column not in self._figures
        classes = " ".join(filter(None, ("word" if is_word else "", "break" if column in self.long else "", tone)))
        found = f' class="{classes}"' if classes else ""
        if column and "words" in self.kind and self.headings and self.headings[column]:
            found += f' data-of="{escape(self.headings[column])}"'
        return Markup(found)

    @cached_property
    def _figures(self) -> frozenset[int]:
        return frozenset(self.table.figures)

    @cached_property
    def _widths(self) -> list[int]:
        return [max(map(len, column)) for column in zip(*self.table.rows, strict=True)]


def _verdict(result: Result) -> dict[str, Any]:
    """The verdict with what it means, and its reasons."""
    reasons = [reason.id for reason in grouped_reasons(result)]
    count = f"{len(reasons)} reason{'' if len(reasons) == 1 else 's'}: {', '.join(reasons)}"
    label = next((one.meaning for one in LABELS if one.name == result.label), "")
    said = [*(f"{reason}." for reason in testbed.label_reasons(result)), *map(_sentence, stated(result))]
    meaning = _sentence(dict(definitions.VERDICTS).get(result.verdict, ""))
    return {
        "verdict_mark": _VERDICT_MARKS.get(result.verdict, "?"),
        "verdict_meaning": meaning + (f" Label: {label}." if label and not said else ""),
        "verdict_said": said,
        "label": testbed.label_text(result),
        "reasons": Fold(count, list(reasons_of(result)), open=result.verdict == "untrusted") if reasons else None,
    }


def _answer(result: Result) -> dict[str, Any]:
    """What the page begins with, below the verdict: the table, its picture, and the sentences."""
    metrics = default_metrics(result)
    metric = metric_of(result, metrics)
    answered = {one.name: one.parts for one in answer(result, metrics)}
    return {
        "answer_title": title(result, metric),
        "figures": answered["figures"],
        "boxes": boxes(result, metric) if metric else None,
        "found": [part for name in _ANSWERED for part in answered[name]],
    }


def _policy(style: str, scripts: Sequence[str]) -> str:
    """The page's Content-Security-Policy: nothing is loaded from anywhere, and only our own scripts run."""
    allowed = " ".join(_hash(script) for script in scripts)
    return f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {allowed}"


def _hash(content: str) -> str:
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _moment(iso: str) -> str:
    """An ISO 8601 instant as people read it: "2026-11-21 20:51:52 UTC"."""
    return iso.split(".")[0].replace("T", " ").removesuffix("+00:00").removesuffix("Z") + " UTC"


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}." if words else ""


def _asset(name: str) -> str:
    return (_HERE / "assets" / name).read_text(encoding="utf-8")
