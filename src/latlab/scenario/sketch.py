"""The parts of a scenario that are right in themselves, for judging how they fit while others are wrong."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from pydantic import ConfigDict, Field

from latlab.scenario.findings import Path
from latlab.scenario.hosts import Host
from latlab.scenario.links import Link
from latlab.scenario.loads import Load
from latlab.scenario.models import Clock
from latlab.scenario.parts import Part
from latlab.scenario.streams import Stream
from latlab.scenario.tuning import Tuning
from latlab.scenario.units import Duration


class Sketch(Part):
    """What of a scenario is usable. Links keep their index; `broken`: fields and entries left out."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    hosts: dict[str, Host] = Field(default_factory=dict)
    links: dict[int, Link] = Field(default_factory=dict)
    streams: dict[str, Stream] = Field(default_factory=dict)
    loads: dict[str, Load] = Field(default_factory=dict)
    tuning: dict[str, Tuning] = Field(default_factory=dict)
    clock: Clock = Field(default=Clock())
    duration: Duration | None = None
    warmup: Duration = 0
    matrix: dict[str, list[Any]] = Field(default_factory=dict)
    accept: dict[str, Any] = Field(default_factory=dict)
    broken: frozenset[Path] = frozenset()

    def misses(self, field: str) -> bool:
        """True if something of the field is left out."""
        return any(path[0] == field for path in self.broken)


_COLLECTIONS = ("hosts", "links", "streams", "loads", "tuning", "matrix", "accept")


def sketch(raw: dict[str, Any], extra: Iterable[Path], broken: Iterable[Path]) -> Sketch:
    """The usable parts of the plain data.

    extra: keys too many, left out alone. broken: paths that are wrong; with each goes the entry (a host, a
    stream, ...) it is in.
    """
    kept = deepcopy(raw)
    for path in extra:
        _remove(kept, path)
    lost = set(broken)
    entries = {path[:2] for path in lost}
    parts: dict[str, Any] = {"broken": frozenset(entries - {()})}
    for name in Sketch.model_fields:
        if name in kept and (name,) not in lost:
            value = kept[name]
            if name in _COLLECTIONS:
                items = value.items() if isinstance(value, dict) else enumerate(value)
                parts[name] = {key: item for key, item in items if (name, key) not in entries}
            elif all(path[0] != name for path in entries if path):
                parts[name] = value
    return Sketch.model_validate(parts)


def _remove(data: Any, path: Path) -> None:
    for part in path[:-1]:
        data = data[part]
    data.pop(path[-1], None)
