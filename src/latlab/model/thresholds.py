"""Where the lines of a verdict are drawn: each threshold of trust rules once, with its default."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final


def _line(default: Any, said: str) -> Any:
    """A threshold. said: what it is, in the scenario's JSON Schema."""
    return field(default=default, metadata={"said": said})


@dataclass(frozen=True)
class Thresholds:
    """Durations in ns, and shares of one. A scenario has them under `trust`, by their names without `_ns`."""

    clock_step_ns: int = _line(20_000, "if two readings of a pair of clocks differ by more, one of them was stepped")
    clock_bound_share: float = _line(0.10, "the largest bound of the clocks' offset, of the median latency")
    missing_share: float = _line(0.001, "the largest share of packets without an expected timestamp")
    steal_share: float = _line(0.01, "the largest share of the cell's time that may be stolen from a machine's CPUs")
    late_ns: int = _line(
        100_000, "a packet whose latency exceeds its stream's median by more is late, and its causes are searched"
    )
    idle_wakeup_ns: int = _line(20_000, "the longest exit latency of an idle state that CPUs may use")
    sibling_share: float = _line(0.10, "how busy the sibling thread of a measured thread's core may be")
    coalescing_share: float = _line(
        0.20, "how long a card's interrupts may wait for more packets, of the median latency"
    )
    clock_slew_share: float = _line(
        10e-6, "how much a clock's rate may change from one reading to the next, a second later"
    )


SAID: Final = {one.name: one.metadata["said"] for one in fields(Thresholds)}
DEFAULTS: Final = Thresholds()
