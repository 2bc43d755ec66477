"""Which axis shows a metric's values best: linear, logarithmic, or asinh for both signs and long tails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from latlab.model.units import MICROSECOND_NS

_LONG_TAIL = 12.0
_MARGIN = 0.05

Kind = Literal["linear", "log", "asinh"]

_TICKS = 9
"""No more ticks than that, about, where both signs are shown."""


@dataclass(frozen=True)
class Axis:
    """A value axis in ns; one of sizes has bytes in their place.

    `linear_ns` is the half-width of asinh's linear part; 0 for the other kinds.
    """

    kind: Kind
    low_ns: float
    high_ns: float
    linear_ns: float = 0.0

    def edges(self, bins: int) -> NDArray[np.int64]:
        """At most bins + 1 ascending integer histogram edges, ns, evenly spaced as seen on this axis."""
        ends = self._forward(np.array([self.low_ns, self.high_ns]))
        inner = np.rint(self._backward(np.linspace(ends[0], ends[1], bins + 1)[1:-1]))
        outer = (np.floor(self.low_ns), np.ceil(self.high_ns))
        return np.unique(np.concatenate((outer[:1], inner, outer[1:])).astype(np.int64))

    def places(self, values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
        """Where on the axis, 0 at its low end and 1 at its high one; what is beyond is outside of 0 to 1.

        A logarithmic axis has no place for 0 and less: −∞.
        """
        ns = np.asarray(values, np.float64)
        low, high = self._forward(np.array([self.low_ns, self.high_ns]))
        places = np.full(np.shape(ns), -np.inf)
        known = ns > 0 if self.kind == "log" else np.full(np.shape(ns), True)
        places[known] = (self._forward(ns[known]) - low) / (high - low)
        return places

    def told(self) -> str:
        """What its ticks alone do not say: from where on an asinh axis is logarithmic; else empty."""
        return f"log beyond ± {round(self.linear_ns / MICROSECOND_NS, 1):g} µs" if self.kind == "asinh" else ""

    def round_values_ns(self) -> list[float]:
        """Round values for the ticks of an asinh axis: 0, and 1, 2 and 5 times powers of ten, as there is room."""
        low, high = self._forward(np.array([self.low_ns, self.high_ns]))
        powers = 10.0 ** np.arange(
            np.ceil(np.log10(max(-self.low_ns, self.high_ns))), np.floor(np.log10(self.linear_ns)) - 1, -1
        )
        kept = [0.0]
        for factor in (1, 5, 2):
            for value in (sign * factor * power for power in powers for sign in (1, -1)):
                place, *others = self._forward(np.array([value, *kept]))
                if low <= place <= high and min(abs(place - other) for other in others) >= (high - low) / _TICKS:
                    kept.append(value)
        return sorted(kept)

    def _forward(self, ns: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.kind == "log":
            return np.log(ns)
        return np.arcsinh(ns / self.linear_ns) if self.kind == "asinh" else ns

    def _backward(self, shown: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.kind == "log":
            return np.exp(shown)
        return np.sinh(shown) * self.linear_ns if self.kind == "asinh" else shown


def common_axis(cells: list[NDArray[np.int64]]) -> Axis:
    """One axis in ns on which every cell's values fit and both body and tail can be read.

    Logarithmic when all values are positive and the largest is many times the median; asinh (linear
    around zero, logarithmic outside) when values of both signs reach far beyond the middle 90 %.
    """
    filled = [values for values in cells if len(values)]
    if not filled:
        return Axis("linear", 0.0, 1.0)
    low = float(min(values.min() for values in filled))
    high = float(max(values.max() for values in filled))
    quantiles = [np.quantile(values, [0.05, 0.5, 0.95]) for values in filled]
    median = float(min(middle for _, middle, _ in quantiles))
    # The usual cell's: one cell that is far wider must not flatten the others.
    spread = max(float(np.median([upper - lower for lower, _, upper in quantiles])), 1.0)
    if low > 0 and high / median > _LONG_TAIL:
        margin = (high / low) ** _MARGIN
        return Axis("log", low / margin, high * margin)
    if low <= 0 and high - low > _LONG_TAIL * spread:
        return _padded("asinh", low, high, spread)
    return _padded("linear", low, high, 0.0)


def log_axis(values: Sequence[float]) -> Axis:
    """One axis in ns on which these fit: logarithmic where all are positive, else asinh; ValueError without any."""
    low, high = float(min(values)), float(max(values))
    if low > 0:
        return _padded("log", low, high, 0.0)
    return _padded("asinh", low, high, max(float(np.median(np.abs(values))), 1.0))


def _padded(kind: Kind, low: float, high: float, linear: float) -> Axis:
    shape = Axis(kind, low, high, linear)
    ends = shape._forward(np.array([low, high]))
    margin = max((ends[1] - ends[0]) * _MARGIN, 0.5 if kind == "linear" else 0.05)
    padded = shape._backward(np.array([ends[0] - margin, ends[1] + margin]))
    return Axis(kind, float(padded[0]), float(padded[1]), linear)
