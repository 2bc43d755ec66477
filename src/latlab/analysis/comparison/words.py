"""What a comparison shows, in one sentence, and whether a new run is worse than a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final, Literal

from latlab.analysis.comparison.compare import LABELS, SPREADS, TIMESTAMPS, Difference
from latlab.analysis.comparison.effect import ALPHA
from latlab.model.labels import VIRTUAL
from latlab.model.metrics import METRICS_BY_NAME
from latlab.model.units import MICROSECOND_NS, in_us

_AT: Final = {
    "p50": "at the median",
    "p90": "at p90",
    "p99": "at p99",
    "p99_9": "at p99.9",
    "p99_99": "at p99.99",
    "min": "at the minimum",
    "max": "at the maximum",
    "mean": "in the mean",
    "stddev": "in standard deviation",
    "pk_pk": "peak to peak",
}
_SPREAD: Final = ("wider", "narrower")


@dataclass(frozen=True)
class Names:
    """What the two sides are called in a sentence."""

    a: str
    b: str


def at(statistic: str) -> str:
    """Where in a distribution the statistic is: "at the median"."""
    return _AT[statistic]


def sentence(one: Difference, names: Names) -> str:
    """What is shown, with its interval; or that nothing is, and what would have been; or why nothing can be.

    "xdp is 4.1 µs faster than tap at the median [2.9, 5.2]", "no difference shown at the median (−0.4 ± 3.2 µs at
    95 %; 5.6 µs would have been)".
    """
    effect = one.effect
    if effect is None:
        return f"not compared {at(one.statistic)}: {reason(one)}"
    if one.why_not is not None or one.smallest_ns is None:
        return f"nothing shown {at(one.statistic)}: {names.b} has {_mere(one, names)}{_within(one)}; {reason(one)}"
    if effect.exact and effect.difference == 0:
        return f"no difference {at(one.statistic)}: equal to the nanosecond in every repetition"
    if one.shown:
        return f"{names.b} is {_amount(one)} than {names.a} {at(one.statistic)} {_interval(one)}{_clocks(one)}"
    half = effect.half() or 0.0
    among = f", among {one.family} comparisons" if one.family > 1 else ""
    return (
        f"no difference shown {at(one.statistic)} ({signed(effect.difference, half)} ± {at_least(half)} µs at "
        f"{100 * (1 - ALPHA):.0f} %; {at_least(one.smallest_ns)} µs would have been{among}){_clocks(one)}"
    )


def reason(one: Difference) -> str:
    """Why nothing can be shown, with what differs; empty where something can."""
    sides = (one.a, one.b)
    if one.why_not == TIMESTAMPS:
        return f"{TIMESTAMPS}: {' against '.join(map(_timestamps, one.ends))}"
    if one.why_not == LABELS:
        return f"{LABELS}: {' against '.join(', '.join(side.labels) for side in sides)}"
    return one.why_not or ""


def direction(one: Difference) -> str:
    """What b is, if it is not the same as a: "faster", "slower", "narrower"; empty for no difference at all."""
    if one.effect is None or one.effect.difference == 0:
        return ""
    return directions(one.metric, one.statistic)[one.effect.difference < 0]


def directions(metric: str, statistic: str) -> tuple[str, str]:
    """What a figure that is more is, and one that is less: ("slower", "faster")."""
    return _SPREAD if statistic in SPREADS else METRICS_BY_NAME[metric].more_less


def signed(ns: float, half_ns: float) -> str:
    """A difference in µs with its sign, in as many digits as ± half_ns supports."""
    digits = _digits(half_ns)
    rounded = round(ns / MICROSECOND_NS, digits)
    return f"{rounded:+.{digits}f}".replace("-", "−") if rounded else "0"


def unsigned(ns: float, half_ns: float) -> str:
    """A side's figure in µs, in as many digits as the difference has."""
    return _us(ns, _digits(half_ns))


def at_least(ns: float) -> str:
    """The half width of an interval, or what would have been shown, in µs: never rounded down."""
    digits = _digits(ns)
    scale = 10 ** (3 - digits)
    return _us(ceil(round(ns / scale, 6)) * scale, digits)


def _timestamps(ends: Iterable[tuple[str, str]]) -> str:
    return " and ".join(f"{to} − {from_}" for from_, to in ends)


