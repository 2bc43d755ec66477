"""What a report is made of: sections of tables and lines. Each output renders these, and knows no section by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Group:
    """A heading over several columns of a table. first: the number of its first column; columns: how many."""

    title: str
    first: int
    columns: int


@dataclass(frozen=True)
class Table:
    """A table of texts. rows: as many texts each as headings. figures: the columns that are numbers, aligned right."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    figures: Sequence[int] = ()
    title: str = ""
    groups: Sequence[Group] = ()


@dataclass(frozen=True)
class OneOf:
    """The same table in several shapes, the widest first: the first that fits is shown, else the last."""

    shapes: Sequence[Table]


@dataclass(frozen=True)
class Lines:
    """Sentences, each a line of its own."""

    lines: Sequence[str]
    title: str = ""


Part: TypeAlias = Table | OneOf | Lines


@dataclass(frozen=True)
class Section:
    """One subject. parts: in the order in which they are read; a section without any is not shown."""

    parts: Sequence[Part]
