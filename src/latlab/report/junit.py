"""Results and comparisons as JUnit XML, as Jenkins and Surefire have it: for running latlab next to tests.

A suite is a cell's repetition, or a pair of cells; a test case is what can be right or wrong of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal
from xml.etree import ElementTree as ET

from latlab.analysis.accept import EXCEEDED
from latlab.model.part import UNAVAILABLE
from latlab.model.reasons import Reason
from latlab.model.statistics import WRITTEN
from latlab.report.text import limit
from latlab.result.comparison import Compared, ComparedLosses, ComparisonDocument
from latlab.result.types import Cell, Limit, Result

Kind = Literal["failure", "error", "skipped"]
SUSPECT: Final = "suspect"
TOO_COARSE: Final = "too coarse"
"""The type of a case whose comparison could not have shown that its threshold was exceeded."""

_NOT_IN_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Case:
    """One test case: passed, unless it has a `kind` of not having done so, with its `type`, `message` and `text`."""

    name: str
    kind: Kind | None = None
    type: str = ""
    message: str = ""
    text: str = ""
    output: str = ""


@dataclass(frozen=True)
class Suite:
    """One test suite. classname: of all its cases."""

    name: str
    classname: str
    properties: Mapping[str, object]
    cases: Sequence[Case]


def result_junit(result: Result, *, strict: bool = False) -> str:
    """A result's JUnit XML: a suite a cell's repetition.

    Cases: that it was measured (an error where it failed or never ran, skipped where this machine cannot build it);
    each reason not to trust it, or one that passes where there is none; each `accept` limit. What makes a case fail is
    what makes the exit code: a reason of severity `untrusted`, and with `strict` one of `suspect`, which else is
    reported in the output of a case that passes.
    """
    suites = [_cell_suite(result, cell, strict) for cell in result.cells]
    keys = [cell.key for cell in result.cells]
    general = [one for one in result.reasons if not _is_of(one, keys)]
    if general:
        suites.append(_suite(result, "run", {}, _distrusted(general, strict)))
    return _xml(f"latlab: {result.scenario}", suites)


def comparison_junit(document: ComparisonDocument, *, need_power: bool = False) -> str:
    """A comparison's JUnit XML: a suite a pair of cells, a case a stream, metric and statistic.

    A case fails if it is a regression, and is skipped where nothing could be judged; without a baseline none fails. One
    that is too coarse for its threshold is skipped, too, and with need_power fails. Its sentence is the message, or the
    output of a case that passes.
    """
    groups: dict[tuple[str, str, str, str], list[Compared]] = {}
    for one in document.comparisons:
        groups.setdefault((one.a.run, one.a.slug, one.b.run, one.b.slug), []).append(one)
    suites = [_pair_suite(document, found, need_power) for found in groups.values()]
    packets = [_loss(one) for one in document.losses]
    if packets:
        suites.append(Suite("lost packets", "latlab.compare", {}, packets))
    lost = [Case(line, "error", "lost", line) for line in document.lost]
    unmatched = [Case(line, "skipped", "not compared", line) for line in document.unmatched]
    if lost or unmatched:
        suites.append(Suite("cells without a pair", "latlab.compare", {}, [*lost, *unmatched]))
    return _xml("latlab compare", suites)


def _cell_suite(result: Result, cell: Cell, strict: bool) -> Suite:
    reasons = _distrusted((one for one in result.reasons if _is_of(one, (cell.key,))), strict)
    limits = [one for one in result.accept if (one.cell, one.repeat) == (cell.slug, cell.repeat)]
    trust = reasons or ([Case("trust: trusted")] if cell.status == "ok" else [])
    properties = {"label": cell.label, "verdict": cell.verdict, "status": cell.status, "order": cell.order}
    return _suite(result, cell.key, properties, [_measured(cell), *trust, *map(_accepted, limits)])


def _suite(result: Result, key: str, more: Mapping[str, object], cases: Sequence[Case]) -> Suite:
    properties = {"run": result.run, "scenario": result.scenario, **more}
    return Suite(f"{result.scenario}: {key}", f"latlab.{_word(result.scenario)}.{_word(key)}", properties, cases)


def _measured(cell: Cell) -> Case:
    if cell.status == "ok":
        return Case("measured")
    problems = [cell.reason, *cell.reason.problems] if cell.reason else []
    message = f"{cell.status}: {problems[0].what if problems else 'no reason given'}"
    lines = [f"{one.where}: {one.what} ({one.remedy})" for one in problems]
    kind: Kind = "skipped" if cell.status == UNAVAILABLE else "error"
    return Case("measured", kind, cell.status, message, "\n".join(lines))


def _distrusted(reasons: Iterable[Reason], strict: bool) -> list[Case]:
    """A case each rule that is broken, however many places it is broken in: a case's name is there once."""
    rules: dict[str, list[Reason]] = {}
    for reason in reasons:
        rules.setdefault(reason.id, []).append(reason)
    return [_distrust(f"trust: {id_}", found, strict) for id_, found in rules.items()]


