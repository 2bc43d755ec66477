"""What things are drawn at random with: a run without any yet, and where and how large they may be in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from latlab.synthetic.description import Description, Where

MS: Final = 1_000_000
S: Final = 1_000_000_000


@dataclass(frozen=True)
class Draw:
    """What ingredients are drawn with: a description without any yet, and how long it is."""

    rng: np.random.Generator
    base: Description

    @property
    def span_ns(self) -> int:
        """From the first launch to the last."""
        return (self.base.packets - 1) * self.base.period_ns

    def log(self, least: float, most: float) -> int:
        """A whole number between the two, its logarithm evenly."""
        return int(np.exp(self.rng.uniform(np.log(least), np.log(max(most, least * 1.0001)))))

    def within(self, low: float, high: float) -> int:
        """An instant between these shares of the run."""
        return int(self.rng.uniform(low, high) * self.span_ns)

    def sequences(self, count: int, apart: int) -> tuple[int, ...]:
        """So many packets at most, at least so far apart, none at the ends."""
        rng, n = self.rng, self.base.packets
        chosen = np.sort(rng.integers(n // 20, n - n // 20, count))
        kept = [int(chosen[0])]
        for one in chosen[1:].tolist():
            if one - kept[-1] >= apart:
                kept.append(one)
        return tuple(kept)

    def where(self, *, talker: bool = True) -> Where:
        """A place."""
        places: list[Where] = ["qdisc", "path", "kernel", "application"]
        if talker:
            places.append("talker")
        return places[self.rng.integers(len(places))]

    def noise_ns(self) -> float:
        """Roughly how far out the noise goes."""
        noise = self.base.noise
        far = {
            "gaussian": 5.0,
            "lognormal": np.exp(4 * noise.sigma),
            "heavy": 15.0,
            "modes": 5.0,
            "exponential": 9.0,
            "uniform": 1.0,
        }[noise.shape]
        widest = max((offset for _, offset in noise.modes), default=0)
        return float(far * noise.spread_ns + 5 * noise.slow_ns + widest)
