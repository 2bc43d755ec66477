"""A comparison in a terminal, readable in 80 columns, and as GitHub-flavoured Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from latlab.report.comparison.lines import (
    Block,
    blocks,
    figures,
    legend,
    overview,
    powerless,
    remarks,
    summary,
    together,
)
from latlab.report.document import Lines, Part, Table, filled
from latlab.report.markdown import parts_markdown
from latlab.report.terminal import print_parts
from latlab.result.comparison import ComparisonDocument

_MOST: Final = 12
"""How many lines of one kind of remark a terminal has; all of them are in the JSON document."""
_FEW: Final = 2
"""So many tables with their sentences still fit a screen."""
_HEADINGS: Final = (
    *("cells", "stream, metric", "", "first", "second", "second − first", "± 95 %", "shown from", "p, adjusted", ""),
)


def print_comparison(document: ComparisonDocument, console: Console, *, full: bool = False) -> None:
    """Print who is compared, the differences, what else is known, and how many differences are shown.

    full: with a table and sentences for each two that are compared. Where they are few they have them anyway; else one
    table has the differences of the first metric.
    """
    found = blocks(document.comparisons)
    all_of_it = full or len(found) <= _FEW
    tables = filled([*(block.table for block in found), together(document)]) if all_of_it else _overview(found)
    print_parts([Lines(legend(document)), *tables, *_remarks(document, _MOST)], console)
    console.print(Text(summary(document), style="bold"))
    if coarse := powerless(document):
        console.print(Text(coarse, style="bold yellow"))


def _overview(found: Sequence[Block]) -> list[Part]:
    metrics = list(dict.fromkeys(block.entries[0].metric for block in found))
    table = overview([block for block in found if block.entries[0].metric == metrics[0]])
    others = f"; of {', '.join(metrics[1:])}, too" if metrics[1:] else ""
    return [table, Lines([f"--full prints both sides' figures and p of each, and all repetitions together{others}"])]


def comparison_markdown(document: ComparisonDocument) -> str:
    """The document: who is compared, one table with a row a comparison (times in µs), and what else is known."""
    coarse = filter(None, [powerless(document)])
    table = Table(_HEADINGS, list(_rows(document)), range(3, 9))
    parts = filled([Lines(list(coarse)), Lines(legend(document)), table, together(document), *_remarks(document)])
    return f"**{summary(document)}**\n\n{parts_markdown(parts)}\n"


def _remarks(document: ComparisonDocument, most: int | None = None) -> list[Part]:
    return [Lines(lines, heading) for heading, lines in remarks(document, most)]


def _rows(document: ComparisonDocument) -> Iterator[tuple[str, ...]]:
    for block in blocks(document.comparisons):
        cells = ", ".join(filter(None, (f"{block.a} → {block.b}", block.where)))
        for one in block.entries:
            yield cells, f"{one.stream}, {one.metric}", *figures(one), one.told
