"""A scenario file to a scenario, or to everything that is wrong with the file, line by line."""

from __future__ import annotations

import codecs
import os
import select
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic_core import PydanticCustomError

from latlab.model.errors import UsageError
from latlab.scenario.document import Document, Position, read_yaml
from latlab.scenario.findings import Finding, Raw, show_path, shown
from latlab.scenario.findings import Path as Place
from latlab.scenario.matrix import Cell, expand
from latlab.scenario.models import Scenario
from latlab.scenario.parse import parse
from latlab.scenario.problems import Problem, ScenarioErrors
from latlab.scenario.trigger import parse_trigger

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
    combinations: tuple[Cell, ...]
    document: Document

    def where(self, place: Place, cell: Cell | None = None) -> str:
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
        raise scenario_errors(path, [((1, 1), Finding((), "the file is empty", "a scenario"))])
    if raw is not None and not isinstance(raw, dict):
        findings.append(
            ((1, 1), Finding((), f"{shown(raw)} is not a mapping", "a scenario: name, hosts, streams, ..."))
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


def with_trigger(loaded: Loaded, expression: str) -> Loaded:
    """The scenario with this trigger, in its text too: that is what a run keeps. UsageError: it is no trigger, or has
    no place in the text. ScenarioErrors: as of `load_scenario`.
    """
    where = "--trigger"
    try:
        trigger = parse_trigger(expression)
    except PydanticCustomError as error:
        context = error.context or {}
        raise UsageError(context["what"], where=where, remedy=context["expected"]) from None
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
        raise UsageError(f"it cannot be added to {loaded.path} as a line", where=where, remedy=remedy)
    return load_text(text, loaded.path)


def _is_line(text: str, position: Position, value: str) -> bool:
    """Whether the key at this position is on a separate line, with its value."""
    line = text.splitlines()[position[0] - 1]
    return line.startswith("trigger:") and value in line


def cells(loaded: Loaded) -> list[Cell]:
    """Every combination of the matrix's values, each with its own scenario, in the matrix's order."""
    return list(loaded.combinations)


def read_text(path: Path) -> str:
    """The file's text. Errors: ScenarioErrors if it cannot be read, is no UTF-8 or too large."""
    try:
        data = _first_bytes(path, BYTES_MAX + 1)
    except FileNotFoundError:
        raise scenario_errors(path, [((0, 0), Finding((), "there is no such file"))]) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise scenario_errors(path, [((0, 0), Finding((), f"cannot be read: {why}"))]) from None
    if len(data) > BYTES_MAX:
        raise scenario_errors(path, [((0, 0), Finding((), "is larger than 1 MiB", "a scenario"))])
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = f"byte 0x{data[error.start]:02x} is not UTF-8"
        raise scenario_errors(path, [((line, 1), Finding((), what, "text in UTF-8"))]) from None


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


def _placed(document: Document, findings: Iterable[Finding]) -> list[tuple[Position, Finding]]:
    return [(document.position(finding.path), finding) for finding in findings]


def scenario_errors(path: Path, findings: Iterable[tuple[Position, Finding]]) -> ScenarioErrors:
    """All that is wrong with a file, each once, to be raised."""
    return ScenarioErrors(
        [
            Problem(str(path), line, column, show_path(finding.path), finding.what, finding.expected)
            for (line, column), finding in dict.fromkeys(findings)
        ]
    )
