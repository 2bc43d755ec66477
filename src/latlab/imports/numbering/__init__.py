"""Numbers that senders put into their packets: a file a protocol, all of them, and what gaps in them say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise, zip_longest
from typing import Final

from latlab.imports.numbering.avtp import AVTP
from latlab.imports.numbering.base import Frame, Gaps, Number, Numbering, UtcTime, gaps_of
from latlab.imports.numbering.goose import GOOSE
from latlab.imports.numbering.hsr import HSR
from latlab.imports.numbering.profinet import PROFINET
from latlab.imports.numbering.prp import PRP
from latlab.imports.numbering.r_tag import R_TAG
from latlab.imports.numbering.rtp import RTP
from latlab.imports.numbering.rtps import RTPS
from latlab.imports.numbering.sampled_values import SAMPLED_VALUES
from latlab.imports.numbering.some_ip import SOME_IP, SOME_IP_CLIENT

# Every protocol whose numbers are read, and what they say of a flow.


NUMBERINGS: Final[tuple[Numbering, ...]] = (
    SAMPLED_VALUES,
    GOOSE,
    PROFINET,
    R_TAG,
    HSR,
    PRP,
    AVTP,
    RTPS,
    SOME_IP,
    SOME_IP_CLIENT,
    RTP,
)
"""In the order in which they are tried. Those of one name stand together."""

_LEAST: Final = 3
_NEAR: Final = 16
_REGULAR_SHARE: Final = 0.5
"""Of numbers that are some, more than this follow each other within NEAR steps: other bytes at their place do not."""


@dataclass(frozen=True)
class SenderTime:
    """By how much the sender's own time went on, ns, since the frame at `before`, an earlier one of the same flow."""

    before: int
    ns: int


@dataclass(frozen=True)
class NextFrameDue:
    """Within which time, ns, the source of the frame at `place` was to send again, and the next frame of it; None: none
    came. whole: by their numbers there was none between the two.
    """

    source: bytes
    place: int
    following: int | None
    ns: int
    whole: bool = True


@dataclass(frozen=True)
class Numbered:
    """What a flow's numbers say: of which kind they are, and what is missing. said: what else senders say of their
    packets, and of how many. steps: by how much each source counts on. counted: of each frame, where numbers are the
    sender's time; None: of its source none came before. promises: of the frames that have one. sampled: of each frame
    when its data was sampled, where any says so. rates: how many numbers a second each source counts, where its numbers
    show it.
    """

    numbering: Numbering
    sources: int
    gaps: Gaps
    said: Mapping[str, int] = field(default_factory=dict)
    steps: tuple[int, ...] = ()
    counted: tuple[SenderTime | None, ...] = ()
    promises: tuple[NextFrameDue, ...] = ()
    sampled: tuple[UtcTime | None, ...] = ()
    rates: tuple[int, ...] = ()

    @property
    def periods_ns(self) -> tuple[int, ...]:
        """How often each source sends, by its own time; empty where numbers count packets."""
        unit_ns = self.numbering.unit_ns
        return tuple(step * unit_ns for step in sorted(set(self.steps))) if unit_ns else ()


def numbers_of(frames: Sequence[Frame | None]) -> Numbered | None:
    """What the frames of a flow, in the order in which they were seen, say of those before; None: they say nothing.

    All of them have to have a number of the same kind, or be of a protocol that does not number all, and most of the
    numbers have to follow others.
    """
    if len(frames) < _LEAST or any(frame is None for frame in frames):
        return None
    whole = [frame for frame in frames if frame is not None]
    for _, ones in groupby(NUMBERINGS, key=lambda one: one.name):
        if found := [told for one in ones if (told := _by(one, whole))]:
            return min(found, key=lambda told: told.gaps.lost + told.gaps.duplicated + told.gaps.reordered)
    return None


