"""Scenarios from text, and what is said about wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from latlab.scenario import Loaded, Problem, ScenarioErrors, load_scenario

BASE = """\
name: base
hosts:
  sensor: {kind: netns}
  ecu: {kind: netns}
links:
  - {ends: [sensor.eth0, ecu.eth0]}
streams:
  control: {talker: sensor, listener: ecu, period: 1ms, size: 64B}
loads:
  same: {kind: flood, from: sensor, to: ecu}
  back: {kind: iperf3, from: ecu, to: sensor}
duration: 10s
"""


@pytest.fixture
def base() -> str:
    """The text of a right scenario."""
    return BASE


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str], Loaded]:
    """Loads a scenario from text."""

    def from_text(text: str) -> Loaded:
        path = tmp_path / "s.yaml"
        path.write_text(text, encoding="utf-8")
        return load_scenario(path)

    return from_text


@pytest.fixture
def with_(load: Callable[[str], Loaded]) -> Callable[..., Loaded]:
    """Loads the base scenario with values put at dotted paths; None takes a key away."""

    def changed(values: dict[str, Any] | None = None) -> Loaded:
        return load(yaml.safe_dump(change(values or {}), sort_keys=False))

    return changed


@pytest.fixture
def problems(load: Callable[[str], Loaded]) -> Callable[[str], list[Problem]]:
    """What is wrong with a scenario's text; nothing for a right one."""

    def of(text: str) -> list[Problem]:
        try:
            load(text)
        except ScenarioErrors as errors:
            return errors.problems
        return []

    return of


@pytest.fixture
def said(problems: Callable[[str], list[Problem]]) -> Callable[[dict[str, Any]], list[str]]:
    """What is said, `path: what; expected ...`, about the base scenario with values put at dotted paths."""

    def about(values: dict[str, Any]) -> list[str]:
        found = problems(yaml.safe_dump(change(values), sort_keys=False, allow_unicode=True))
        return [f"{problem.path}: {problem.what}; expected {problem.expected}" for problem in found]

    return about


def change(values: dict[str, Any]) -> dict[str, Any]:
    """The base scenario's data with the values at dotted paths (`links/0/mtu` where a key holds dots)."""
    data: dict[str, Any] = yaml.safe_load(BASE)
    for path, value in deepcopy(values).items():
        *above, last = path.split("/") if "/" in path else path.split(".")
        place: Any = data
        for part in above:
            place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
        if value is None:
            del place[last]
        elif isinstance(place, list):
            place[int(last) : int(last) + 1] = [value]
        else:
            place[last] = value
    return data
