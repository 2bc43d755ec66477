"""What happens during a run, as it happens: the console, a log and tests listen to the same events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Cleaned:
    """What an earlier run had left behind was undone, in words."""

    undone: tuple[str, ...]


@dataclass(frozen=True)
class RunStarted:
    """The run's folder is there; `runs` runs of `cells` cells follow."""

    folder: Path
    cells: int
    runs: int
    seed: int


@dataclass(frozen=True)
class CellStarted:
    """The run's `order`-th cell begins: repetition `repeat` of `repeats`."""

    order: int
    slug: str
    repeat: int
    repeats: int
    duration_ns: int


@dataclass(frozen=True)
class Phase:
    """What the cell is doing now: setting up, loading, measuring, tearing down, joining."""

    name: str


@dataclass(frozen=True)
class Packets:
    """How many packets the agents have counted: {stream number: packets}, verb `talk` or `listen`."""

    host: str
    verb: str
    streams: Mapping[int, int]


@dataclass(frozen=True)
class CellEnded:
    """The cell is over; `cell` is its cell.json."""

    order: int
    cell: Mapping[str, Any]


Event = Cleaned | RunStarted | CellStarted | Phase | Packets | CellEnded
Listener = Callable[[Event], None]


def ignore(_event: Event) -> None:
    """Nothing: for those who do not want to listen."""