def _distrust(name: str, found: Sequence[Reason], strict: bool) -> Case:
    severity, finding, told = found[0].severity, found[0].finding, "\n".join(map(_told, found))
    if severity == SUSPECT and not strict:
        return Case(name, output=f"{severity}: {finding}\n{told}")
    return Case(name, "failure", severity, finding, told)


def _told(reason: Reason) -> str:
    parts = ("where", "expected", "actual", "remedy")
    return "\n".join(f"{part}: {said}" for part in parts if (said := getattr(reason, part)))


def _accepted(entry: Limit) -> Case:
    name = f"accept: {entry.path}"
    allowed, actual = (limit(entry.path, value) for value in (entry.limit, entry.actual))
    if entry.ok:
        return Case(name, output=f"{actual}, at most {allowed}")
    found = f"{actual}, at most {allowed}" if entry.reason == EXCEEDED else f"{entry.reason}, at most {allowed}"
    return Case(name, "failure", str(entry.reason), f"{entry.path}: {found}")


def _is_of(reason: Reason, keys: Sequence[str]) -> bool:
    """Whether the reason is of one of these cells (`SLUG/rN`): its place begins with it."""
    return reason.where.partition(": ")[0] in keys


def _pair_suite(document: ComparisonDocument, found: Sequence[Compared], need_power: bool) -> Suite:
    first = found[0]
    scenarios = {side.run: side.scenario for side in document.sides}
    pair = " → ".join(dict.fromkeys((first.a.slug, first.b.slug)))
    properties = {
        f"{name}.{key}": value
        for name, side in (("a", first.a), ("b", first.b))
        for key, value in (*side, ("scenario", scenarios[side.run]))
    }
    more = {"label": first.label, "family": document.family, "alpha": document.alpha}
    name = f"{scenarios[first.b.run]}: {pair}"
    return Suite(
        name, f"latlab.compare.{_word(pair)}", properties | more, [_compared(one, need_power) for one in found]
    )


def _loss(one: ComparedLosses) -> Case:
    name = ", ".join(filter(None, (one.cell, one.stream, one.b.name)))
    if one.regression:
        return Case(name, "failure", "regression", one.sentence)
    return Case(name, output=one.sentence)


def _compared(one: Compared, need_power: bool) -> Case:
    name = f"{one.stream} {one.metric} {WRITTEN[one.statistic]}"
    if one.regression and one.regression.outcome == "regression":
        return Case(name, "failure", "regression", one.told)
    if one.p_adjusted is None:
        return Case(name, "skipped", "not judged", one.told)
    if one.regression and one.regression.coarse:
        return Case(name, "failure" if need_power else "skipped", TOO_COARSE, one.told)
    return Case(name, output=one.told)


def _word(text: str) -> str:
    """A part of a class's name: readers cut those at dots."""
    return text.replace(".", "_")


def _xml(name: str, suites: Sequence[Suite]) -> str:
    root = ET.Element("testsuites", {"name": _plain(name), **_counts([case for one in suites for case in one.cases])})
    del root.attrib["skipped"]  # only a suite may have it
    for number, suite in enumerate(suites):
        root.append(_suite_element(suite, number))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite_element(suite: Suite, number: int) -> ET.Element:
    element = ET.Element("testsuite", {"name": _plain(suite.name), "id": str(number), **_counts(suite.cases)})
    properties = ET.SubElement(element, "properties")
    for name, value in suite.properties.items():
        ET.SubElement(properties, "property", {"name": name, "value": "" if value is None else _plain(str(value))})
    for case in suite.cases:
        element.append(_case_element(suite, case))
    return element


def _case_element(suite: Suite, case: Case) -> ET.Element:
    element = ET.Element("testcase", {"classname": _plain(suite.classname), "name": _plain(case.name), "time": "0"})
    if case.kind:
        child = ET.SubElement(element, case.kind, {"type": _plain(case.type), "message": _plain(case.message)})
        child.text = _plain(case.text) or None
    if case.output:
        ET.SubElement(element, "system-out").text = _plain(case.output)
    return element


def _counts(cases: Sequence[Case]) -> dict[str, str]:
    kinds = [case.kind for case in cases]
    return {
        "tests": str(len(cases)),
        "failures": str(kinds.count("failure")),
        "errors": str(kinds.count("error")),
        "skipped": str(kinds.count("skipped")),
        "time": "0",
    }


def _plain(text: str) -> str:
    """The text without the characters that XML has no place for."""
    return _NOT_IN_XML.sub("\ufffd", text)
