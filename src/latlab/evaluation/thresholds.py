"""Where a scenario draws the lines of a verdict, and which rules it turns off."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from latlab.model.reasons import Reason
from latlab.model.rules import NAMES
from latlab.model.thresholds import Thresholds
from latlab.model.units import WHOLE_PPM
from latlab.result.types import Threshold, TurnedOff
from latlab.scenario import Trust


def thresholds_of(trust: Trust | None) -> Thresholds:
    """The scenario's thresholds as the analysis takes them: ns, and shares of one. None: the defaults."""
    if trust is None:
        return Thresholds()
    values = {name: _value(trust, name) for name in asdict(Thresholds())}
    return Thresholds(**values)


def threshold_values(trust: Trust | None) -> dict[str, Threshold]:
    """The result's `thresholds`. given: the scenario says it, be it the default or not."""
    values, defaults = asdict(thresholds_of(trust)), asdict(Thresholds())
    said = trust.model_fields_set if trust else frozenset()
    return {
        name: Threshold(value=values[name], default=defaults[name], given=scenario_key(name) in said)
        for name in defaults
    }


def turned_off(trust: Trust | None, waived: Iterable[Reason]) -> list[TurnedOff]:
    """The rules that are turned off. found: how many reasons each gave."""
    found = [one.id for one in waived]
    off = trust.off if trust else {}
    return [TurnedOff(id=id_, check=NAMES[id_], why=why, found=found.count(id_)) for id_, why in off.items()]


def scenario_key(name: str) -> str:
    """What the scenario calls a threshold of the result: durations have their unit there."""
    return name.removesuffix("_ns")


def _value(trust: Trust, name: str) -> Any:
    """A threshold in the analysis' unit: durations are ns on both sides, shares in a scenario are millionths."""
    value: int = getattr(trust, scenario_key(name))
    return value if name.endswith("_ns") else value / WHOLE_PPM
