"""A scenario file to a scenario, or to everything that is wrong with the file, line by line."""

from __future__ import annotations

import codecs
import os
import re
import select
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic_core import PydanticCustomError

from latlab.model.errors import UsageError
from latlab.scenario.findings import Mistake, Problem, Raw, ScenarioErrors, show_path, shown
from latlab.scenario.findings import Path as Place
from latlab.scenario.limits import Trigger, parse_trigger
from latlab.scenario.matrix import MatrixCell, expand
from latlab.scenario.models import Scenario
from latlab.scenario.parse import parse

# YAML text to plain data, and the line and column of everything in it.


Position = tuple[int, int]
"""Line and column, both from 1."""

VALUES_MAX = 100_000
DEPTH_MAX = 50
_DIGITS_MAX = 30


@dataclass
class Document:
    """The file's plain data, where each part of it stands, and what is wrong in the YAML itself."""

    data: Any = None
    positions: dict[Place, Position] = field(default_factory=dict)
    findings: list[tuple[Position, Mistake]] = field(default_factory=list)

    def position(self, path: Place) -> Position:
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
        document.findings.append((_mark(error.problem_mark or error.context_mark), Mistake((), f"not YAML: {what}")))
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        what = f"not YAML: the character U+{int(error.character):04X} is not allowed"
        document.findings.append(((line, 1), Mistake((), what)))
    except RecursionError:
        document.findings.append(((1, 1), Mistake((), "nested too deeply", f"at most {DEPTH_MAX} levels")))
    except (ValueError, OverflowError) as error:
        # PyYAML hands a number it reads (an escape, a version) to Python unchecked.
        document.findings.append(((1, 1), Mistake((), f"not YAML: {error}")))
    else:
        if node is not None:
            _YamlReader(document).read(node)
    return document


class _YamlReader:
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

    def _value(self, node: yaml.Node, path: Place) -> Any:
        self.count += 1
        if len(path) > DEPTH_MAX:
            raise _UnboundedError(
                (_mark(node.start_mark), Mistake((), "nested too deeply", f"at most {DEPTH_MAX} levels"))
            )
        if self.count > VALUES_MAX:
            raise _UnboundedError((_mark(node.start_mark), Mistake((), f"expands to more than {VALUES_MAX} values")))
        if not isinstance(node, yaml.ScalarNode) and node.tag not in _COLLECTION_TAGS:
            self._wrong(_mark(node.start_mark), path, f"the tag {shown(node.tag)} is not supported", "none")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.document.positions[(*path, index)] = _mark(item.start_mark)
            return [self._value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Place) -> Raw:
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

    def _scalar(self, node: yaml.Node, path: Place) -> Any:
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

    def _wrong(self, where: Position, path: Place, what: str, expected: str) -> None:
        self.document.findings.append((where, Mistake(path, what, expected)))


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


def _upwards(path: Place) -> Iterator[Place]:
    for length in range(len(path), -1, -1):
        yield path[:length]


# A scenario file to a scenario, or to everything that is wrong with the file, line by line.


PIPE_S = 10
BYTES_MAX = 2**20


@dataclass(frozen=True)
class Loaded:
    """A file that is right. text: as written. raw: its plain data. combinations: its cells in order.

    document: where each part of it stands.
    """

    path: Path
    text: str
    raw: Raw
    scenario: Scenario
    combinations: tuple[MatrixCell, ...]
    document: Document

    def where(self, place: Place, cell: MatrixCell | None = None) -> str:
        """`file:line: path` of a place in the scenario; in a cell, of the value that the matrix or an override puts
        there."""
        for path, source in (cell.sources if cell else {}).items():
            if tuple(map(str, place))[: len(path)] == path:
                return self.where(source)
        return f"{self.path}:{self.document.position(place)[0]}: {show_path(place)}"


def load_scenario(path: Path) -> Loaded:
    """The scenario in the file. Errors: ScenarioErrors, all that is wrong in it and in any of its cells."""
    return load_text(read_text(path), path)


