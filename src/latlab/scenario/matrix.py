"""The cells of a scenario: every combination of its matrix's values, each a scenario of its own."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from math import prod
from typing import Any

from latlab.scenario.findings import Finding, Path, shown, unknown
from latlab.scenario.loads import NO_LOADS
from latlab.scenario.models import Scenario
from latlab.scenario.parse import parse
from latlab.scenario.parts import Part
from latlab.scenario.shape import known_keys
from latlab.scenario.sketch import Sketch
from latlab.scenario.tuning import Tuning

LOADS = "loads"
CELLS_MAX = 10_000
_SLUG_MAX = 120
_NOT_VARIED = ("matrix", "name", "description", "repeat", "seed", "accept")
"""What belongs to the whole scenario and cannot differ between its cells."""


@dataclass(frozen=True)
class Cell:
    """One combination of values.

    label: matrix key → value chosen; for `loads` the list of names, `["none"]` for no load.
    slug: the label as a name for files, unique in the scenario.
    scenario: with the values put in; its `loads` are the active ones only, and it has no matrix.
    """

    label: dict[str, object]
    slug: str
    scenario: Scenario


@dataclass(frozen=True)
class Run:
    """A cell and which repetition of it, from 1."""

    cell: Cell
    repeat: int


def runs(cells: Sequence[Cell], repeat: int, seed: int) -> list[Run]:
    """Every repetition of every cell, in the order to run them: shuffled, the same for the same seed.

    Each repetition is shuffled apart, so that what drifts over the whole run meets all cells alike.
    """
    shuffler = random.Random(seed)
    ordered = []
    for number in range(1, repeat + 1):
        block = list(cells)
        shuffler.shuffle(block)
        ordered += [Run(cell, number) for cell in block]
    return ordered


def matrix_findings(sketch: Sketch) -> list[Finding]:
    """What is wrong with the matrix itself: its paths, their overlaps, its combinations of loads."""
    findings: list[Finding] = []
    for key, values in sketch.matrix.items():
        where = (LOADS,) if key == LOADS else tuple(key.split("."))
        findings += _loads_findings(values) if key == LOADS else _path_findings(sketch, key)
        for other in sketch.matrix:
            if other != key and tuple(other.split("."))[: len(where)] == where:
                what = f"{other} is a part of {key}, which the matrix sets too"
                findings.append(Finding(("matrix", other), what, "one of them"))
    size = prod(len(values) for values in sketch.matrix.values())
    if size > CELLS_MAX:
        findings.append(Finding(("matrix",), f"{size} cells", f"{CELLS_MAX} or fewer"))
    return findings


def expand(raw: dict[str, Any], scenario: Scenario) -> tuple[list[Cell], list[Finding]]:
    """The cells of a scenario whose matrix has no findings, in its order, and what is wrong in any.

    raw: the plain data the scenario came from. A finding's path is the matrix value that brings it about.
    """
    base = {key: value for key, value in raw.items() if key != "matrix"}
    matrix = scenario.matrix
    cells: list[Cell] = []
    findings: dict[Finding, Finding] = {}
    slugs: set[str] = set()
    for chosen in product(*(range(len(values)) for values in matrix.values())):
        label = {key: matrix[key][index] for key, index in zip(matrix, chosen, strict=True)}
        data = base
        for key, value in label.items():
            data = _only_loads(data, value) if key == LOADS else _put(data, tuple(key.split(".")), value)
        if LOADS in label:
            label[LOADS] = _names(label[LOADS])
        slug = _unique(_slug(label), slugs)
        parsed = parse(data)
        if parsed.scenario is not None:
            cells.append(Cell(label, slug, parsed.scenario))
        for finding in parsed.findings:
            path = _cause(finding, dict(zip(matrix, chosen, strict=True)))
            at = ".".join(str(part) for part in finding.path)
            # The same mistake comes back in other cells: it is told of the first one.
            cause = Finding(path, f"{at}: {finding.what}", finding.expected)
            findings.setdefault(cause, Finding(path, f"in cell {slug}: {cause.what}", finding.expected))
    return cells, list(findings.values())


def _path_findings(sketch: Sketch, key: str) -> Iterator[Finding]:
    """What is wrong with a path into the scenario. What it leads through, if wrong itself, is not judged."""
    where = ("matrix", key)
    parts = key.split(".")
    if parts[0] in _NOT_VARIED:
        yield Finding(where, f"{parts[0]} is the same in every cell", "a path such as streams.control.period")
        return
    broken = {tuple(str(part) for part in path) for path in sketch.broken}
    names: dict[str, Any] = {name: getattr(sketch, name, None) for name in known_keys((), {})}
    names["tuning"] = {**{host: Tuning() for host in sketch.hosts}, **sketch.tuning}
    for depth, part in enumerate(parts):
        if part not in names:
            if not {(parts[0],), tuple(parts[:2])} & broken:
                above = ".".join(parts[:depth])
                what, expected = unknown("key", part, names)
                yield Finding(where, f"{what} in {above}" if above else what, expected)
            return
        names = _under(names[part])
        if depth == 0:
            names |= {str(path[1]): None for path in sketch.broken if path[0] == part and len(path) == 2}


def _under(value: object) -> dict[str, Any]:
    """What a path can go on to from the value: name or index → what is there."""
    if isinstance(value, Part):
        return {info.alias or name: getattr(value, name) for name, info in type(value).model_fields.items()}
    if isinstance(value, dict):
        return {str(name): item for name, item in value.items()}
    return {}


def _loads_findings(values: Sequence[object]) -> Iterator[Finding]:
    """What is wrong with the combinations of loads, the names' existence apart."""
    seen: list[frozenset[str]] = []
    for index, value in enumerate(values):
        where = ("matrix", LOADS, index)
        if not isinstance(value, str) and not (isinstance(value, list) and all(isinstance(n, str) for n in value)):
            yield Finding(where, f"{shown(value)} names no load", f"a load, a list of loads, or {NO_LOADS}")
            continue
        names = _names(value)
        if not names or (NO_LOADS in names and len(names) > 1):
            yield Finding(where, f"{shown(value)} is no combination of loads", f"{NO_LOADS} alone, or names of loads")
        elif len(set(names)) != len(names) or frozenset(names) in seen:
            yield Finding(where, f"{shown(value)} is there twice", "each load, and each combination, once")
        seen.append(frozenset(names))


