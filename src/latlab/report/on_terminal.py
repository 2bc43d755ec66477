"""Sections of a report on a terminal, or in a file as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import wrap

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from latlab.report.document import Lines, OneOf, Part, Section, Table

_GAP = 2
"""Between two columns."""
_UNWRAPPED = 1_000_000
_VERDICTS = {"trusted": "bold green", "suspect": "bold yellow", "untrusted": "bold red"}


def print_sections(sections: Iterable[Section], console: Console) -> None:
    """Print all that the sections have to show, an empty line behind each table and list."""
    for section in sections:
        for part in section.parts:
            shown = list(rendered(part, console))
            for one in shown:
                show(one, console)
            if shown:
                console.print()


def show(one: RenderableType, console: Console) -> None:
    """Print it. A line that has its width already is not folded again."""
    console.print(one, soft_wrap=isinstance(one, Text))


def rendered(part: Part, console: Console) -> Iterator[RenderableType]:
    """A part as rich prints it; nothing of an empty one."""
    if isinstance(part, OneOf):
        part = next((shape for shape in part.shapes if sum(_widths(shape)) <= console.width), part.shapes[-1])
    if isinstance(part, Table):
        if part.rows:
            yield from _table(part)
    else:
        # A sentence in a log stays one line, to be searched for.
        yield from _lines(part, console.width if console.is_terminal else _UNWRAPPED)


def _lines(part: Lines, width: int) -> Iterator[RenderableType]:
    """Each line, its continuation indented."""
    if part.lines and part.title:
        yield Text(part.title, style="bold")
    for line in part.lines:
        words = line.lstrip()
        indent = " " * (len(line) - len(words) + (2 if part.title else 0))
        lines = wrap(words, width, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False)
        text = Text("\n".join(lines))
        for verdict, style in _VERDICTS.items():
            text.highlight_regex(rf"^ *(Verdict: )?{verdict}\b", style)
        yield text


def _table(part: Table) -> Iterator[RenderableType]:
    table = RichTable(
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, show_header=any(part.headings)
    )
    for column, heading in enumerate(part.headings):
        right = column in part.figures
        table.add_column(Text(heading), justify="right" if right else "left", no_wrap=right, overflow="fold")
    for row in part.rows:
        table.add_row(*map(Text, row))
    if part.title:
        yield Text(part.title, style="bold")
    if part.groups:
        yield Text(_above(part), style="bold")
    yield table


def _above(part: Table) -> str:
    """The headings over several columns, each where its first column begins."""
    widths, line = _widths(part), ""
    for group in part.groups:
        begin = sum(widths[: group.first])
        room = sum(widths[group.first : group.first + group.columns]) - _GAP
        line = line.ljust(begin) + group.title[:room].center(room)
    return line.rstrip()


def _widths(part: Table) -> list[int]:
    """How wide each column is, with the gap behind it."""
    columns = zip(part.headings, *part.rows, strict=True)
    return [max(map(len, column)) + _GAP for column in columns]
