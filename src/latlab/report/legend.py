"""What colour, dash and marker say: a dimension of the matrix each, so that a line's style identifies its cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from latlab.report.charts.sheet import COLOURS, DASHES, MARKERS, Look
from latlab.report.rows import ordered_cells
from latlab.result.places import (
    cell_name,
    dimension_keys,
    dimension_text,
    short_headings,
)
from latlab.result.types import Cell, Result

REPEAT: Final = "repeat"
"""The heading of the repetitions of a cell."""


@dataclass(frozen=True)
class LegendEntry:
    """One value, how its lines look, and the cells that have it, as `SLUG/rN`.

    colour: index into COLOURS; None where lines of any colour have the value.
    """

    text: str
    colour: int | None
    dash: tuple[int, ...]
    marker: str
    cells: frozenset[str]


@dataclass(frozen=True)
class Key:
    """One dimension's values. heading: the dimension; empty where the entries are whole cells."""

    heading: str
    entries: tuple[LegendEntry, ...]


@dataclass(frozen=True)
class _Dimension:
    """What cells differ in: a heading, and cell → its value as text. is_bridge: the values are of bridges."""

    heading: str
    texts: Mapping[str, str]
    is_bridge: bool = False

    @cached_property
    def values(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.texts.values()))

    def place(self, cell: str) -> int:
        return self.values.index(self.texts[cell])

    def cells(self, value: str) -> frozenset[str]:
        return frozenset(cell for cell, text in self.texts.items() if text == value)


def is_of_bridges(key: str) -> bool:
    """Whether the values of a matrix's key distinguish bridges: a guest's bridge, a guest, or all guests."""
    first, *rest = key.split(".")
    return first == "guests" and (len(rest) < 2 or rest[-1] == "bridge")


class Looks:
    """The look of every cell of a result, measured or not.

    The first dimension that varies is the colour, the second the dash, all others together the marker; the repeat is
    the last of them. The bridge comes before all others, so that each one has its colour in every picture. Where a
    dimension has more values than there are such, each cell has a different look, still in the bridge's colour.
    """

    def __init__(self, result: Result) -> None:
        cells = ordered_cells(result)
        dimensions = _dimensions(result, cells)
        rooms = (len(COLOURS), len(DASHES), len(MARKERS))
        if all(len(one.values) <= room for one, room in zip(dimensions, rooms, strict=False)):
            self._looks = {cell.key: _look(dimensions, cell.key) for cell in cells}
            self._keys = tuple(_key(place, dimension) for place, dimension in enumerate(dimensions))
        else:
            self._looks = _own_looks(dimensions[0], [cell.key for cell in cells])
            names = {cell.key: cell_name(result, cell) for cell in cells}
            entries = [
                LegendEntry(names[key], look.colour, look.dash, look.marker, frozenset({key}))
                for key, look in self._looks.items()
            ]
            self._keys = (Key("", tuple(entries)),)

    def of(self, cell: Cell) -> Look:
        """The look of one of the result's cells."""
        return self._looks[cell.key]

    def legend(self, cells: Iterable[Cell]) -> tuple[Key, ...]:
        """What the looks of these cells say; nothing where a result has one cell only."""
        shown = {cell.key for cell in cells}
        keys = (Key(key.heading, tuple(one for one in key.entries if one.cells & shown)) for key in self._keys)
        return tuple(key for key in keys if key.entries)


def _dimensions(result: Result, cells: Sequence[Cell]) -> list[_Dimension]:
    """At most three: what varies of the matrix, bridges first, and last the repeat; from the third on they are one."""
    keys = dimension_keys(result)
    found = [
        _Dimension(
            heading,
            {cell.key: dimension_text(cell.cell[key]) if key in cell.cell else "" for cell in cells},
            is_of_bridges(key),
        )
        for key, heading in zip(keys, short_headings(keys), strict=True)
    ]
    found.append(_Dimension(REPEAT, {cell.key: str(cell.repeat) for cell in cells}))
    varying = sorted((one for one in found if len(one.values) > 1), key=lambda one: not one.is_bridge)
    if len(varying) <= 3:
        return varying
    return [*varying[:2], _joined(varying[2:])]


def _joined(dimensions: Sequence[_Dimension]) -> _Dimension:
    texts = {cell: " · ".join(one.texts[cell] for one in dimensions) for cell in dimensions[0].texts}
    return _Dimension(" · ".join(one.heading for one in dimensions), texts)


def _look(dimensions: Sequence[_Dimension], cell: str) -> Look:
    places = [one.place(cell) for one in dimensions] + [0, 0, 0]
    return Look(places[0], DASHES[places[1]], MARKERS[places[2]])


def _own_looks(first: _Dimension, cells: Sequence[str]) -> dict[str, Look]:
    """{cell: its look}, each different. first: the colour's dimension, where it is the bridge and has few values."""
    if not first.is_bridge or len(first.values) > len(COLOURS):
        return {cell: _own_look(number) for number, cell in enumerate(cells)}
    found: dict[str, Look] = {}
    for colour, value in enumerate(first.values):
        alike = [cell for cell in cells if first.texts[cell] == value]
        found |= {cell: replace(_own_look(len(COLOURS) * number), colour=colour) for number, cell in enumerate(alike)}
    return {cell: found[cell] for cell in cells}


def _own_look(number: int) -> Look:
    """The look of the cell with this number, from 0: colours first, then dashes, then markers."""
    group, colour = divmod(number, len(COLOURS))
    group, dash = divmod(group, len(DASHES))
    return Look(colour, DASHES[dash], MARKERS[group % len(MARKERS)])


def _key(place: int, dimension: _Dimension) -> Key:
    """The key of the dimension that is shown as colour (place 0), dash (1) or marker (2)."""
    return Key(
        dimension.heading,
        tuple(
            LegendEntry(
                value,
                number if place == 0 else None,
                DASHES[number] if place == 1 else (),
                MARKERS[number] if place == 2 else "",
                dimension.cells(value),
            )
            for number, value in enumerate(dimension.values)
        ),
    )
