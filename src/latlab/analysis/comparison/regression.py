"""Whether a new run is worse than a baseline: a difference that is shown, and larger than what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from latlab.analysis.comparison.compare import Difference
from latlab.analysis.comparison.words import Names, sentence

Outcome = Literal["regression", "no regression", "not judged", "no figure"]
Path = tuple[str, str, str]
"""stream, metric, statistic, as results write them: ("control", "latency", "p99_9")."""


@dataclass(frozen=True)
class Threshold:
    """How much worse a figure may be: ns, or a share of the baseline's figure. Nothing, unless it is said."""

    ns: int = 0
    share: float | None = None

    def of(self, baseline_ns: float) -> float:
        """It in ns."""
        return self.ns if self.share is None else abs(baseline_ns) * self.share

    @property
    def text(self) -> str:
        """As people write it: "5 µs", "10 %"."""
        return f"{self.ns / 1000:g} µs" if self.share is None else f"{100 * self.share:g} %"


@dataclass(frozen=True)
class Judged:
    """One comparison of baseline (a) and new run (b), judged.

    threshold_ns: None where there is no figure of it. coarse: nothing is shown, and what is allowed could be exceeded
    without being: the comparison has no power to see a change of that size.
    """

    outcome: Outcome
    sentence: str
    threshold: Threshold
    threshold_ns: float | None = None
    coarse: bool = False


def judged(one: Difference, thresholds: Mapping[Path, Threshold], names: Names) -> Judged:
    """What becomes of one comparison; of every metric and statistic, less is better.

    A regression is a difference that is shown, that is to the worse, and of which the estimate is above the threshold.
    What could not be judged, although the baseline or the new run has the figure, is reported apart from what is fine.
    """
    threshold = thresholds.get((one.stream, one.metric, one.statistic), Threshold())
    told = sentence(one, names)
    if one.blank:
        return Judged("no figure", told, threshold)
    if one.effect is None or one.smallest_ns is None:
        return Judged("not judged", told, threshold)
    allowed_ns = threshold.of(one.effect.a)
    if one.shown and one.effect.difference > allowed_ns:
        more_than = f", more than the {threshold.text} allowed" if allowed_ns else ""
        return Judged("regression", f"regression: {told}{more_than}", threshold, allowed_ns)
    coarse = not one.shown and 0 < allowed_ns < one.smallest_ns
    too_coarse = f"; too coarse to detect a change of the {threshold.text} allowed" if coarse else ""
    return Judged("no regression", told + too_coarse, threshold, allowed_ns, coarse)
