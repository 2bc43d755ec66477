"""A table as lines of text, no wider than they may be: no text in it is cut, and none is broken inside its column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from textwrap import wrap
from typing import Final

from rich.console import Console
from rich.text import Text

from latlab.model.lines import folded
from latlab.report.document import OneOf, Table

GAP: Final = 2
"""Between two columns."""
UNWRAPPED: Final = 1_000_000
_STYLES: Final = {"strong": "bold", "good": "green", "bad": "bold red", "changed": "yellow"}
"""The tones of texts that are printed otherwise than others."""
_SHORT: Final = 8
"""A heading over figures is broken into lines of no less."""
_SENTENCE: Final = 40
"""A text in a table that is longer is a sentence."""


def print_table(part: Table | OneOf, console: Console) -> None:
    """Print the table on the console; of several shapes the first that fits."""
    for table in fitting(part, console.width) if isinstance(part, OneOf) else (part,):
        for line in table_lines(table, console.width, sentence_width(console)):
            # A line has its width already.
            console.print(line, soft_wrap=True)


def print_sentence(text: str, console: Console) -> None:
    """Print the sentence on the console."""
    console.print(sentence(text, sentence_width(console)), soft_wrap=True)


def fitting(part: OneOf, width: int) -> Sequence[Table]:
    """The first shape that fits, else the last."""
    return next((one for one in part.shapes if all(sum(widths(table)) <= width for table in one)), part.shapes[-1])


def sentence_width(console: Console) -> int:
    """How wide a sentence may be there: in a log it stays one line, to be searched for."""
    return console.width if console.is_terminal else UNWRAPPED


def sentence(line: str, width: int, *, indent: int = 0) -> Text:
    """A sentence, its continuation indented."""
    return Text("\n".join(folded(line, width, indent=indent)))


def widths(table: Table) -> list[int]:
    """How wide each column is where nothing is broken, with the gap behind it."""
    columns = zip(table.headings, *table.rows, strict=True)
    return [max(map(len, column)) + GAP for column in columns]


def table_lines(table: Table, width: int, sentences: int) -> Iterator[Text]:
    """The lines of the table; none where it has no rows. sentences: the width of sentences above and below.

    Where the table is too wide, headings over figures are broken between words. If that does not do, long texts of the
    last columns stand below their rows, and those of the first columns above theirs. If not even that does, some of the
    columns follow in a separate table, and as the last resort each text is a line.
    """
    if not table.rows:
        return
    roomy = _with_room_for_groups(table)
    if sum(widths(roomy)) - GAP <= width:
        yield from _laid_out(roomy, width, sentences, [[heading] for heading in roomy.headings])
        return
    flat = _without_groups(table)
    for above, below in _arrangements(flat):
        if _width(flat, above, below) <= width:
            yield from _laid_out(flat, width, sentences, _broken(flat), above, below)
            return
    pieces = _pieces(flat, width)
    yield from _records(flat, width) if pieces is None else _one_below_the_other(pieces, width, sentences)


def _with_room_for_groups(table: Table) -> Table:
    """The table whose groups are as wide as their titles: by the heading of the last column of each."""
    wide, headings = widths(table), list(table.headings)
    for group in table.groups:
        last = group.first + group.columns - 1
        room = sum(wide[group.first : last + 1]) - GAP
        if room < len(group.title):
            headings[last] = headings[last].rjust(wide[last] - GAP + len(group.title) - room)
    return replace(table, headings=headings)


def _without_groups(table: Table) -> Table:
    """The table with the headings over several columns as the beginnings of those."""
    headings = list(table.headings)
    for group in table.groups:
        for column in range(group.first, group.first + group.columns):
            headings[column] = f"{group.title} {headings[column]}".strip()
    return replace(table, headings=headings, groups=())


def _names(table: Table) -> int:
    """How many columns before the first figures say what a row is of."""
    return min(table.figures, default=len(table.headings) - 1)


def _arrangements(table: Table) -> Iterator[tuple[int, int]]:
    """(how many first columns stand above their rows, how many last ones below), what reads best first."""
    count, names = len(table.headings), _names(table)
    texts = next((number for number in range(count) if count - 1 - number in table.figures), count)
    long = count > 1 and texts and max(len(row[-1]) for row in table.rows) > _SENTENCE
    for above in range(names + 1 if table.figures else 1):
        yield above, 0
        if long and above < count - 1:
            yield above, 1
    for below in range(1, texts + 1):
        yield from ((above, below) for above in range(names + 1) if above + below < count)


def _broken(table: Table) -> list[list[str]]:
    """The lines of each heading: of figures as narrow as the figures allow."""
    return [_heading(table, column) for column in range(len(table.headings))]


def _heading(table: Table, column: int) -> list[str]:
    most = max(_SHORT, *(len(row[column]) for row in table.rows)) if column in table.figures else UNWRAPPED
    return wrap(table.headings[column], most, break_on_hyphens=False, break_long_words=False) or [""]


def _room(table: Table, heading: Sequence[str], column: int, *, below: bool) -> int:
    """How wide a column is. below: it is the last one, and sentences in it stand below their rows."""
    most = _SENTENCE if below and column and column not in table.figures else UNWRAPPED
    return max(*map(len, heading), max(len(row[column]) if len(row[column]) <= most else 0 for row in table.rows))


def _rooms(table: Table, headings: Sequence[Sequence[str]], above: int, below: int) -> dict[int, int]:
    """The width of each column that stands neither above nor below its rows."""
    columns = range(above, len(table.headings) - below)
    return {
        number: _room(table, headings[number], number, below=bool(below) and number == columns[-1])
        for number in columns
    }  # fmt: skip


def _width(table: Table, above: int, below: int) -> int:
    return sum(room + GAP for room in _rooms(table, _broken(table), above, below).values()) - GAP


def _laid_out(
    table: Table, width: int, sentences: int, headings: Sequence[Sequence[str]], above: int = 0, below: int = 0
) -> Iterator[Text]:
    """The table with so many of its first columns above their rows, and so many of its last below theirs."""
    rooms = _rooms(table, headings, above, below)

    def line(texts: Sequence[str], style: str = "") -> Text:
        found = Text()
        for (number, room), text in zip(rooms.items(), texts, strict=True):
            # A text that has no room stands below.
            shown = text if len(text) <= room else ""
            aligned = shown.rjust(room) if number in table.figures else shown.ljust(room)
            found.append(aligned, style or _STYLES.get(getattr(text, "tone", ""), ""))
            found.append(" " * GAP)
        found.rstrip()
        return found

    if table.title:
        yield _bold(table.title, width)
    yield from (sentence(note, width) for note in table.notes)
    elsewhere = [f"above its rows: {', '.join(filter(None, table.headings[:above]))}"] if above else []
    elsewhere += [f"below each row: {', '.join(table.headings[-below:])}"] if below else []
    if elsewhere:
        yield sentence("; ".join(elsewhere), width)
    if table.groups:
        yield Text(_above(table), style="bold")
    if any(table.headings):
        for number in range(-max(map(len, headings)), 0):
            yield line([headings[one][number] if len(headings[one]) >= -number else "" for one in rooms], "bold")
        yield Text("─" * (sum(room + GAP for room in rooms.values()) - GAP))
    # Below the first text that all rows have: the columns before it say what several rows belong to.
    begins = (at for at, number in _begin(rooms) if all(row[number] for row in table.rows))
    indent = next(begins, 0) if not table.figures else 0
    before = ""
    for row in table.rows:
        named = ", ".join(filter(None, row[:above]))
        if named and named != before:
            before = named
            yield sentence(named, width)
        yield line([row[number] for number in rooms])
        more = [row[number] for number, room in rooms.items() if len(row[number]) > room]
        more += row[len(row) - below :]
        yield from (sentence(text, sentences, indent=indent + 2) for text in more if text)
    yield from (sentence(f"  {remark}", width) for remark in table.remarks)


def _begin(rooms: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """(where it begins, its number) of each column."""
    at = 0
    for number, room in rooms.items():
        yield at, number
        at += room + GAP


def _pieces(table: Table, width: int) -> list[Table] | None:
    """The table as several, each with the columns that say what a row is of and some of the others; None: figures
    alone are too wide, or there are none.
    """
    names, rooms = _names(table), _rooms(table, _broken(table), 0, 0)
    pieces: list[list[int]] = [[]]
    for column in range(names, len(table.headings)):
        if not table.figures or (column in table.figures and rooms[column] > width):
            return None
        tried = [*pieces[-1], column]
        if pieces[-1] and sum(rooms[one] + GAP for one in tried) - GAP > width:
            pieces.append([column])
        else:
            pieces[-1] = tried
    return [
        replace(
            table,
            title="" if number else table.title,
            notes=() if number else table.notes,
            remarks=table.remarks if piece is pieces[-1] else (),
            headings=[*table.headings[:names], *(table.headings[column] for column in piece)],
            rows=[[*row[:names], *(row[column] for column in piece)] for row in table.rows],
            figures=[names + place for place, column in enumerate(piece) if column in table.figures],
        )
        for number, piece in enumerate(pieces)
    ]


def _one_below_the_other(pieces: Sequence[Table], width: int, sentences: int) -> Iterator[Text]:
    for number, piece in enumerate(pieces):
        if number:
            yield Text()
        yield from table_lines(piece, width, sentences)


def _records(table: Table, width: int) -> Iterator[Text]:
    """Each text of each row as a line, with its heading."""
    if table.title:
        yield _bold(table.title, width)
    yield from (sentence(note, width) for note in table.notes)
    for first, *others in table.rows:
        yield sentence(first, width)
        for heading, text in zip(table.headings[1:], others, strict=True):
            if text:
                yield sentence(f"  {heading}: {text}" if heading else f"  {text}", width)
    yield from (sentence(f"  {remark}", width) for remark in table.remarks)


def _bold(title: str, width: int) -> Text:
    return Text("\n".join(wrap(title, width, break_on_hyphens=False, break_long_words=False)), style="bold")


def _above(table: Table) -> str:
    """The headings over several columns, each where its first column begins."""
    wide, line = widths(table), ""
    for group in table.groups:
        begin = sum(wide[: group.first])
        room = sum(wide[group.first : group.first + group.columns]) - GAP
        line = line.ljust(begin) + group.title.center(room)
    return line.rstrip()
