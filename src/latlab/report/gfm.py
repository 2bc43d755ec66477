"""GitHub-flavoured Markdown: tables and text in which nothing is taken for markup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


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
