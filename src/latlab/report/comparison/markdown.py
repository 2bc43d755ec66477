"""A comparison as GitHub-flavoured Markdown: for a pull request, an issue, a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from latlab.report.comparison.lines import blocks, figures, legend, powerless, remarks, summary, told
from latlab.report.gfm import listed, table

_HEADINGS = (
    "cells",
    "stream, metric",
    "",
    "first",
    "second",
    "second − first",
    "± 95 %",
    "shown from",
    "p, adjusted",
    "",
)


def comparison_markdown(document: Mapping[str, Any]) -> str:
    """The document: who is compared, one table with a row a comparison (times in µs), and what else is known."""
    return "\n".join(_lines(document)) + "\n"


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    yield f"**{summary(document)}**"
    if coarse := powerless(document):
        yield ""
        yield f"**{coarse}**"
    yield ""
    yield from listed(legend(document))
    yield ""
    yield from table(_HEADINGS, _rows(document), range(3, 9))
    for heading, lines in remarks(document):
        yield ""
        yield f"{heading}"
        yield ""
        yield from listed(lines)


def _rows(document: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for block in blocks(document):
        cells = ", ".join(filter(None, (f"{block.a} → {block.b}", block.where)))
        for one in block.entries:
            yield cells, f"{one['stream']}, {one['metric']}", *figures(one), told(one)
