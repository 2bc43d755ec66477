"""Sections of a report on a terminal, or in a file as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from textwrap import wrap
from typing import Final

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from latlab.report.answer import answer
from latlab.report.document import Finding, Lines, OneOf, Part, Printed, Table, Verbatim, printed
from latlab.report.sections import DEFAULT_METRICS, SECTIONS, Shown, parts_of
from latlab.result.types import Result

_GAP: Final = 2
"""Between two columns."""
_BOLD: Final = {"strong": "bold"}
"""The tones of texts that are printed otherwise than others."""
_SHORT: Final = 8
"""A heading over figures is broken into lines of no less."""
_SENTENCE: Final = 40
"""A text in a table that is longer is a sentence."""
_UNWRAPPED: Final = 1_000_000
_VERDICTS: Final = {"trusted": "bold green", "suspect": "bold yellow", "untrusted": "bold red"}


def print_answer(
    result: Result, metrics: Sequence[str], console: Console, *, every: bool = False, after: Sequence[str] = ()
) -> None:
    """Print what the run found, on one screen, and the lines `after` below the verdict, in one piece each.

    every: with a table for each of the metrics, not for the first only.
    """
    *sections, verdict = answer(result, metrics, every=every)
    for section in sections:
        print_parts(section.parts, console)
    print_parts(verdict.parts, console, gap=False)
    for line in after:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if not after:
        console.print()


def print_result(result: Result, console: Console, metrics: Sequence[str] = DEFAULT_METRICS) -> None:
    """Print every section of the report that needs nothing but the result, the verdict last."""
    for name in SECTIONS:
        print_parts(parts_of(name, Shown(result, metrics)), console)


def print_section(name: str, shown: Shown, console: Console) -> None:
    """Print the section of that name, one of SECTIONS; a sentence where the run has nothing of the kind."""
    parts = parts_of(name, shown)
    print_parts(parts or [Lines([f"{name}: this run has no such section"])], console)


def print_parts(parts: Iterable[Part], console: Console, *, gap: bool = True) -> None:
    """Print all that the parts have to show, with an empty line after each. gap: after the last one, too.

    A sentence without a title belongs to the table above it. Without a terminal it is plain text: rich leaves out every
    colour code there.
    """
    before: Printed | None = None
    for part in printed(parts):
        shown = list(_rendered(part, console))
        if shown and before and not (isinstance(before, OneOf) and isinstance(part, Lines) and not part.title):
            console.print()
        for one in shown:
            # A line has its width already.
            console.print(one, soft_wrap=isinstance(one, Text))
        before = part if shown else before
    if before and gap:
        console.print()


def _rendered(part: Printed, console: Console) -> Iterator[RenderableType]:
    """A part as rich prints it; nothing of an empty one."""
    # A sentence in a log stays one line, to be searched for.
    width = console.width if console.is_terminal else _UNWRAPPED
    match part:
        case OneOf():
            fits = (shape for shape in part.shapes if all(sum(_widths(one)) <= console.width for one in shape))
            for table in next(fits, part.shapes[-1]):
                yield from _table(table, console.width, width)
        case Table():
            yield from _table(part, console.width, width)
        case Lines():
            if part.lines and part.title:
                yield Text(part.title, style="bold")
            yield from (_line(line, width, indent=2 if part.title else 0) for line in part.lines)
        case Finding():
            yield _line(f"  {part.severity}: {part.text} ({part.id})", width)
            yield from (_line(f"    {what + ': ' if what else ''}{said}", width) for what, said in part.printed)
        case Verbatim():
            yield Text(part.text)


def _line(line: str, width: int, *, indent: int = 0) -> Text:
    """A sentence, its continuation indented."""
    words = line.lstrip()
    before = " " * (len(line) - len(words) + indent)
    folded = wrap(words, width, initial_indent=before, subsequent_indent=f"{before}  ", break_on_hyphens=False)
    text = Text("\n".join(folded))
    for verdict, style in _VERDICTS.items():
        text.highlight_regex(rf"^ *(Verdict: )?{verdict}\b", style)
    return text


def _table(part: Table, width: int, sentences: int) -> Iterator[RenderableType]:
    """The table. Where it is too wide, long texts of its last column stand below their rows, and if need be those of
    its first columns above theirs. sentences: the width of sentences.
    """
    if not part.rows:
        return
    words = next((column for column in range(len(part.headings)) if column in part.figures), 0)
    for above, below in product(range(words + 1), (False, True)):
        if _narrowed(part, above, below) <= width:
            if above or below:
                yield from _apart(part, width, sentences, above, below)
                return
            break
    table = RichTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    fits = sum(_widths(part)) <= width
    for column, heading in enumerate(part.headings):
        right = column in part.figures
        if right and not fits:
            # Figures are never broken: their headings are.
            most = max(_SHORT, *(len(row[column]) for row in part.rows))
            heading = "\n".join(wrap(heading, most, break_on_hyphens=False))
        table.add_column(Text(heading), justify="right" if right else "left", no_wrap=right, overflow="fold")
    for row in part.rows:
        # As text: a name in square brackets is no markup.
        table.add_row(*(Text(str(text), _BOLD.get(getattr(text, "tone", ""), "")) for text in row))
    if part.title:
        yield _bold(part.title, width)
    yield from (_line(note, width) for note in part.notes)
    if part.groups:
        yield Text(_above(part), style="bold")
    yield table
    yield from (_line(f"  {remark}", width) for remark in part.remarks)


def _narrowed(part: Table, above: int, below: bool) -> int:
    """How wide the table is with broken headings, without its first columns or its last; as good as infinite where the
    last one has no sentence.
    """
    last = len(part.headings) - 1
    if below and (last in part.figures or last < 1 or max(len(row[last]) for row in part.rows) <= _SENTENCE):
        return _UNWRAPPED
    columns = range(above, len(part.headings) - int(below))
    return sum(_room(part, column) + _GAP for column in columns) - _GAP


def _room(part: Table, column: int) -> int:
    """How wide a column is with its heading broken, as far as that may be."""
    return max(max(len(row[column]) for row in part.rows), *map(len, _heading(part, column)))


def _heading(part: Table, column: int) -> list[str]:
    """The lines of a column's heading: of figures as narrow as the figures allow."""
    most = max(_SHORT, *(len(row[column]) for row in part.rows)) if column in part.figures else _UNWRAPPED
    return wrap(part.headings[column], most, break_on_hyphens=False, break_long_words=False) or [""]