def _by(numbering: Numbering, frames: Sequence[Frame]) -> Numbered | None:
    """What these numbers say; None: not all frames have them, or they do not count up."""
    by_source: dict[bytes, list[tuple[int, Number]]] = {}
    said = Counter[str]()
    for place, frame in enumerate(frames):
        numbers = numbering.numbers(frame)
        if numbers is None:
            return None
        for number in numbers:
            by_source.setdefault(number.source, []).append((place, number))
            said.update(number.said)
    sources = [[number for _, number in rows] for rows in by_source.values()]
    sources = [_with_step(numbers, numbering.modulus) for numbers in sources]
    if not _count_up(sources, numbering.modulus):
        return None
    found = [gaps_of(numbers, numbering.modulus) for numbers in sources]
    lost, duplicated = sum(gaps.lost for gaps in found), sum(gaps.duplicated for gaps in found)
    gaps = Gaps(lost, duplicated, sum(gaps.reordered for gaps in found))
    steps = tuple(numbers[0].step for numbers in sources)
    return Numbered(
        numbering,
        len(sources),
        gaps,
        said,
        steps,
        _counted(numbering, by_source.values(), len(frames)),
        tuple(_promises(by_source.values())),
        _sampled(by_source.values(), len(frames)),
        tuple(_rates(sources)) if numbering.by_second else (),
    )


def _with_step(numbers: Sequence[Number], modulus: int | None) -> list[Number]:
    """With the step that their sender uses: the one that is most often between two that follow each other."""
    if numbers[0].step:
        return list(numbers)
    ahead = Counter(_ahead(before, after, modulus) for before, after in pairwise(numbers))
    _, step = max(((count, -step) for step, count in ahead.items() if step > 0), default=(0, -1))
    return [replace(one, step=-step) for one in numbers]


def _counted(
    numbering: Numbering, sources: Iterable[Sequence[tuple[int, Number]]], length: int
) -> tuple[SenderTime | None, ...]:
    if numbering.unit_ns is None:
        return ()
    found: list[SenderTime | None] = [None] * length
    for rows in sources:
        for (place, before), (here, after) in pairwise(rows):
            ahead = _ahead(before, after, numbering.modulus)
            if numbering.modulus and 2 * ahead > numbering.modulus:
                ahead -= numbering.modulus  # it came late
            found[here] = SenderTime(place, ahead * numbering.unit_ns)
    return tuple(found)


def _promises(sources: Iterable[Sequence[tuple[int, Number]]]) -> Iterator[NextFrameDue]:
    for rows in sources:
        for (place, number), (following, after) in zip_longest(rows, rows[1:], fillvalue=(None, None)):
            if place is None or number is None or number.valid_ns is None:
                continue
            whole = after is None or _follows(number, after)
            yield NextFrameDue(number.source, place, following, number.valid_ns, whole)


def _follows(before: Number, after: Number) -> bool:
    """Whether no number between the two is missing, as far as they show it."""
    if after.epoch != before.epoch:
        return after.epoch == before.epoch + 1 and after.value == 0
    return after.value <= before.value + before.step


def _sampled(sources: Iterable[Sequence[tuple[int, Number]]], length: int) -> tuple[UtcTime | None, ...]:
    found: list[UtcTime | None] = [None] * length
    for place, number in (row for rows in sources for row in rows):
        found[place] = found[place] or number.sampled
    return tuple(found) if any(found) else ()


def _rates(sources: Iterable[Sequence[Number]]) -> Iterator[int]:
    """Of each source that began again at 0: how far it had come, most often."""
    for numbers in sources:
        ends = Counter(
            before.value + before.step for before, after in pairwise(numbers) if 0 == after.value < before.value
        )
        yield from (rate for rate, _ in ends.most_common(1))


def _ahead(before: Number, after: Number, modulus: int | None) -> int:
    ahead = after.value - before.value
    return ahead if modulus is None else ahead % modulus


def _count_up(sources: Collection[list[Number]], modulus: int | None) -> bool:
    """Whether most of the numbers are a little larger than the one before."""
    pairs = [pair for numbers in sources for pair in pairwise(numbers)]
    follow = sum(after.epoch != before.epoch or _is_near(before, after, modulus) for before, after in pairs)
    return len(pairs) >= _LEAST - 1 and follow > _REGULAR_SHARE * len(pairs)


def _is_near(before: Number, after: Number, modulus: int | None) -> bool:
    ahead = _ahead(before, after, modulus)
    return 0 < ahead <= _NEAR * after.step and ahead % after.step == 0
