"""The classes of anomalies: what each is called, what it means, whether it is cut, and which one goes first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NONE: Final = 0
"""The code of packets that nothing is the matter with."""


@dataclass(frozen=True)
class AnomalyClass:
    """One class.

    name: in documents. title: for people. meaning: one sentence. cut: whether clean windows leave its episodes out, of
    themselves or (`sometimes`) as an episode's evidence says.
    """

    name: str
    title: str
    meaning: str
    cut: bool = False


CLASSES: Final[tuple[AnomalyClass, ...]] = (
    AnomalyClass("loss_burst", "Loss burst", "packets that followed one another were all lost"),
    AnomalyClass("throttled", "Throttled", "real-time threads were held back for a part of every period", cut=True),
    AnomalyClass("stall", "Stall", "packets were held and came all at once: latency fell as launch times rose"),
    AnomalyClass("missed_slot", "Missed slot", "packets left in a later gate window than their own"),
    AnomalyClass("reorder", "Reordered", "packets were overtaken by later ones"),
    AnomalyClass("warm_up", "Warm-up", "the beginning was slower than the rest", cut=True),
    AnomalyClass("late_sender", "Late sender", "the talker woke, or handed packets over, late"),
    AnomalyClass("periodic", "Periodic spikes", "single packets were late at regular intervals"),
    AnomalyClass("unexplained", "Unexplained", "packets were late, or all latencies moved, and no class says why"),
    AnomalyClass("clock_step", "Clock step", "all latencies jumped at once, and a clock's record shows it", cut=True),
    AnomalyClass("clock_swing", "Clock swing", "all latencies moved together, and a clock's record shows it", cut=True),
    AnomalyClass("path_change", "Path change", "all latencies moved together, and the clocks did not"),
    AnomalyClass("oscillation", "Oscillation", "the usual latency went up and down regularly, all the time"),
    AnomalyClass("drift", "Drift", "the usual latency rose or fell all the time, and no clock's record shows it"),
    AnomalyClass("duplicate", "Duplicates", "further copies of packets came; which ones was not recorded"),
)
"""In the order of precedence: a packet that several classes would have belongs to the first of them.

What happened to single packets goes before what moved all of them, so that a late packet within a clock swing is
not called one. `duplicate` has no packets of its own.
"""

NAMES: Final[tuple[str, ...]] = tuple(one.name for one in CLASSES)
CODE: Final[dict[str, int]] = {name: code for code, name in enumerate(NAMES, start=1)}
"""{name: code}: what stands in the column `class_of`; NONE elsewhere."""
BY_NAME: Final[dict[str, AnomalyClass]] = {one.name: one for one in CLASSES}
