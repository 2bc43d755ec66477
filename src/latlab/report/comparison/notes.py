"""What has to be known of a comparison before it is believed, a sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt
from typing import Final

from latlab.analysis.comparison.compare import Difference
from latlab.analysis.comparison.effect import ALPHA
from latlab.analysis.comparison.multiple import level_to_show
from latlab.analysis.comparison.student import critical
from latlab.analysis.comparison.words import VIRTUAL
from latlab.report.testbed import FUNCTIONAL

ENOUGH: Final = {True: 6, False: 4}
"""From how many repetitions on a test exists that assumes nothing of how they are spread and can reach 5 %, {paired:
repetitions a side}: 2 / 2⁶ and 2 / C(8, 4) (signs, and Wilcoxon's ranks).

With fewer, n a side, a mode for each side happens by chance in 2 × (1/2)ⁿ × (1/2)ⁿ, if both modes are as likely."""

_MORE: Final = (5, 10)


def notes(found: Sequence[Difference], *, runs: int, family: Sequence[Difference] = ()) -> list[str]:
    """The sentences for these comparisons. runs: how many runs they are of. family: all that were judged with them;
    without it these.
    """
    return [*_of_runs(runs), *_of_labels(found), *_of_repetitions(found, family or found), *_of_clocks(found)]


def _of_runs(runs: int) -> Iterator[str]:
    if runs > 1:
        yield (
            "the runs were measured one after the other: whatever else changed between them is in the difference, and "
            "in no interval"
        )


def _of_labels(found: Sequence[Difference]) -> Iterator[str]:
    labels = {label for one in found for side in (one.a, one.b) for label in side.labels}
    if FUNCTIONAL in labels:
        yield "functional only: a guest or host is emulated in software, and no difference says how fast a machine is"
    if VIRTUAL in labels:
        yield (
            "virtual time: each repetition has phases of stream, load and timer ticks of its own, and the intervals "
            "are over these"
        )


def _of_repetitions(found: Sequence[Difference], family: Sequence[Difference]) -> Iterator[str]:
    judged = [one for one in found if one.p_adjusted is not None]
    if not judged:
        return
    together = [one.p_adjusted for one in family if one.p_adjusted is not None]
    fewest = min(judged, key=lambda one: min(len(one.of_a), len(one.of_b)))
    n = min(len(fewest.of_a), len(fewest.of_b))
    level = level_to_show(together, ALPHA)
    if n < ENOUGH[fewest.paired]:
        yield (
            f"{n} repetitions: the intervals rest on repetitions being spread normally; where they fall into two "
            f"modes, one comparison in {2 ** (2 * n - 1)} shows a difference that is none. What assumes nothing needs "
            f"{ENOUGH[fewest.paired]} repetitions"
        )
    more = [one for one in _MORE if one > n]
    if more and not all(one.shown for one in judged):
        others = ", ".join(f"{reach(one, level)} with repeat: {one}" for one in more)
        many = f"{len(together)} comparisons" if len(together) > 1 else "one comparison"
        yield (
            f"with {n} repetitions and {many} a difference is shown from about {reach(n, level)} "
            f"standard deviations of a repetition on; it would be {others}"
        )


def _of_clocks(found: Sequence[Difference]) -> Iterator[str]:
    if any(one.effect and one.effect.clocks for one in found):
        yield "the intervals are wider by the ± of both sides' clocks, and so is what is needed to show a difference"
    if any(one.effect and one.effect.clocks is None for one in found):
        yield "nothing bounds the clocks of some figures: what they add to a difference is in no interval"


def reach(n: int, level: float) -> str:
    """How many standard deviations of a repetition n of them can show at this level, both sides spread alike."""
    found = critical(level, n - 1) * sqrt(2 / n)
    return f"{found:.2g}" if found < 99.5 else f"{found:.0f}"