def load_text(text: str, path: Path) -> Loaded:
    """Return the scenario in a text that stands in this file, or is to. Errors: as of `load_scenario`."""
    document = read_yaml(text)
    findings = list(document.findings)
    raw = document.data
    if raw is None and not findings:
        raise scenario_errors(path, [((1, 1), Mistake((), "the file is empty", "a scenario"))])
    if raw is not None and not isinstance(raw, dict):
        findings.append(
            ((1, 1), Mistake((), f"{shown(raw)} is not a mapping", "a scenario: name, hosts, streams, ..."))
        )
    if not isinstance(raw, dict):
        raise scenario_errors(path, findings)
    parsed = parse(raw)
    findings += _placed(document, parsed.findings)
    combinations, wrong = expand(raw, parsed)
    findings += _placed(document, wrong)
    if findings or parsed.scenario is None:
        raise scenario_errors(path, findings)
    return Loaded(path, text, raw, parsed.scenario, tuple(combinations), document)


_TRIGGER: Final = "--trigger"


def trigger_given(expression: str) -> Trigger:
    """The trigger of the command line. UsageError: it is none."""
    try:
        return parse_trigger(expression)
    except PydanticCustomError as error:
        context = error.context or {}
        raise UsageError(context["what"], where=_TRIGGER, remedy=context["expected"]) from None


def with_trigger(loaded: Loaded, expression: str) -> Loaded:
    """The scenario with this trigger, in its text too: that is what a run keeps. UsageError: it is no trigger, or has
    no place in the text. ScenarioErrors: as of `load_scenario`.
    """
    trigger = trigger_given(expression)
    line = f"trigger: {trigger.text}"
    given = loaded.document.positions.get(("trigger",))
    if isinstance(loaded.raw.get("trigger"), str) and given and _is_line(loaded.text, given, loaded.raw["trigger"]):
        lines = loaded.text.splitlines()
        lines[given[0] - 1] = line
        text = "\n".join(lines) + "\n"
    else:
        text = f"{loaded.text.rstrip()}\n{line}\n"
    if (read_yaml(text).data or {}) != {**loaded.raw, "trigger": trigger.text}:
        remedy = f"write it into the scenario: {line}"
        raise UsageError(f"it cannot be added to {loaded.path} as a line", where=_TRIGGER, remedy=remedy)
    return load_text(text, loaded.path)


def _is_line(text: str, position: Position, value: str) -> bool:
    """Whether the key at this position is on a separate line, with its value."""
    line = text.splitlines()[position[0] - 1]
    return line.startswith("trigger:") and value in line


def cells(loaded: Loaded) -> list[MatrixCell]:
    """Every combination of the matrix's values, each with its own scenario, in the matrix's order."""
    return list(loaded.combinations)


def read_text(path: Path) -> str:
    """The file's text. Errors: ScenarioErrors if it cannot be read, is no UTF-8 or too large."""
    try:
        data = _first_bytes(path, BYTES_MAX + 1)
    except FileNotFoundError:
        raise scenario_errors(path, [((0, 0), Mistake((), "there is no such file"))]) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise scenario_errors(path, [((0, 0), Mistake((), f"cannot be read: {why}"))]) from None
    if len(data) > BYTES_MAX:
        raise scenario_errors(path, [((0, 0), Mistake((), "is larger than 1 MiB", "a scenario"))])
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = f"byte 0x{data[error.start]:02x} is not UTF-8"
        raise scenario_errors(path, [((line, 1), Mistake((), what, "text in UTF-8"))]) from None


def _first_bytes(path: Path, count: int) -> bytes:
    """Up to so many bytes of a file. TimeoutError: it is a pipe without a writer."""
    # Opening a pipe, and reading it, would wait until a writer opens it.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0) as file:
        readable, data = select.poll(), bytearray()
        readable.register(file, select.POLLIN)
        while len(data) < count:
            if not readable.poll(PIPE_S * 1000):
                raise TimeoutError(0, f"nothing arrived through this pipe for {PIPE_S} s")
            piece = file.read(count - len(data))
            if piece == b"":
                break
            data += piece or b""
    return bytes(data)


def _placed(document: Document, findings: Iterable[Mistake]) -> list[tuple[Position, Mistake]]:
    return [(document.position(finding.path), finding) for finding in findings]


def scenario_errors(path: Path, findings: Iterable[tuple[Position, Mistake]]) -> ScenarioErrors:
    """All that is wrong with a file, each once, to be raised."""
    return ScenarioErrors(
        [
            Problem(str(path), line, column, show_path(finding.path), finding.what, finding.expected)
            for (line, column), finding in dict.fromkeys(findings)
        ]
    )
