"""Writes the tables of the documentation that the code declares, each between two marks of its page, the JSON
Schemas of scenarios and results, the columns of recordings, and the agent's limits.

    tools/reference.py

A table begins after `<!-- tools/reference.py: NAME -->` and ends before `<!-- end -->`. What else is on a page stays.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import Final

from latlab.analysis import interrupt_way
from latlab.analysis.anomalies import CLASSES
from latlab.analysis.interrupt_way import REASONS
from latlab.cli.app import ENVIRONMENT, EXIT_CODES
from latlab.cli.help import HelpEntry, HelpPage
from latlab.model.bridges import KINDS
from latlab.model.limits import LIMITS_FILE
from latlab.model.metrics import METRICS, POPULATIONS, PROBE_METRICS, TIMER_METRICS, MetricKind
from latlab.model.rules import OTHERS, RULES
from latlab.recordings.arrow import TABLES_FILE
from latlab.result import store
from latlab.scenario import limits
from latlab.scenario.schema import SCHEMA_FILE, schema_text
from latlab.testbed.agent_binary import find_agent
from man import pages as verbs

DOCS: Final = Path(__file__).parents[1] / "docs"
BETWEEN: Final = re.compile(r"(<!-- tools/reference\.py: ([\w-]+) -->\n\n).*?(\n<!-- end -->)", re.DOTALL)
LINKS: Final = {"`complaints`": "facts.md#kernel", "`gates.missed`": "formulas.md#gates"}
"""What a table links to, from a page of the reference."""


def main() -> int:
    """Write the pages that are not as the code has them, and print their names."""
    for path, text in pages():
        if path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(path)
    return 0


def pages() -> Iterator[tuple[Path, str]]:
    """Each page with such tables, the JSON Schemas, and the recordings' columns; each with its text as it is to be."""
    declared = json.loads(subprocess.run([find_agent(), "schema"], check=True, capture_output=True).stdout)
    yield TABLES_FILE, columns_text(declared["recordings"])
    yield LIMITS_FILE, json.dumps(declared["limits"], indent=1) + "\n"
    yield SCHEMA_FILE, schema_text()
    yield DOCS / "reference/result.schema.json", store.schema_text()
    for path in sorted(DOCS.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        if BETWEEN.search(text):
            yield path, BETWEEN.sub(lambda found: found[1] + TABLES[found[2]] + found[3], text)


def columns_text(tables: Mapping[str, Sequence[object]]) -> str:
    """The columns of recordings in JSON, a column a line."""
    return (
        "{\n"
        + ",\n".join(
            f' "{name}": [\n' + ",\n".join(f"  {json.dumps(column)}" for column in columns) + "\n ]"
            for name, columns in tables.items()
        )
        + "\n}\n"
    )


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    text = "".join("|" + "|".join(f" {cell} " if cell else " " for cell in line) + "|\n" for line in lines)
    for shown, target in LINKS.items():
        text = text.replace(shown, f"[{shown}]({target})")
    return text.replace("| --- |", "|---|").replace(" --- |", "---|")


def _names(names: Mapping[str, str], key: str) -> str:
    return table((key, "what it is"), names.items())


def _metrics(metrics: Iterable[MetricKind]) -> str:
    columns = ("metric", "formula", "start and end, in order of preference", "`missing` counts among")
    return table(
        (*columns, "carries the clocks' ±"),
        (
            (
                f"`{one.name}`",
                one.formula,
                ", ".join(end if one.periodic else f"{start} → {end}" for start, end in one.pairs),
                POPULATIONS[one.population],
                "yes" if one.crosses_hosts else "no",
            )
            for one in metrics
        ),
    )


def _bridges() -> Iterator[tuple[str, ...]]:
    for kind in KINDS.values():
        host = "by forwarded ports" if kind.translates else "yes" if kind.reaches_host else "no"
        frames = "yes" if kind.carries_frames else "no"
        yield f"`{kind.name}`", kind.carried_by, kind.between_guest_and_host, frames, host


def _needs() -> Iterator[tuple[str, ...]]:
    for kind in KINDS.values():
        uplink = "a network card" if kind.needs_card else "any interface" if kind.needs_uplink else "any, or none"
        several = "yes" if kind.many_guests else "no"
        left = "nothing" if kind.leaves_nothing else "a port of the bridge" if kind.takes_uplink else "all"
        yield f"`{kind.name}`", kind.needs, uplink, several, left


def _searches() -> Iterator[tuple[str, str, str]]:
    """How classes are found: those that are found alike in one row, and further ways in rows without a name."""
    for searches, classes in groupby((one for one in CLASSES if one.searches), key=lambda one: one.searches):
        names = ", ".join(f"`{one.name}`" for one in classes)
        for number, search in enumerate(searches):
            yield ("the same for less long: shifts" if number else names), search.found_by, search.is_not


def _command_line() -> str:
    """Every verb, as `--help` has it."""
    common = {"environment variable": ENVIRONMENT, "exit code": EXIT_CODES}
    tables = [_entries(title, entries) for title, entries in common.items()]
    return "\n".join([*map(_verb, verbs()), "## All of them\n", "\n".join(tables)])


def _verb(page: HelpPage) -> str:
    text = [f"## {page.name}\n", f"```\n{page.name} {page.usage}\n```\n", *(fill(one) for one in _paragraphs(page))]
    text += [_entries(heading, entries) for heading, entries in page.groups]
    for example in page.examples:
        text.append("\n".join(["```sh", *wrap(example.what_for, 96, initial_indent="# ", subsequent_indent="# ")]))
        text[-1] += "\n" + "\n".join((*example.commands, "```\n"))
    return "\n".join(text)


def _paragraphs(page: HelpPage) -> Iterator[str]:
    yield from (page.summary, *page.paragraphs)


def fill(text: str) -> str:
    """A paragraph in Markdown."""
    return "\n".join(wrap(_plain(text), 96, break_on_hyphens=False, break_long_words=False)) + "\n"


def _entries(heading: str, entries: Sequence[HelpEntry]) -> str:
    return table((heading, ""), ((f"`{one.term}`".replace("|", r"\|"), _plain(one.text)) for one in entries))


def _plain(text: str) -> str:
    """The text without what Markdown would take for its own."""
    return text.replace("|", r"\|").replace("*", r"\*").replace("<", r"\<")


TABLES: Final[Mapping[str, str]] = {
    "rules": table(
        ("id", "rule", "severity", "when", "looks at", "broken when"),
        (
            (f"`{rule.id}`", rule.name, rule.severity, ", ".join(rule.when), rule.looks_at, rule.broken_when)
            for rule in RULES
        ),
    ),
    "findings": table(
        ("id", "rule", "finding", "severity"),
        (
            (f"`{rule.id}`", rule.name, finding, severity)
            for rules, first in ((RULES, 1), (OTHERS, 0))
            for rule in rules
            for finding, severity in list(rule.findings.items())[first:]
        ),
    ),
    "classes": table(
        ("", "class", "mark", "what it is", "its evidence", "clean windows"),
        (
            (str(code), f"`{one.name}`", one.letter, one.meaning, one.evidence, "leave it out" if one.cut else "")
            for code, one in enumerate(CLASSES, start=1)
        ),
    ),
    "searches": table(("class", "found by", "it is not"), _searches()),
    "bridges": table(
        ("`bridge`", "what carries a packet", "between guest and host", "frames, VLAN tags", "reaches its host"),
        _bridges(),
    ),
    "bridge-needs": table(
        ("`bridge`", "the machine needs", "uplink", "several guests on it", "what the host keeps of it"), _needs()
    ),
    "command-line": _command_line(),
    "metrics": _metrics(METRICS),
    "probe-metrics": _metrics(PROBE_METRICS),
    "timer-metrics": _metrics(TIMER_METRICS),
    "limited": table(
        ("part", "one of"),
        (
            (what, ", ".join(f"`{name}`" for name in names))
            for what, names in {
                "metric of a stream, and of a probe's `up` and `down`": limits.METRICS,
                "metric of a probe": limits.PROBE_METRICS,
                "metric of a timer, cyclictest or timerlat": limits.TIMER_METRICS,
                "statistic": limits.STATISTICS,
                "count": limits.COUNTED,
                "count of a probe": limits.PROBE_COUNTED,
                "count of a timer": limits.TIMER_COUNTED,
            }.items()
        ),
    ),
    "stops": _names(interrupt_way.STOPS, "stop"),
    "missing": table(("reason", ""), ((f"`{name}`", text) for name, text in REASONS.items())),
}

if __name__ == "__main__":
    raise SystemExit(main())
