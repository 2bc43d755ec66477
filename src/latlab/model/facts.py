"""What the agent's `facts` said of parts of a machine: JSON, whose keys docs/reference/facts.md describes.

An older agent or another kernel leaves keys out, or says null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

Facts = Mapping[str, Any]
"""Of one machine, or by the names of hosts."""


class ThreadFacts(TypedDict, total=False):
    """A thread. process: its process's number. cpus: that it may run on. priority: SCHED_FIFO's."""

    id: int
    process: int
    cpus: list[int] | None
    last_cpu: int
    priority: int | None


class IdleState(TypedDict, total=False):
    """An idle state of a CPU. latency_us: to wake from it. time_us: for how long the CPU was in it since boot."""

    name: str
    latency_us: int | None
    time_us: int | None


class CpuFacts(TypedDict, total=False):
    """A CPU. capacity: of its core, of 1024. siblings: the other threads of its core."""

    governor: str | None
    minimum_khz: int | None
    maximum_khz: int | None
    core_type: str | None
    capacity: int | None
    siblings: list[int]
    idle_states: dict[str, IdleState] | None


class QdiscFacts(TypedDict, total=False):
    """A qdisc, as tc prints it in JSON."""

    kind: str
    drops: int
    horizon_drops: int


class InterfaceFacts(TypedDict, total=False):
    """A network interface. irqs: the numbers of its interrupts. coalescing, energy_efficient_ethernet: of ethtool."""

    irqs: list[int] | None
    carrier_changes: int | None
    statistics: dict[str, int] | None
    driver_statistics: dict[str, int] | None
    coalescing: dict[str, int | None] | None
    energy_efficient_ethernet: dict[str, bool] | None
    qdiscs: list[QdiscFacts] | None


def fact(facts: Any, *path: str) -> Any:
    """The fact at a path of keys; None where it is not there."""
    for key in path:
        facts = facts.get(key) if isinstance(facts, Mapping) else None
    return facts


def cpus_in(facts: Facts | None) -> dict[str, CpuFacts]:
    """A machine's CPUs by their numbers."""
    return fact(facts, "cpu", "cpus") or {}


def cpu_in(facts: Facts | None, number: int) -> CpuFacts:
    """One of them, empty where it is not known."""
    return cpus_in(facts).get(str(number)) or {}


def interfaces_in(facts: Facts | None) -> dict[str, InterfaceFacts]:
    """A machine's network interfaces by name."""
    return fact(facts, "interfaces") or {}


def threads_in(facts: Facts | None) -> dict[str, ThreadFacts]:
    """Threads of a machine's programs that matter to packets, by name and number."""
    return fact(facts, "processes", "threads") or {}


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


def _text(value: object) -> str:
    words = {None: "none", True: "yes", False: "no"}
    return words[value] if value is None or isinstance(value, bool) else str(value)
