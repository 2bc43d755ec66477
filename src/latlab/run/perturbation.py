"""What differs between the repetitions of a cell in virtual time: drawn from the repetition's seed.

Where a clock counts instructions, a repetition would be a copy of the first, and what it shows one course of phases:
of the stream against the load, and of both against the timer ticks of the VM host and of the guest. Each repetition
takes other phases, and gives the same figures each time it is made with its seed. All of them go on from one test bed.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final, Self

RANGE_NS: Final = 20_000_000
"""Each is drawn evenly from 0 up to here: several timer ticks (4 ms at 250 Hz) and periods of streams and loads."""
STEP_NS: Final = 1000


@dataclass(frozen=True)
class Perturbation:
    """One repetition's. start_ns: how much later the streams start."""

    seed: int
    start_ns: int

    @classmethod
    def of(cls, seed: int) -> Self:
        """Draw that of a seed: the same for every cell, so that a repetition is a block of cells alike."""
        return cls(seed, Random(seed).randrange(0, RANGE_NS, STEP_NS))

    def load_ns(self, load: str, instance: int) -> int:
        """Return how much later an instance of a load starts than the one before it."""
        return Random(f"{self.seed} {load} {instance}").randrange(0, RANGE_NS, STEP_NS)
