"""Sections of a report on a terminal, or in a file as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from latlab.recordings.run_folder import RunFolder
from latlab.report.answer import answer
from latlab.report.columns import fitting, sentence, sentence_width, table_lines
from latlab.report.document import Finding, Lines, OneOf, Part, Printed, Table, Verbatim, printed
from latlab.report.sections import DEFAULT_METRICS, SECTIONS, Shown, parts_of
from latlab.result.types import Result

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


def print_result(
    result: Result, console: Console, metrics: Sequence[str] = DEFAULT_METRICS, folder: RunFolder | None = None
) -> None:
    """Print every section of the report, the verdict last. folder: the run's, where it is there."""
    shown = Shown(result, metrics, folder)
    for name in SECTIONS:
        print_parts(parts_of(name, shown), console)


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
            console.print(one, soft_wrap=True)
        before = part if shown else before
    if before and gap:
        console.print()


def _rendered(part: Printed, console: Console) -> Iterator[Text]:
    """The lines of a part; nothing of an empty one."""
    width = sentence_width(console)
    match part:
        case OneOf():
            for table in fitting(part, console.width):
                yield from table_lines(table, console.width, width)
        case Table():
            yield from table_lines(part, console.width, width)
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
    """A sentence, its continuation indented, a verdict at its beginning in its colour."""
    text = sentence(line, width, indent=indent)
    for verdict, style in _VERDICTS.items():
        text.highlight_regex(rf"^ *(Verdict: )?{verdict}\b", style)
    return text
