"""What latlab's short ids mean: rules, anomaly classes, metrics, stages, bridges, …, from where each is declared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from textwrap import wrap
from typing import Final

from rich.console import Console
from rich.text import Text

from latlab.analysis import interrupt_way, way
from latlab.analysis.anomalies import CLASSES, THRESHOLDS
from latlab.analysis.anomalies.parts import AFTER
from latlab.analysis.interrupt_way import REASONS
from latlab.analysis.words import duration
from latlab.model.bridges import KINDS
from latlab.model.errors import UsageError
from latlab.model.labels import LABELS
from latlab.model.metrics import IMPORTED_METRICS, METRICS, POPULATIONS, PROBE_METRICS, TIMER_METRICS, MetricKind
from latlab.model.rules import IDS, OTHERS, RULES, PlainRule
from latlab.model.timestamps import PLACES
from latlab.report.columns import sentence, sentence_width
from latlab.report.definitions import TIMESTAMPS

NEAREST: Final = 3
NARROWEST: Final = 20
"""No text is broken into shorter lines."""
_LATE_ONLY: Final = "○"


@dataclass(frozen=True)
class Topic:
    """What one id means. kind: what it is the id of. facts: {heading: text}, in order."""

    kind: str
    id: str
    title: str
    facts: Mapping[str, str] = field(default_factory=dict)


def topics() -> list[Topic]:
    """Return all there are, by kind, without headings that have no text."""
    found = (*_rules(), *_classes(), *_metrics(), *_stages(), *_places(), *_timestamps(), *_missing())
    return [
        replace(one, facts={heading: text for heading, text in one.facts.items() if text})
        for one in (*found, *_labels(), *_bridges())
    ]


def explained(words: Sequence[str]) -> list[Topic]:
    """Return what these ids mean, in their order; one may be of several kinds. A rule's name serves as its id.

    UsageError: there is no such id.
    """
    known: dict[str, list[Topic]] = {}
    for topic in topics():
        known.setdefault(_key(topic.id), []).append(topic)
    found: list[Topic] = []
    for word in words:
        key = _key(IDS.get(word, word))
        if key not in known:
            near = [known[one][0].id for one in get_close_matches(key, known, n=NEAREST, cutoff=0)]
            raise UsageError(
                f"there is no id {word!r}", remedy=f"nearest: {', '.join(near)}; `latlab explain` lists all ids"
            )
        found += known[key]
    return found


def print_topics(found: Sequence[Topic], console: Console) -> None:
    """Print what each id means."""
    for topic in found:
        title = sentence(f"{topic.id} ({topic.kind}): {topic.title}", sentence_width(console))
        title.stylize("bold", 0, len(topic.id))
        console.print(title, soft_wrap=True)
        _print_defined(topic.facts, console)
        console.print()


def print_ids(found: Sequence[Topic], console: Console) -> None:
    """Print all ids by kind, a line each."""
    for kind in dict.fromkeys(topic.kind for topic in found):
        console.print(Text(kind, "bold"))
        _print_defined({topic.id: topic.title for topic in found if topic.kind == kind}, console)
        console.print()


def _print_defined(texts: Mapping[str, str], console: Console) -> None:
    """Print each text behind its term, its continuation below its beginning."""
    column = max(map(len, texts), default=0) + 4
    indent = "\n" + " " * column
    for term, text in texts.items():
        width = max(sentence_width(console) - column, NARROWEST)
        lines = wrap(text, width, break_on_hyphens=False, break_long_words=False) or [""]
        console.print(Text(f"  {term:{column - 2}}" + indent.join(lines)), soft_wrap=True)


def _key(word: str) -> str:
    """Return the id as it is looked up: in any case, with blanks, hyphens or underscores."""
    return re.sub(r"[^a-z0-9]+", "-", word.lower().replace("'s", "")).strip("-")


def _rules() -> Iterator[Topic]:
    for rule in RULES:
        on_late = _LATE_ONLY in rule.broken_when
        yield Topic(
            "rule of the verdict",
            rule.id,
            rule.name,
            {
                "severity": rule.severity,
                "judged by": f"what was found {', '.join(rule.when)} the streams",
                "looks at": rule.looks_at,
                "broken when": rule.broken_when,
                _LATE_ONLY: "applies only to a machine that delayed late packets" if on_late else "",
                **_found(rule),
            },
        )
    for other in OTHERS:
        yield Topic(
            "rule of a whole run, or of imported files",
            other.id,
            other.name,
            {"severity": other.severity, **_found(other)},
        )


def _found(rule: PlainRule) -> dict[str, str]:
    """What is said where it is broken, and what else may be, with another severity where it has one."""
    usual, *others = rule.findings.items()
    told = (text if severity == rule.severity else f"{text} ({severity})" for text, severity in others)
    return {"finding": usual[0], "or": "; ".join(told), "remedy": rule.remedy or "it depends on what is found"}


def _classes() -> Iterator[Topic]:
    values = asdict(THRESHOLDS)
    for one in CLASSES:
        facts = {"evidence": one.evidence}
        for number, search in enumerate(one.searches):
            again = " (or)" if number else ""
            facts |= {f"found by{again}": search.found_by, f"it is not{again}": search.is_not}
        named = re.findall(r"`(\w+)`", " ".join(facts.values()))
        used = {name: values[name] for name in named if name in values}
        facts["thresholds"] = ", ".join(f"{name} {_value(name, value)}" for name, value in used.items())
        facts["clean windows"] = "leave it out" if one.cut else ""
        yield Topic("anomaly class", one.name, f"{one.title}: {one.meaning}", facts)


def _value(name: str, value: float) -> str:
    return duration(value) if name.endswith("_ns") else f"{value}"


def _metrics() -> Iterator[Topic]:
    tables = {"": METRICS, "a probe": PROBE_METRICS, "a timer": TIMER_METRICS, "other programs": IMPORTED_METRICS}
    for whose, metrics in tables.items():
        for metric in metrics:
            yield Topic("metric", metric.name, f"{metric.title}: {metric.formula}", {"of": whose, **_measured(metric)})


def _measured(metric: MetricKind) -> dict[str, str]:
    pairs = ("first " * metric.periodic + f"{start} → {end}" for start, end in metric.pairs)
    return {
        "from → to": f"{', else '.join(pairs)}" if metric.pairs else "",
        "missing": f"counted among {POPULATIONS[metric.population]}" if metric.pairs else "",
        "clocks": _clocks(metric),
    }


_WATCHED: Final = {
    "first_point": "of `latlab watch` that is --clock-bound, and 0 on one kernel; without --clock-bound there is no ± "
    "between two kernels, and the verdict is untrusted. `flows` of a scenario compare the clocks",
    "previous": "of one point, and so of one clock: ± is 0, without --clock-bound, too",
    "counted": "of one point, and so of one clock: ± is 0",
    "sampled": "the publisher's and the point's: ± is --clock-bound, and without it there is no such figure",
}
"""{where a metric of watched packets begins: what its ± is}."""


def _clocks(metric: MetricKind) -> str:
    stated = next((text for start, text in _WATCHED.items() for pair in metric.pairs if pair[0] == start), "")
    if not metric.crosses_hosts:
        return stated
    return "; ".join(filter(None, ("involves two hosts: includes the ± of their clocks' offset", stated)))


def _stages() -> Iterator[Topic]:
    happens = way.HAPPENS | interrupt_way.HAPPENS
    ends: dict[str, list[str]] = {}
    for (start, end), name in (way.INTERVALS | interrupt_way.INTERVALS).items():
        ends.setdefault(name, []).append(f"{start} → {end}")
    for name, pairs in ends.items():
        title = ": ".join(filter(None, ("" if name == _key(name) else name, happens.get(name))))
        yield Topic("stage", _key(name), title or name, {"from → to": ", or ".join(pairs)})


def _places() -> Iterator[Topic]:
    for place, text in PLACES.items():
        until = ", ".join(stamp for stamp, where in AFTER.items() if where == place)
        yield Topic("place of an anomaly", place, text, {"until": until})


def _timestamps() -> Iterator[Topic]:
    said = {name: text for names, text in TIMESTAMPS for name in names.split(", ")}
    for name, text in (interrupt_way.STOPS | said).items():
        yield Topic("timestamp", name, text)


def _missing() -> Iterator[Topic]:
    for id_, text in REASONS.items():
        yield Topic("why a stage is missing", id_, text)


def _labels() -> Iterator[Topic]:
    for one in LABELS:
        title = ": ".join(filter(None, ("" if one.name == _key(one.name) else one.name, one.meaning)))
        facts = {"differences": one.compared, "read": one.page}
        yield Topic("label of figures", _key(one.name), title, facts)


def _bridges() -> Iterator[Topic]:
    for kind in KINDS.values():
        facts = {
            "carried by": kind.carried_by,
            "between guest and host": kind.between_guest_and_host,
            "needs": kind.needs.replace("`", ""),
            "programs": ", ".join(kind.tools),
            "kernel modules": _modules(kind.modules),
            "used if there": _modules(kind.optional_modules),
            "read": kind.page,
        }
        yield Topic("bridge", kind.name, kind.title, facts)


def _modules(modules: Mapping[str, str]) -> str:
    return ", ".join(f"{module} ({symbol})" for module, symbol in modules.items())
