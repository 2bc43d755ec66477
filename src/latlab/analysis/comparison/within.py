"""What one deployment of each side can say: by how much these two differ, beyond what chance does to their packets."""

from __future__ import annotations

from math import hypot

Interval = tuple[float, float]


def within(a: float, of_a: Interval, b: float, of_b: Interval) -> Interval:
    """The 95 % interval of b − a, in the figures' unit, from each one's own 95 % interval.

    of_a, of_b: by the packets of one deployment each. It says how far these two deployments were apart while they
    ran, and nothing of how far the next two will be. Source: Zou & Donner, *Statistics in Medicine* 27, 2008,
    1693-1702 (MOVER): each end takes its variance from the ends that lie towards it.
    """
    (low_a, high_a), (low_b, high_b) = of_a, of_b
    difference = b - a
    return difference - hypot(b - low_b, high_a - a), difference + hypot(high_b - b, a - low_a)
