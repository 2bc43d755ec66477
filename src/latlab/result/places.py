"""Cells named in few words: all of them, those with one value of the matrix, those of one configuration, or one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from latlab.model.part import Keys
from latlab.result.types import Cell, Result


class CellPlaces:
    """What sets of a result's cells are called."""

    def __init__(self, result: Result) -> None:
        cells = result.cells
        measured = [cell for cell in cells if cell.streams]
        names: dict[frozenset[str], str] = {}
        for group in (measured, cells):
            for name, members in _groups(group):
                if len(members) > 1:
                    names.setdefault(frozenset(members), name)
        every = {
            frozenset(cell.key for cell in measured): "every measured cell",
            frozenset(cell.key for cell in cells): "every cell",
        }
        names |= {members: name for members, name in every.items() if len(members) > 1}
        self._names = sorted(names.items(), key=lambda one: -len(one[0]))
        self._single = {cell.key: cell_name(result, cell) for cell in cells}

    def told(self, cells: Iterable[Cell]) -> tuple[str, ...]:
        """The names of these cells, as few as there are for them."""
        return self.named(cell.key for cell in cells)

    def named(self, keys: Iterable[str]) -> tuple[str, ...]:
        """The same, of cells given as `SLUG/rN`."""
        left = dict.fromkeys(keys)
        told = []
        for members, name in self._names:
            if members <= left.keys():
                told.append(name)
                left = {key: None for key in left if key not in members}
        return (*told, *(self._single.get(key, key) for key in left))


def dimension_keys(result: Result) -> tuple[str, ...]:
    """The matrix's keys, as in `cell`: what the cells differ in."""
    return tuple(dict.fromkeys(key for cell in result.cells for key in cell.cell))


def short_headings(keys: Sequence[str]) -> tuple[str, ...]:
    """Each matrix key's last part, or the whole key where two would read the same."""
    last = [key.rsplit(".", 1)[-1] for key in keys]
    return tuple(short if last.count(short) == 1 else key for key, short in zip(keys, last, strict=True))


def dimension_text(value: object) -> str:
    """One matrix value as people write it: a list of loads is joined, an empty one is "none"."""
    if isinstance(value, (list, tuple)):
        return " + ".join(dimension_text(item) for item in value) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {dimension_text(item)}" for key, item in value.items())
    return "none" if value is None else str(value)


def cell_title(cell: Cell) -> str:
    """A cell's name in a heading: "bridge tap, loads none"; "all" where the matrix has no keys."""
    return matrix_title(cell.cell)


def matrix_title(values: Keys) -> str:
    """The same of the values of a matrix's keys."""
    named = zip(short_headings(tuple(values)), values.values(), strict=True)
    return ", ".join(f"{heading} {dimension_text(value)}" for heading, value in named) or "all"


def matrix_titles(cells: Sequence[str], labels: Mapping[str, Keys]) -> str:
    """What these of the matrix's cells are called together: "bridge tap, xdp" of all that have one of the two; their
    titles where they are not all that have some values. labels: of every cell, by slug.
    """
    found, every = [labels[slug] for slug in cells], list(labels.values())
    keys = dict.fromkeys(key for label in every for key in label)
    values = {key: {dimension_text(label.get(key)) for label in found} for key in keys}
    having = [label for label in every if all(dimension_text(label.get(key)) in values[key] for key in keys)]
    if len(having) > len(found):
        return listed([matrix_title(label) for label in found])
    named = []
    for heading, key in zip(short_headings(tuple(keys)), keys, strict=True):
        there = dict.fromkeys(dimension_text(label.get(key)) for label in every)
        if values[key] != set(there):
            named.append(f"{heading} {', '.join(value for value in there if value in values[key])}")
    return "; ".join(named) or "all"


def cell_name(result: Result, cell: Cell) -> str:
    """A cell's title, and which repeat it is where the run has several."""
    several = any(one.repeat > 1 for one in result.cells)
    return cell_title(cell) + (f", repeat {cell.repeat}" if several else "")


def listed(names: Sequence[str], last: str = "") -> str:
    """The names in a row, semicolons between them where one has a comma itself. last: a word before the last one."""
    between = "; " if any(", " in name for name in names) else ", "
    if not last or len(names) < 2:
        return between.join(names)
    return f"{between.join(names[:-1])}{between.strip(', ')} {last} {names[-1]}"


def _groups(cells: Sequence[Cell]) -> Iterable[tuple[str, list[str]]]:
    """(name, members) of the cells that share a value of the matrix, then of those of one configuration."""
    groups: dict[str, list[str]] = {}
    for cell in cells:
        keys = tuple(cell.cell)
        values = [dimension_text(value) for value in cell.cell.values()]
        alike = [f"{heading} {value}" for heading, value in zip(short_headings(keys), values, strict=True)]
        for name in dict.fromkeys((*alike, cell_title(cell))):
            groups.setdefault(name, []).append(cell.key)
    return groups.items()