def _names(value: object) -> list[str]:
    return list(value) if isinstance(value, list) else [str(value)]


def _only_loads(raw: dict[str, Any], value: object) -> dict[str, Any]:
    active = _names(value)
    return {**raw, LOADS: {name: load for name, load in (raw.get(LOADS) or {}).items() if name in active}}


def _put(data: Any, path: tuple[str, ...], value: object) -> Any:
    """A copy of the data with the value at the path; the original is left as it is."""
    if not path:
        return value
    if isinstance(data, list):
        at = int(path[0])
        return [*data[:at], _put(data[at], path[1:], value), *data[at + 1 :]]
    # What is not written, or written as `true`, has its defaults: the value is put among them.
    inner = data if isinstance(data, dict) else {}
    return {**inner, path[0]: _put(inner.get(path[0]), path[1:], value)}


def _cause(finding: Finding, chosen: dict[str, int]) -> Path:
    """The matrix value whose path shares most with the finding's; the matrix where several could be."""
    keys = [key for key in chosen if key != LOADS]
    at = [str(part) for part in finding.path]

    def shared(key: str) -> int:
        return next(
            (n for n, (a, b) in enumerate(zip(key.split("."), at, strict=False)) if a != b),
            len(key.split(".")),
        )

    best = max(keys, key=shared, default=None)
    if best is None or (shared(best) == 0 and len(keys) > 1):
        return ("matrix",)
    return ("matrix", best, chosen[best])


def _slug(label: dict[str, object]) -> str:
    """`key=value,key=value` with what a file name should not hold replaced by `-`; `all` for no label."""
    text = ",".join(f"{key}={_word(key, value)}" for key, value in label.items()) or "all"
    slug = re.sub(r"[^A-Za-z0-9._,=+-]+", "-", text)
    return slug if len(slug) <= _SLUG_MAX else f"{slug[: _SLUG_MAX - 9]}-{sha256(text.encode()).hexdigest()[:8]}"


def _word(key: str, value: object) -> str:
    if key == LOADS:
        return "+".join(_names(value))
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _unique(slug: str, taken: set[str]) -> str:
    """The slug, with a number where it is taken; case makes no difference, as on some file systems."""
    number, result = 1, slug
    while result.lower() in taken:
        number += 1
        result = f"{slug}-{number}"
    taken.add(result.lower())
    return result
