"""Student's t distribution, for whole degrees of freedom."""

from __future__ import annotations

from functools import cache
from math import atan2, cos, pi, sin


def two_sided(t: float, freedom: int) -> float:
    """P(|T| ≥ |t|) for `freedom` ≥ 1 degrees of freedom, good to an absolute 1e-14; t may be infinite.

    The finite sums of Abramowitz & Stegun, *Handbook of Mathematical Functions*, 26.7.3 (odd) and 26.7.4 (even).
    """
    if freedom < 1:
        raise ValueError(f"{freedom} degrees of freedom")
    angle = atan2(abs(t), freedom**0.5)
    square = cos(angle) ** 2
    odd = freedom % 2
    term = total = cos(angle) if odd else 1.0
    for k in range(2 if odd else 1, freedom - 1, 2):
        term *= square * k / (k + 1)
        total += term
    series = sin(angle) * total
    inside = 2 / pi * (angle + (series if freedom > 1 else 0.0)) if odd else series
    return min(1.0, max(0.0, 1.0 - inside))


@cache
def critical(alpha: float, freedom: int) -> float:
    """The t with P(|T| ≥ t) = alpha, 0 < alpha < 1: 4.303 for 5 % and 2 degrees of freedom."""
    if not 0 < alpha < 1:
        raise ValueError(f"alpha = {alpha}")
    low, high = 0.0, 1.0
    while two_sided(high, freedom) > alpha:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, freedom) > alpha else (low, middle)
    return high