def _apart(part: Table, width: int, sentences: int, above: int, below: bool) -> Iterator[Text]:
    """The table with texts of so many first columns above their rows, those of its last below theirs."""
    columns = range(above, len(part.headings) - int(below))

    def line(texts: Sequence[str], style: str = "") -> Text:
        found = Text()
        for number, text in zip(columns, texts, strict=True):
            room = _room(part, number)
            aligned = text.rjust(room) if number in part.figures else text.ljust(room)
            found.append(aligned, style or _BOLD.get(getattr(text, "tone", ""), ""))
            found.append(" " * _GAP)
        found.rstrip()
        return found

    if part.title:
        yield _bold(part.title, width)
    yield from (_line(note, width) for note in part.notes)
    places = [f"above its rows: {', '.join(part.headings[:above])}"] if above else []
    places += [f"below each row: {part.headings[-1]}"] if below else []
    yield _line("; ".join(places), width)
    headings = [_heading(part, column) for column in columns]
    for number in range(-max(map(len, headings)), 0):
        yield line([lines[number] if len(lines) >= -number else "" for lines in headings], "bold")
    yield Text("─" * _narrowed(part, above, below))
    before = ""
    for row in part.rows:
        named = ", ".join(filter(None, row[:above]))
        if named != before:
            before = named
            yield _line(named, width)
        yield line([row[column] for column in columns])
        if below and row[-1]:
            yield _line(f"  {row[-1]}", sentences)
    yield from (_line(f"  {remark}", width) for remark in part.remarks)


def _bold(title: str, width: int) -> Text:
    return Text("\n".join(wrap(title, width, break_on_hyphens=False)), style="bold")


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
