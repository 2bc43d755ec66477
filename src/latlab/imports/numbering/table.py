"""Every protocol whose numbers are read, and what they say of a flow."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from latlab.imports.numbering.base import Frame, Gaps, Number, Numbering, gaps_of
from latlab.imports.numbering.goose import GOOSE
from latlab.imports.numbering.prp import PRP
from latlab.imports.numbering.r_tag import R_TAG
from latlab.imports.numbering.rtp import RTP
from latlab.imports.numbering.sampled_values import SAMPLED_VALUES

NUMBERINGS: Final[tuple[Numbering, ...]] = (SAMPLED_VALUES, GOOSE, R_TAG, PRP, RTP)
"""In the order in which they are tried."""

_LEAST: Final = 3
_NEAR: Final = 16
_REGULAR_SHARE: Final = 0.5
"""Of numbers that are some, more than this follow each other within NEAR steps: other bytes at their place do not."""


@dataclass(frozen=True)
class Numbered:
    """What a flow's numbers say: of which kind they are, and what is missing."""

    numbering: Numbering
    sources: int
    gaps: Gaps


def numbers_of(frames: Sequence[Frame | None]) -> Numbered | None:
    """What the frames of a flow, in the order in which they were seen, say of those before; None: they say nothing.

    All of them have to have a number of the same kind, and most of these one that follows another.
    """
    if len(frames) < _LEAST or any(frame is None for frame in frames):
        return None
    for one in NUMBERINGS:
        by_source: dict[bytes, list[Number]] = {}
        for frame in frames:
            number = one.read(frame) if frame else None
            if number is None:
                break
            by_source.setdefault(number.source, []).append(number)
        else:
            if _count_up(by_source.values(), one.modulus):
                found = [gaps_of(numbers, one.modulus) for numbers in by_source.values()]
                lost, duplicated = sum(gaps.lost for gaps in found), sum(gaps.duplicated for gaps in found)
                reordered = sum(gaps.reordered for gaps in found)
                return Numbered(one, len(by_source), Gaps(lost, duplicated, reordered))
    return None


def _count_up(sources: Collection[list[Number]], modulus: int | None) -> bool:
    """Whether most of the numbers are a little larger than the one before."""
    pairs = [pair for numbers in sources for pair in pairwise(numbers)]
    follow = sum(after.epoch != before.epoch or _is_near(before, after, modulus) for before, after in pairs)
    return len(pairs) >= _LEAST - 1 and follow > _REGULAR_SHARE * len(pairs)


def _is_near(before: Number, after: Number, modulus: int | None) -> bool:
    ahead = after.value - before.value
    return 0 < (ahead if modulus is None else ahead % modulus) <= _NEAR * after.step
