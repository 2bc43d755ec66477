"""What has to be known of a comparison before it is believed, a sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt
from typing import Final

from latlab.analysis.comparison.compare import Difference, level_to_show
from latlab.analysis.comparison.effect import ALPHA, critical
from latlab.analysis.comparison.words import VIRTUAL
from latlab.report.testbed import FUNCTIONAL
from latlab.result.comparison import MainFamily

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
            "the runs were measured one after the other: anything else that changed between them is part of the "
            "difference, and no interval covers it"
        )


def _of_labels(found: Sequence[Difference]) -> Iterator[str]:
    labels = {label for one in found for side in (one.a, one.b) for label in side.labels}
    if FUNCTIONAL in labels:
        yield "functional only: a machine is emulated in software, so differences say nothing about its speed"
    if VIRTUAL in labels:
        yield (
            "virtual time: in each repetition streams, load and timer ticks start at different phases; the intervals "
            "cover these phases"
        )


def _of_repetitions(found: Sequence[Difference], family: Sequence[Difference]) -> Iterator[str]:
    judged = [one for one in found if one.p_adjusted is not None]
    if not judged:
        return
    # What is hardest to show: the others, where there are any beside the main figure's.
    apart = any(not one.main for one in judged)
    together = [one.p_adjusted for one in family if one.p_adjusted is not None and one.main is not apart]
    fewest = min(judged, key=lambda one: min(len(one.of_a), len(one.of_b)))
    n = min(len(fewest.of_a), len(fewest.of_b))
    level = level_to_show(together, ALPHA)
    if n < ENOUGH[fewest.paired]:
        yield (
            f"{n} repetitions: the intervals assume that repetitions are normally distributed. If they have two modes, "
            f"one comparison in {2 ** (2 * n - 1)} shows a difference where there is none. A method without this "
            f"assumption needs {ENOUGH[fewest.paired]} repetitions"
        )
    more = [one for one in _MORE if one > n]
    if more and not all(one.shown for one in judged):
        others = ", ".join(f"{reach(one, level)} with repeat: {one}" for one in more)
        many = f"{len(together)} comparisons" if len(together) > 1 else "one comparison"
        yield (
            f"with {n} repetitions and {many} a difference is shown if it exceeds about {reach(n, level)} standard "
            f"deviations of a repetition ({others})"
        )


def _of_clocks(found: Sequence[Difference]) -> Iterator[str]:
    if any(one.effect and one.effect.clocks for one in found):
        yield "the ± of both sides' clocks widens the intervals, so a difference must be larger to be shown"
    if any(one.effect and one.effect.clocks is None for one in found):
        yield "the clocks of some figures are not bounded: the intervals do not include their error"


def reach(n: int, level: float) -> str:
    """How many standard deviations of a repetition n of them can show at this level, both sides spread alike."""
    found = critical(level, n - 1) * sqrt(2 / n)
    return f"{found:.2g}" if found < 99.5 else f"{found:.0f}"


def main_family(found: Sequence[Difference]) -> MainFamily | None:
    """The main figure's comparisons; None where they are all there are, or where none of it was judged."""
    judged = [one for one in found if one.p_adjusted is not None]
    of_main = [one for one in judged if one.main]
    if not of_main or len(of_main) == len(judged):
        return None
    return MainFamily(metric=of_main[0].metric, statistic=of_main[0].statistic, comparisons=len(of_main))


def family_size(found: Sequence[Difference]) -> int:
    """How many comparisons are judged together, the main figure's apart where there are others."""
    return max((one.family for one in found if not one.main), default=0) or max(
        (one.family for one in found), default=0
    )
