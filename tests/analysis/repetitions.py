"""Configurations made of their repetitions' figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from partial import partial

from latlab.analysis.comparison.configuration import Configuration
from latlab.result.types import Cell


def configuration(
    value: str, repetitions: Mapping[int, Mapping[str, Any]], *, run: str = "r", label: str = "measured", **figures: Any
) -> Configuration:
    """A cell with `bridge: value`; {repeat: its latency's statistics, ns}. figures: in all repetitions alike."""
    shared = {"from": "launch", "to": "rx_soft", "uncertainty_ns": 0, **figures}
    cells = {
        repeat: repetition({"control": {"metrics": {"latency": {**shared, **found}}}}, label=label)
        for repeat, found in repetitions.items()
    }
    return Configuration(run, f"bridge={value}", {"bridge": value}, cells, {})


def repetition(streams: Mapping[str, Any], *, label: str = "measured") -> Cell:
    """A repetition of a cell with these streams."""
    return partial(Cell, {"label": label, "verdict": "trusted", "streams": streams})


def medians(value: str, *p50: float, **options: Any) -> Configuration:
    """A configuration of which each repetition has only this median, ns."""
    return configuration(value, {repeat: {"p50": one} for repeat, one in enumerate(p50, start=1)}, **options)
