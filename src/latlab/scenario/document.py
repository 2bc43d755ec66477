"""YAML text to plain data, and the line and column of everything in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from latlab.scenario.findings import Finding, Path, Raw, shown

Position = tuple[int, int]
"""Line and column, both from 1."""

VALUES_MAX = 100_000
DEPTH_MAX = 50
_DIGITS_MAX = 30


@dataclass
class Document:
    """The file's plain data, where each part of it stands, and what is wrong in the YAML itself."""

    data: Any = None
    positions: dict[Path, Position] = field(default_factory=dict)
    findings: list[tuple[Position, Finding]] = field(default_factory=list)

    def position(self, path: Path) -> Position:
        """Line and column of the path, or of what would hold it."""
        return next((self.positions[p] for p in _upwards(path) if p in self.positions), (1, 1))


class _Loader(yaml.SafeLoader):
    """YAML 1.2's plain values (core schema): no dates, no base-60 numbers, `on` and `no` are text."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


_PLAIN = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?[0-9]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    "float": (
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+0123456789."),
    ),
}
_COLLECTION_TAGS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
for _kind, (_form, _first) in _PLAIN.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(rf"^(?:{_form})$"), _first)


def read_yaml(text: str) -> Document:
    """The document that the text holds; data is None, and findings say why, where the text is not YAML."""
    document = Document()
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        what = " ".join(part for part in (error.context, error.problem) if part)
        document.findings.append((_mark(error.problem_mark or error.context_mark), Finding((), f"not YAML: {what}")))
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        what = f"not YAML: the character U+{int(error.character):04X} is not allowed"
        document.findings.append(((line, 1), Finding((), what)))
    except RecursionError:
        document.findings.append(((1, 1), Finding((), "nested too deeply", f"at most {DEPTH_MAX} levels")))
    except (ValueError, OverflowError) as error:
        # PyYAML hands a number it reads (an escape, a version) to Python unchecked.
        document.findings.append(((1, 1), Finding((), f"not YAML: {error}")))
    else:
        if node is not None:
            _Reader(document).read(node)
    return document


class _Reader:
    """Turns nodes into data. Anchors may be used; what they unfold to is bounded."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.count = 0

    def read(self, node: yaml.Node) -> None:
        try:
            self.document.data = self._value(node, ())
        except _UnboundedError as error:
            self.document.data = None
            self.document.findings.append(error.args[0])

    def _value(self, node: yaml.Node, path: Path) -> Any:
        self.count += 1
        if len(path) > DEPTH_MAX:
            raise _UnboundedError(
                (_mark(node.start_mark), Finding((), "nested too deeply", f"at most {DEPTH_MAX} levels"))
            )
        if self.count > VALUES_MAX:
            raise _UnboundedError((_mark(node.start_mark), Finding((), f"expands to more than {VALUES_MAX} values")))
        if not isinstance(node, yaml.ScalarNode) and node.tag not in _COLLECTION_TAGS:
            self._wrong(_mark(node.start_mark), path, f"the tag {shown(node.tag)} is not supported", "none")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.document.positions[(*path, index)] = _mark(item.start_mark)
            return [self._value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> Raw:
        result: Raw = {}
        for key_node, value_node in node.value:
            where = _mark(key_node.start_mark)
            if not isinstance(key_node, yaml.ScalarNode):
                self._wrong(where, path, "a list or mapping as a key", "text")
                continue
            # A key is what is written, whatever type it would have as a value.
            key = key_node.value
            if not _is_unicode(key):
                self._wrong(where, path, f"{shown(key)} is not Unicode text", "text")
            elif key in result:
                first = self.document.positions[(*path, key)][0]
                self._wrong(
                    where,
                    (*path, key),
                    f"{shown(key)} appears twice, first in line {first}",
                    "each key once",
                )
            else:
                self.document.positions[(*path, key)] = where
                result[key] = self._value(value_node, (*path, key))
        return result

    def _scalar(self, node: yaml.Node, path: Path) -> Any:
        kind, text = node.tag.removeprefix("tag:yaml.org,2002:"), node.value
        form = _PLAIN.get(kind)
        if form is not None and re.fullmatch(form[0], text):
            if kind == "int" and len(text) > _DIGITS_MAX:
                self._wrong(_mark(node.start_mark), path, f"{shown(text)} is too large", "a smaller number")
                return None
            return _CONVERT[kind](text)
        if kind != "str":
            self._wrong(
                _mark(node.start_mark),
                path,
                f"{shown(text)} is not a YAML {kind}",
                "plain text, number or list",
            )
            return None
        if not _is_unicode(text):
            self._wrong(_mark(node.start_mark), path, f"{shown(text)} is not Unicode text", "text")
            return None
        return text

    def _wrong(self, where: Position, path: Path, what: str, expected: str) -> None:
        self.document.findings.append((where, Finding(path, what, expected)))


class _UnboundedError(Exception):
    """Reading cannot continue; holds the position and the finding."""


def _number(text: str) -> int:
    return int(text, 16) if text.startswith("0x") else int(text)


def _float(text: str) -> float:
    word = text.lower().lstrip("+-.")
    return float(text.replace(".", "")) if word in ("inf", "nan") else float(text)


_CONVERT = {
    "null": lambda text: None,
    "bool": lambda text: text.lower() == "true",
    "int": _number,
    "float": _float,
}


def _is_unicode(text: str) -> bool:
    """False for text with half a surrogate pair, which an escape can hold and no file can."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _mark(mark: Any) -> Position:
    return (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)


def _upwards(path: Path) -> Iterator[Path]:
    for length in range(len(path), -1, -1):
        yield path[:length]