def _amount(one: Difference) -> str:
    assert one.effect is not None
    digits = _digits(one.effect.half() or 0.0)
    return f"{_us(abs(one.effect.difference), digits)} µs {direction(one)}"


def _interval(one: Difference) -> str:
    """The interval of the reported amount: of a negative difference both ends change sign."""
    assert one.effect is not None and one.effect.interval is not None
    low, high = one.effect.interval
    if low == high:
        alike = "every repetition gives the same figure, so the width of the interval is 0"
        return f"({alike}: virtual time repeats)" if VIRTUAL in one.a.labels else f"({alike})"
    return _ends(one.effect.difference, low, high)


def _within(one: Difference) -> str:
    """By how much two deployments differ by their packets, where nothing is known of others."""
    if one.effect is None or one.within_ns is None:
        return ""
    return f" {_ends(one.effect.difference, *one.within_ns)} from the packets of these two deployments alone"


def _ends(difference: float, low: float, high: float) -> str:
    if difference < 0:
        low, high = -high, -low
    digits = _digits((high - low) / 2)
    return f"[{_us(low, digits)}, {_us(high, digits)}]"


def _mere(one: Difference, names: Names) -> str:
    assert one.effect is not None
    if one.effect.difference == 0:
        return f"the figure of {names.a}"
    more = "less" if one.effect.difference < 0 else "more"
    return f"{_us(abs(one.effect.difference), 1)} µs {more} than {names.a}"


def _clocks(one: Difference) -> str:
    return "; the clocks are not bounded" if one.effect and one.effect.clocks is None else ""


def _digits(half_ns: float) -> int:
    """How many decimals of µs ± half supports: 0 to 3."""
    return sum(half_ns < limit for limit in (100_000, 1_000, 100))


def _us(ns: float, digits: int) -> str:
    return f"{ns / MICROSECOND_NS:.{digits}f}".replace("-", "−")


# Whether a new run is worse than a baseline: a difference that is shown, and larger than what is allowed.


Outcome = Literal["regression", "no regression", "not judged", "no figure"]
Path = tuple[str, str, str]
"""stream, metric, statistic, as results write them: ("control", "latency", "p99_9")."""


@dataclass(frozen=True)
class Tolerance:
    """How much worse a figure may be: ns, or a share of the baseline's figure. Nothing, unless it is said."""

    ns: int = 0
    share: float | None = None

    def of(self, baseline_ns: float) -> float:
        """It in ns."""
        return self.ns if self.share is None else abs(baseline_ns) * self.share

    @property
    def text(self) -> str:
        """As people write it: "5 µs", "10 %"."""
        return in_us(self.ns) if self.share is None else f"{100 * self.share:g} %"


@dataclass(frozen=True)
class JudgedComparison:
    """One comparison of baseline (a) and new run (b), judged.

    threshold_ns: None where there is no figure of it. coarse: nothing is shown, and what is allowed could be exceeded
    without being: the comparison has no power to see a change of that size.
    """

    outcome: Outcome
    sentence: str
    threshold: Tolerance
    threshold_ns: float | None = None
    coarse: bool = False


def judged(one: Difference, thresholds: Mapping[Path, Tolerance], names: Names) -> JudgedComparison:
    """What becomes of one comparison; of every metric and statistic, less is better.

    A regression is a difference that is shown, that is to the worse, and of which the estimate is above the threshold.
    What could not be judged, although the baseline or the new run has the figure, is reported apart from what is fine.
    """
    threshold = thresholds.get((one.stream, one.metric, one.statistic), Tolerance())
    told = sentence(one, names)
    if one.blank:
        return JudgedComparison("no figure", told, threshold)
    if one.effect is None or one.smallest_ns is None:
        return JudgedComparison("not judged", told, threshold)
    allowed_ns = threshold.of(one.effect.a)
    if one.shown and one.effect.difference > allowed_ns:
        more_than = f", more than the {threshold.text} allowed" if allowed_ns else ""
        return JudgedComparison("regression", f"regression: {told}{more_than}", threshold, allowed_ns)
    coarse = not one.shown and 0 < allowed_ns < one.smallest_ns
    too_coarse = f"; too coarse to detect a change of the {threshold.text} allowed" if coarse else ""
    return JudgedComparison("no regression", told + too_coarse, threshold, allowed_ns, coarse)
