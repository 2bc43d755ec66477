"""What the machines said of themselves: what stayed the same, and what differed or changed, host by host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from latlab.model.part import Facts

ABSENT: Final = "absent"


@dataclass(frozen=True)
class Change:
    """One fact in one cell, before and after; `changed` is whether the cell itself saw it change."""

    cell: str
    before: str
    after: str

    @property
    def changed(self) -> bool:
        """Whether it was another before than after."""
        return self.before != self.after


@dataclass(frozen=True)
class HostFacts:
    """One host's facts by dotted path: `same` everywhere, and `varied` with what each cell found."""

    host: str
    same: tuple[tuple[str, str], ...]
    varied: tuple[tuple[str, tuple[Change, ...]], ...]

    @property
    def changed(self) -> int:
        """How many facts changed while a cell ran."""
        return sum(any(change.changed for change in changes) for _, changes in self.varied)


def compare_facts(cells: Sequence[tuple[str, Facts, Facts]]) -> tuple[HostFacts, ...]:
    """Each host's facts, from (cell's name, {host: facts} before, {host: facts} after) of every cell.

    A fact that one side does not have is written as absent there, not left out.
    """
    hosts = dict.fromkeys(host for _, before, after in cells for host in (*before, *after))
    return tuple(_host(host, cells) for host in hosts)


def flatten(facts: object) -> dict[str, str]:
    """{dotted path: value as text} of nested facts; a list of plain values is one fact, joined by commas."""
    found: dict[str, str] = {}
    _flatten(facts, "", found)
    return found


def _flatten(facts: object, path: str, found: dict[str, str]) -> None:
    """Puts what is below the path into found. There are ten thousands: none is copied on the way up."""
    if isinstance(facts, Mapping):
        for key, value in facts.items():
            _flatten(value, f"{path}.{key}" if path else str(key), found)
    elif not isinstance(facts, (list, tuple)):
        found[path] = _text(facts)
    elif any(isinstance(item, (Mapping, list, tuple)) for item in facts):
        for number, item in enumerate(facts):
            _flatten(item, f"{path}.{number}", found)
    else:
        found[path] = ", ".join(_text(item) for item in facts) or "none"


def _host(host: str, cells: Sequence[tuple[str, Facts, Facts]]) -> HostFacts:
    seen = [
        (name, flatten(before.get(host, {})), flatten(after.get(host, {})))
        for name, before, after in cells
        if host in before or host in after
    ]
    paths = dict.fromkeys(path for _, before, after in seen for path in (*before, *after))
    same, varied = [], []
    for path in paths:
        told = {facts.get(path, ABSENT) for _, before, after in seen for facts in (before, after)}
        if len(told) == 1:
            same.append((path, told.pop()))
        else:
            changes = (Change(name, old.get(path, ABSENT), new.get(path, ABSENT)) for name, old, new in seen)
            varied.append((path, tuple(changes)))
    return HostFacts(host, tuple(same), tuple(varied))


def _text(value: object) -> str:
    words = {None: "none", True: "yes", False: "no"}
    return words[value] if value is None or isinstance(value, bool) else str(value)
