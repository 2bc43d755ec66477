"""Many comparisons in one answer: p values adjusted so that all of it is wrong as seldom as one of them."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p: Sequence[float]) -> list[float]:
    """Each p value adjusted for the whole family, in the same order.

    Calling different what has an adjusted p ≤ α calls anything different that is not with probability α at most,
    however the comparisons hang together (Holm, Scandinavian Journal of Statistics 6, 1979, pp. 65-70).
    """
    adjusted = [0.0] * len(p)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        largest = max(largest, min(1.0, (len(p) - rank) * p[place]))
        adjusted[place] = largest
    return adjusted


def level_to_show(adjusted: Sequence[float], alpha: float) -> float:
    """The largest p with which one more of the comparisons would have been shown, the others as they are.

    adjusted: Holm's, of the family. Of m comparisons with r shown it is α / (m − r), the step at which Holm's
    procedure stopped; α where all are shown.
    """
    shown = sum(one <= alpha for one in adjusted)
    return alpha / max(1, len(adjusted) - shown)
