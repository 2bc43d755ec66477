"""What a report is made of: sections of tables, lines, findings and charts. Outputs render these, and know no section.

A text may carry more than its words, as `Toned` and `Linked` do; an output that has no use for that prints the words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self, TypeAlias

Tone: TypeAlias = Literal["bad", "good", "strong", "changed", "code"]


class Toned(str):
    """A text that stands out: `bad` reports something wrong, `strong` is what to look at, `code` is a command."""

    tone: Tone

    def __new__(cls, text: str, tone: Tone) -> Self:
        """The text in that tone."""
        self = super().__new__(cls, text)
        self.tone = tone
        return self


class Linked(str):
    """A text that leads to a file next to the page. address: relative to it, as a URL has it."""

    address: str

    def __new__(cls, text: str, address: str) -> Self:
        """The text with where it leads."""
        self = super().__new__(cls, text)
        self.address = address
        return self


class Folded(str):
    """A text with lines that only who opens `summary` reads; outputs that cannot fold leave those out."""

    summary: str
    lines: Sequence[str]

    def __new__(cls, text: str, summary: str, lines: Sequence[str]) -> Self:
        """The text with lines behind it."""
        self = super().__new__(cls, text)
        self.summary, self.lines = summary, lines
        return self


class Pictured(str):
    """A text that the page draws in its place. kind: the macro that draws it; drawing: what that is given."""

    kind: str
    drawing: object

    def __new__(cls, text: str, kind: str, drawing: object) -> Self:
        """The text of a drawing."""
        self = super().__new__(cls, text)
        self.kind, self.drawing = kind, drawing
        return self


def bad_if(is_wrong: object, text: str) -> str:
    """The text, which reports something wrong where that is so."""
    return Toned(text, "bad") if is_wrong else text


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
    known to read it, above it; remarks: what is to be said of it, below it. Headings that are all empty are not shown.
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
    """Sentences, each on a separate line; without any the title is not shown either."""

    lines: Sequence[str]
    title: str = ""


@dataclass(frozen=True)
class Finding:
    """Something that the verdict rests on. id: of the rule that it breaks. details: (what, text) of each; more: further
    lines, which outputs that cannot fold only count.
    """

    severity: str
    text: str
    id: str
    details: Sequence[tuple[str, str]]
    more: Sequence[str] = ()
    remedy: str = ""

    @property
    def printed(self) -> list[tuple[str, str]]:
        """(what, text) of all that is said of it where nothing can be folded; what may be empty."""
        more = [("", f"and {len(self.more)} more, in the report")] if self.more else []
        return [*self.details, *more, *([("remedy", self.remedy)] if self.remedy else [])]


@dataclass(frozen=True)
class Verbatim:
    """A text as it is in its file, line by line."""

    text: str


@dataclass(frozen=True)
class Chart:
    """A drawing of the page's; other outputs have pictures in files. kind: the macro that draws it; drawing: what that
    is given.
    """

    kind: str
    drawing: object


@dataclass(frozen=True)
class Fold:
    """Parts that not every reader wants: on the page below a summary that opens them.

    elsewhere: the sentence that stands in their place in outputs that cannot fold. open: whether they are seen at once.
    reference: they are for reference only: packed, so that they take little of the page, and not printed. remark:
    behind the summary.
    """

    summary: str
    parts: Sequence[Part]
    elsewhere: str = ""
    open: bool = False
    reference: bool = False
    remark: str = ""


@dataclass(frozen=True)
class OfMetric:
    """Parts of one metric: the page shows those of the metric that is chosen, other outputs all."""

    metric: str
    parts: Sequence[Part]


Part: TypeAlias = Table | OneOf | Lines | Finding | Verbatim | Chart | Fold | OfMetric
Printed: TypeAlias = Table | OneOf | Lines | Finding | Verbatim


@dataclass(frozen=True)
class Section:
    """One subject. parts: in the order in which they are read. name: its anchor on the page; title: what stands above
    it there; label: of the figures in it.
    """

    name: str
    parts: Sequence[Part]
    title: str = ""
    label: str = ""


def filled(parts: Iterable[Part]) -> list[Part]:
    """The parts that have something to show."""
    return [part for part in parts if not _is_empty(part)]


def printed(parts: Iterable[Part]) -> Iterator[Printed]:
    """The parts for an output that cannot draw, fold or choose: without charts, and all metrics below each other."""
    for part in parts:
        match part:
            case OfMetric():
                yield from printed(part.parts)
            case Fold():
                if part.elsewhere:
                    yield Lines([part.elsewhere])
            case Chart():
                pass
            case _:
                yield part


def _is_empty(part: Part) -> bool:
    match part:
        case Table():
            return not part.rows
        case Lines():
            return not part.lines
        case Fold() | OfMetric():
            return all(map(_is_empty, part.parts))
        case _:
            return False
