"""Where the time went, as a table: a row a bar, a column an interval, in µs."""

from __future__ import annotations

from collections.abc import Iterator

from latlab.report.chain_view import Bar, ChainView
from latlab.report.text import microseconds

NAMES = 2
"""The leading columns of a row, cell and what; figures follow."""


def headings(view: ChainView) -> tuple[str, ...]:
    """The columns' headings: cell, what, packets, a column an interval, and what they add up to."""
    return ("cell", "bar", "packets", *(one.name for one in view.intervals), view.metric)


def table_rows(view: ChainView) -> Iterator[tuple[str, ...]]:
    """The rows, as many texts as there are headings; blank where a bar has no such interval."""
    for cell in view.cells:
        for bar in cell.bars:
            ns = {one.interval: one.ns for one in bar.segments}
            figures = (microseconds(ns.get(one)) for one in view.intervals)
            yield (cell.name, bar.what, _packets(bar), *figures, microseconds(bar.value_ns))


def sentences(view: ChainView) -> list[str]:
    """Below the table: for each cell where its worst packets were made late, and what its bars leave out."""
    return [
        f"{cell.name}: {'; '.join(filter(None, (cell.grew, *cell.remarks)))}"
        for cell in view.cells
        if cell.grew or cell.remarks
    ]


def remarks(view: ChainView) -> list[str]:
    """What the bars of each cell leave out."""
    return [f"{cell.name}: {'; '.join(cell.remarks)}" for cell in view.cells if cell.remarks]


def title(view: ChainView) -> str:
    """What the table is of."""
    return f"{view.stream}: where the time of {view.metric} went, µs"


def _packets(bar: Bar) -> str:
    return str(bar.packets) if bar.packets == bar.of else f"{bar.packets} of {bar.of}"
