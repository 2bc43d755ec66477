"""The result as GitHub-flavoured Markdown, for an issue, a mail or a wiki: the verdict first, then every section."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from latlab.report.document import Finding, Lines, OneOf, Part, Printed, Table, Verbatim, printed
from latlab.report.sections import SECTIONS, Shown, parts_of
from latlab.result.types import Result


def result_markdown(result: Result, metrics: Sequence[str]) -> str:
    """The whole result. metrics: those with a table, in this order, as far as any stream has them; times are in µs."""
    shown = Shown(result, metrics)
    head = f"## {escaped(result.scenario)}: {result.verdict}"
    parts = (part for name in SECTIONS for part in parts_of(name, shown))
    return f"{head}\n\n{parts_markdown(parts)}\n"


def parts_markdown(parts: Iterable[Part]) -> str:
    """The parts, an empty line between them."""
    return "\n\n".join("\n".join(part_lines(part)) for part in printed(parts))


def part_lines(part: Printed) -> Iterator[str]:
    """The lines of a part."""
    match part:
        case OneOf():
            for one in part.shapes[0]:
                yield from _table(one)
        case Table():
            yield from _table(part)
        case Lines():
            if part.title:
                yield f"**{escaped(part.title)}**"
                yield ""
            yield from listed(line.strip() for line in part.lines)
        case Finding():
            yield f"- **{part.severity}**: {escaped(part.text)} (`{part.id}`)"
            for what, said in part.printed:
                yield f"  - {escaped(f'{what}: {said}' if what else said)}"
        case Verbatim():
            yield from ("```", *part.text.splitlines(), "```")


def _table(part: Table) -> Iterator[str]:
    if part.title:
        yield f"### {escaped(part.title)}"
        yield ""
    for note in part.notes:
        yield escaped(note)
        yield ""
    yield from table(part.headings, part.rows, part.figures)
    if part.remarks:
        yield ""
        yield from listed(part.remarks)


# GitHub's Markdown


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> Iterator[str]:
    """The lines of a table; nothing without a row. numbers: the columns that are set to the right."""
    lines = [_row(row) for row in rows]
    if lines:
        yield _row(headings)
        yield "|" + "".join("---:|" if place in numbers else "---|" for place in range(len(headings)))
        yield from lines


def listed(lines: Iterable[str]) -> Iterator[str]:
    """A list of these lines."""
    return (f"- {escaped(line)}" for line in lines)


def escaped(text: str) -> str:
    """The text as such, on one line: what Markdown or HTML would make something of is escaped."""
    for character in "\\`*_[]<>|":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split("\n"))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(escaped(cell) for cell in cells)} |"
