"""Which interval made a packet late: what each one added that no later one took back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def lasting_growth(interval_ns: NDArray[np.int64], usual_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """By how many ns each interval made the packet late permanently, int64 [..., m], of int64 [..., m] and [m].

    Along the way a packet is late by L_j = Σ (interval − usual) up to interval j, L_0 = 0. Lateness that is made up
    again is no cause: a thread that wakes late within its lead makes the qdisc wait less, and the packet leaves in
    time. What lasts after j is the least lateness from there on, M_j = max(0, min over i ≥ j of L_i), and what
    interval j added to it is M_j − M_{j−1}. So no figure is below zero or above its interval's growth, and together
    they are the packet's whole lateness L_m, exactly; all are 0 where that is not above zero.
    """
    late_ns = np.cumsum(interval_ns - usual_ns, axis=-1)
    least_ns = np.minimum.accumulate(late_ns[..., ::-1], axis=-1)[..., ::-1]
    lasting_ns = np.maximum(least_ns, 0)
    found: NDArray[np.int64] = np.diff(lasting_ns, axis=-1, prepend=np.int64(0))
    return found
