"""A synthetic run's description from a YAML file: the fields of `latlab.synthetic.description`, durations with units.

Keys are the fields' names without `_ns`; errors are reported as for scenarios, all of them, each with its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from pydantic_core import PydanticCustomError

from latlab.scenario.findings import Mistake, shown, unknown
from latlab.scenario.findings import Path as Place
from latlab.scenario.load import read_text, read_yaml, scenario_errors
from latlab.scenario.units import DURATION, parse_duration
from latlab.synthetic.check import problems
from latlab.synthetic.description import Description, Ingredient

KIND: Final = "kind"
KINDS: Final[dict[str, type]] = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", one.__name__).lower(): one for one in get_args(Ingredient)
}
"""{what an ingredient is called in a file: its class}."""
PACKETS_MAX: Final = 20_000_000
_SIGNED: Final = frozenset({"amplitude_ns", "shift_ns"})
_LEFT_OUT: Final = frozenset({"start_tai_ns"})
_UNKNOWN: Final = object()
"""Instead of a value that is wrong: it has been reported."""


def read_description(path: Path) -> Description:
    """The description in the file. UsageError: all that is wrong in it, line by line."""
    document = read_yaml(read_text(path))
    found = list(document.findings)
    if not isinstance(document.data, dict):
        if not found:
            what = "the file is empty" if document.data is None else f"{shown(document.data)} is not a mapping"
            found = [((1, 1), Mistake((), what, "a description: seed, packets, period, noise, ingredients"))]
        raise scenario_errors(path, found)
    reader = _DescriptionReader()
    made = reader.made(Description, document.data, ())
    findings = reader.findings
    if isinstance(made, Description) and not findings:
        findings += _problems(made)
    found += [(document.position(one.path), one) for one in findings]
    if found or not isinstance(made, Description):
        raise scenario_errors(path, found)
    return made


def _problems(made: Description) -> Iterator[Mistake]:
    if made.packets > PACKETS_MAX:
        yield Mistake(("packets",), f"{made.packets} packets", f"{PACKETS_MAX} or fewer")
    for one in problems(made):
        yield Mistake(tuple(_key(part) if isinstance(part, str) else part for part in one.path), one.what, one.remedy)


def _key(name: str) -> str:
    """What a field is called in a file."""
    return name.removesuffix("_ns")


class _DescriptionReader:
    """From plain data to dataclasses. What is wrong is in `findings`."""

    def __init__(self) -> None:
        self.findings: list[Mistake] = []

    def made(self, cls: type, data: Any, place: Place) -> Any:
        """An instance of a dataclass; _UNKNOWN where anything of it is wrong."""
        if not isinstance(data, dict):
            return self._wrong(place, f"{shown(data)} is not a mapping", "a mapping of keys to values")
        known = {_key(one.name): one for one in fields(cls) if one.name not in _LEFT_OUT}
        types = get_type_hints(cls)
        for key in data:
            if key not in known and not (key == KIND and cls in KINDS.values()):
                self._wrong((*place, key), *unknown("key", key, known))
        values = {}
        for key, one in known.items():
            if key in data:
                values[one.name] = self._value(one.name, types[one.name], data[key], (*place, key))
            elif _is_required(one):
                values[one.name] = self._wrong(place, f"{key} is missing", f"{key}: {_expected(one.name, types)}")
        wrong = any(value is _UNKNOWN for value in values.values()) or not data.keys() <= {*known, KIND}
        return _UNKNOWN if wrong else cls(**values)

    def _value(self, name: str, kind: Any, data: Any, place: Place) -> Any:
        """A field's value. kind: its type."""
        if isinstance(kind, UnionType) and NoneType in get_args(kind):
            if data is None:
                return None
            (kind,) = (one for one in get_args(kind) if one is not NoneType)
        if kind == tuple[Ingredient, ...]:
            return self._list(data, place, lambda one, at: self._ingredient(one, at))
        if get_origin(kind) is tuple:
            return self._tuple(name, kind, data, place)
        if is_dataclass(kind) and isinstance(kind, type):
            return self.made(kind, data, place)
        if get_origin(kind) is Literal:
            if data in get_args(kind):
                return data
            return self._wrong(place, f"{shown(data)} is not supported", f"one of {', '.join(get_args(kind))}")
        if kind is int and name.endswith("_ns"):
            return self._duration(data, place, signed=name in _SIGNED)
        return self._plain(kind, data, place)

    def _ingredient(self, data: Any, place: Place) -> Any:
        if not isinstance(data, dict):
            return self._wrong(place, f"{shown(data)} is not a mapping", "an ingredient: {kind: stall, at: 10s, …}")
        if data.get(KIND) not in KINDS:
            where = (*place, KIND) if KIND in data else place
            return self._wrong(where, *unknown("kind", str(data.get(KIND, "")), KINDS))
        return self.made(KINDS[data[KIND]], data, place)

    def _tuple(self, name: str, kind: Any, data: Any, place: Place) -> Any:
        """Several of one type, or one of each of some types; the last of a pair of numbers of `modes` is a duration."""
        inner = get_args(kind)
        if inner[-1] is Ellipsis:
            return self._list(data, place, lambda one, at: self._value(name, inner[0], one, at))
        if not isinstance(data, list) or len(data) != len(inner):
            return self._wrong(place, f"{shown(data)} is not a list of {len(inner)}", f"{len(inner)} values")
        names = [name] * (len(inner) - 1) + ["offset_ns" if name == "modes" else name]
        values = [self._value(*one, (*place, at)) for at, one in enumerate(zip(names, inner, data, strict=True))]
        return _UNKNOWN if any(value is _UNKNOWN for value in values) else tuple(values)

    def _list(self, data: Any, place: Place, read: Any) -> Any:
        if not isinstance(data, list):
            return self._wrong(place, f"{shown(data)} is not a list", "a list: [a, b]")
        values = [read(one, (*place, at)) for at, one in enumerate(data)]
        return _UNKNOWN if any(value is _UNKNOWN for value in values) else tuple(values)

    def _duration(self, data: Any, place: Place, *, signed: bool) -> Any:
        minus = signed and isinstance(data, str) and data[:1] in ("-", "−")
        try:
            value = parse_duration(data[1:].strip() if minus else data)
        except PydanticCustomError as error:
            context = error.context or {}
            return self._wrong(place, context["what"], context["expected"])
        return -value if minus else value

    def _plain(self, kind: Any, data: Any, place: Place) -> Any:
        if kind is bool and not isinstance(data, bool):
            return self._wrong(place, f"{shown(data)} is neither true nor false", "true or false")
        if kind is int and (isinstance(data, bool) or not isinstance(data, int) or data < 0):
            return self._wrong(place, f"{shown(data)} is not a whole number", "a whole number, 0 or more")
        if kind is float and (isinstance(data, bool) or not isinstance(data, int | float) or data != data):
            return self._wrong(place, f"{shown(data)} is not a number", "a number")
        return float(data) if kind is float else data

    def _wrong(self, place: Place, what: str, expected: str) -> Any:
        self.findings.append(Mistake(place, what, expected))
        return _UNKNOWN


def _is_required(one: Field[Any]) -> bool:
    return one.default is MISSING and one.default_factory is MISSING


def _expected(name: str, types: dict[str, Any]) -> str:
    """What is to be written for a field that is missing."""
    if name.endswith("_ns"):
        return DURATION.expected
    return "a list" if get_origin(types[name]) is tuple else "a number"
