"""Which axis shows a metric's values best: linear, logarithmic, or asinh for both signs and long tails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

_LONG_TAIL = 12.0
_MARGIN = 0.05

Kind = Literal["linear", "log", "asinh"]


@dataclass(frozen=True)
class Axis:
    """A value axis in ns. `linear_ns` is the half-width of asinh's linear part; 0 for the other kinds."""

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


def _padded(kind: Kind, low: float, high: float, linear: float) -> Axis:
    shape = Axis(kind, low, high, linear)
    ends = shape._forward(np.array([low, high]))
    margin = max((ends[1] - ends[0]) * _MARGIN, 0.5 if kind == "linear" else 0.05)
    padded = shape._backward(np.array([ends[0] - margin, ends[1] + margin]))
    return Axis(kind, float(padded[0]), float(padded[1]), linear)
