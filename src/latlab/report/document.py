"""What a report is made of: sections of tables, lines and findings. Each output renders these, and knows no section."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias


@dataclass(frozen=True)
class Group:
    """A heading over several columns of a table. first: the number of its first column; columns: how many."""

    title: str
    first: int
    columns: int


@dataclass(frozen=True)
class Table:
    """A table of texts; one without rows is not shown.

    rows: as many texts each as headings. figures: the columns that are numbers, aligned right. notes: what has to be
    known to read it, above it; remarks: what is to be said of it, below it.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    figures: Sequence[int] = ()
    title: str = ""
    groups: Sequence[Group] = ()
    notes: Sequence[str] = ()
    remarks: Sequence[str] = ()

    def filled(self) -> Table:
        """The table without the columns that are empty in every row."""
        kept = [number for number in range(len(self.headings)) if any(row[number] for row in self.rows)]
        place = {number: there for there, number in enumerate(kept)}
        groups = []
        for group in self.groups:
            of = [place[number] for number in range(group.first, group.first + group.columns) if number in place]
            groups += [Group(group.title, of[0], len(of))] if of else []
        return replace(
            self,
            headings=[self.headings[number] for number in kept],
            rows=[[row[number] for number in kept] for row in self.rows],
            figures=[place[number] for number in self.figures if number in place],
            groups=groups,
        )


@dataclass(frozen=True)
class OneOf:
    """The same figures in several shapes, the widest first: the first that fits is shown, else the last."""

    shapes: Sequence[Sequence[Table]]


@dataclass(frozen=True)
class Lines:
    """Sentences, each a line of its own; without any the title is not shown either."""

    lines: Sequence[str]
    title: str = ""


@dataclass(frozen=True)
class Finding:
    """Something that the verdict rests on. id: of the rule that it breaks. details: (what, text) of each."""

    severity: str
    text: str
    id: str
    details: Sequence[tuple[str, str]]


Part: TypeAlias = Table | OneOf | Lines | Finding


@dataclass(frozen=True)
class Section:
    """One subject. parts: in the order in which they are read."""

    name: str
    parts: Sequence[Part]
