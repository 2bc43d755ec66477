"""A report as GitHub-flavoured Markdown, for an issue, a mail or a wiki."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from latlab.report.document import Finding, Lines, Table, Verbatim
from latlab.report.text_format import TextFormat
from latlab.result.types import Result


class Markdown(TextFormat):
    """GitHub-flavoured Markdown (GitHub Flavored Markdown Spec 0.29)."""

    def head(self, result: Result) -> str:
        """A heading of the second level."""
        return f"## {escaped(result.scenario)}: {result.verdict}"

    def table(self, part: Table) -> Iterator[str]:
        """A pipe table below a heading."""
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

    def sentences(self, part: Lines) -> Iterator[str]:
        """A list below a title in bold."""
        if part.title:
            yield f"**{escaped(part.title)}**"
            yield ""
        yield from listed(line.strip() for line in part.lines)

    def finding(self, part: Finding) -> Iterator[str]:
        """An item with a sublist."""
        yield f"- **{part.severity}**: {escaped(part.text)} (`{part.id}`)"
        for what, said in part.printed:
            yield f"  - {escaped(f'{what}: {said}' if what else said)}"

    def verbatim(self, part: Verbatim) -> Iterator[str]:
        """A fenced block."""
        yield from ("```", *part.text.splitlines(), "```")


MARKDOWN = Markdown()
result_markdown, parts_markdown, part_lines = MARKDOWN.result, MARKDOWN.parts, MARKDOWN.lines

# GitHub-flavoured Markdown: tables and text in which nothing is taken for markup.


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
