"""What a run says of a published claim: figures of cells over repetitions, effects, and whether they agree.

A repetition is the unit: one figure of each repetition, paired by repetition, Student's t
(docs/explanation/comparing.md). Where a claim looks at several effects, their intervals hold together with 95 %
(Bonferroni).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, inf, log
from statistics import median_low
from typing import Any, Final, Literal, cast

import polars as pl

from latlab.analysis.comparison.effect import ALPHA, Effect, over_repetitions, paired
from latlab.analysis.statistics import statistics
from latlab.model.units import MICROSECOND_NS
from latlab.notebook import Run

US: Final = MICROSECOND_NS
MISSED: Final = "missed_slot"
"""The class of packets that left after their gate window."""
Agrees = Literal["yes", "no", "not shown", "not testable here"]
SENT: Final = "sent_latency"
"""The metric of a packet behind gates that `Figures` adds: its receiver's timestamp − its send call."""


@dataclass(frozen=True)
class Of:
    """A metric of a stream or probe in the cells that `cells` names.

    cells: conditions joined by ", ", each on an axis, by the end of its name: "bridge=tap" is this value,
    "tuning~=isolated" a value with this text in it, "tuning!=isolated" one without.
    in_slot: of packets that left in their own gate window alone.
    """

    cells: str
    metric: str
    stream: str
    in_slot: bool = False


@dataclass(frozen=True)
class Finding:
    """What was measured, in words, and whether it agrees with the author's sentence.

    Why it does not decide the claim: wide: which intervals are too wide. absent: what was not measured, or did not
    occur.
    """

    measured: str
    agrees: Agrees
    wide: str = ""
    absent: str = ""


NOT_MEASURED: Final = Finding("not measured", "not shown", absent="not measured")


@dataclass(frozen=True)
class Claim:
    """What the author says, mostly in the author's words, and how it is tested here.

    why: what differs here from the author's bench, shown where the two contradict each other. testable: whether the
    emulated board has what the claim is about; where it has not, `why` says what, and the figures are shown anyway.
    """

    says: str
    test: str
    check: Check
    why: str
    testable: bool = True

    def found(self, figures: Figures) -> Finding:
        """What was measured, and whether it agrees."""
        one = self.check(figures)
        return one if self.testable else Finding(one.measured, "not testable here")


_COMBINED: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "min": min,
    "max": max,
    "n": sum,
    "p50": median_low,
}


class Figures:
    """The figures of one run. Durations are ns."""

    def __init__(self, run: Run) -> None:
        self.run = run

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """The result document."""
        return self.run.folder.result()

    @cached_property
    def cells(self) -> Sequence[Mapping[str, Any]]:
        """The cells of the result that were measured, in the order of their repetitions; with SENT behind gates."""
        measured = [cell for cell in self.document["cells"] if cell["status"] == "ok"]
        if any(block["gates"] for cell in measured for block in cell["streams"].values()):
            for (slug, repeat, stream), packets in self.packets.group_by("cell", "repeat", "stream_name"):
                cell = next(one for one in measured if (one["slug"], one["repeat"]) == (slug, repeat))
                if cell["streams"][stream]["gates"]:
                    _add_sent(cell["streams"][stream], packets.sort("sequence"))
        return sorted(measured, key=lambda cell: cell["repeat"])

    def blocks(self, cells: str, stream: str) -> list[Mapping[str, Any]]:
        """The result's blocks of this stream, one a repetition."""
        return [one["streams"][stream] for one in self.cells if stream in one["streams"] and is_one(one["cell"], cells)]

    def values(self, of: Of, figure: str = "mean") -> dict[int, float]:
        """{repetition: the figure} of those that have it."""
        found = {}
        for cell in self.cells:
            if of.stream in cell["streams"] and is_one(cell["cell"], of.cells):
                value = _metrics(cell["streams"][of.stream], of).get(of.metric, {}).get(figure)
                if value is not None:
                    found[cell["repeat"]] = value
        return found

    def clocks_ns(self, of: Of) -> int | None:
        """By how much clocks may make the metric wrong, ±; None: nothing bounds it."""
        bounds = [
            one["metrics"][of.metric]["uncertainty_ns"]
            for one in self.blocks(of.cells, of.stream)
            if of.metric in one["metrics"]
        ]
        return None if None in bounds else max(bounds, default=None)

    def effect(self, a: Of, b: Of, figure: str = "mean") -> Effect | None:
        """B − A, paired by repetition, ns. None: no repetition has both, or nothing bounds their clocks."""
        return self._effect(a, b, figure, lambda value: value, lambda bound, _: bound)

    def ratio(self, a: Of, b: Of, figure: str = "mean") -> Effect | None:
        """The logarithm of B / A, as `effect`. None, too, where a figure is not above 0."""
        return self._effect(a, b, figure, log, lambda bound, least: bound / least)

    def _effect(
        self, a: Of, b: Of, figure: str, scale: Callable[[float], float], bounded: Callable[[float, float], float]
    ) -> Effect | None:
        sides = [self.values(of, figure) for of in (a, b)]
        common = [n for n in sides[0] if n in sides[1]]
        least = [min((side[n] for n in common), default=0) for side in sides]
        # An offset of clocks is in every packet alike: it widens no spread, and is the same in a part of the packets.
        alike = figure in ("stddev", "pk_pk") or replace(a, in_slot=b.in_slot) == b
        bounds = [0, 0] if alike else [self.clocks_ns(of) for of in (a, b)]
        known = [bound for bound in bounds if bound is not None]
        if not common or len(known) < len(bounds) or (scale is log and min(least) <= 0):
            return None
        clocks = sum(bounded(bound, low) if bound else 0 for bound, low in zip(known, least, strict=True))
        effect = paired([scale(sides[0][n]) for n in common], [scale(sides[1][n]) for n in common])
        # Of a ratio the clocks' ± is one of logarithms, no whole number.
        return replace(effect, clocks=cast(int, clocks))

    def over_all(self, of: Of, figure: str) -> tuple[float, float | None] | None:
        """The figure of all repetitions and the ± of a mean.

        Extremes of extremes, and so pk_pk that of all repetitions; n the sum; p50 the middle one; others means.
        """
        if figure == "pk_pk":
            least, most = self.over_all(of, "min"), self.over_all(of, "max")
            return None if least is None or most is None else (most[0] - least[0], None)
        values = list(self.values(of, figure).values())
        if not values:
            return None
        if figure in _COMBINED:
            return _COMBINED[figure](values), None
        return over_repetitions(values) if len(values) > 1 else (values[0], None)

    @cached_property
    def packets(self) -> pl.DataFrame:
        """Every packet after warm-up that arrived: cell, repeat, stream_name, sequence, sent_ns (SENT), class (of its
        anomaly).
        """
        tables = []
        measured = {(cell["slug"], cell["repeat"]) for cell in self.document["cells"] if cell["status"] == "ok"}
        for folder in self.run.folder.cells():
            if (folder.slug, folder.repeat) in measured and folder.classes_path.exists():
                table = self.run.packets(folder.slug, folder.repeat)
                sent = pl.coalesce("rx_hard_tai_ns", "rx_soft_tai_ns") - pl.col("submit_tai_ns")
                tables.append(
                    table.filter(~pl.col("warmup"))
                    .join(pl.read_parquet(folder.classes_path), on=["stream", "sequence"], how="left")
                    .select(*_PACKET, sent.alias("sent_ns"), pl.col("class").cast(pl.String).fill_null(""))
                    .filter(pl.col("sent_ns").is_not_null())
                )
        empty = pl.DataFrame(schema=dict.fromkeys((*_PACKET, "sent_ns", "class"), pl.String))
        return pl.concat(tables) if tables else empty


_PACKET: Final = ("cell", "repeat", "stream_name", "sequence")


def _add_sent(block: Mapping[str, Any], packets: pl.DataFrame) -> None:
    """Add the metric SENT to the block of a result, and without the packets that missed their slot."""

    def of(some: pl.DataFrame) -> dict[str, Any]:
        return statistics(some["sent_ns"].to_numpy(), some["sequence"].to_numpy()).model_dump()

    # Both ends' clocks are those of `latency`.
    block["metrics"][SENT] = of(packets) | {"uncertainty_ns": block["metrics"]["latency"]["uncertainty_ns"]}
    if in_slot := block["gates"].get("in_slot"):
        in_slot[SENT] = of(packets.filter(pl.col("class") != MISSED))


def _metrics(block: Mapping[str, Any], of: Of) -> Mapping[str, Any]:
    """The metrics of a result's block; where none missed its slot, those of packets in their slot are those of all."""
    in_slot: Mapping[str, Any] = (block["gates"] or {}).get("in_slot") or {}
    return in_slot if of.in_slot and in_slot else cast(Mapping[str, Any], block["metrics"])


def is_one(axes: Mapping[str, Any], conditions: str) -> bool:
    """Whether a cell with these values of the matrix is one that the conditions name, which are as of `Of`."""
    return all(_holds(axes, one) for one in conditions.split(", ") if one)


def _holds(axes: Mapping[str, Any], condition: str) -> bool:
    left, _, value = condition.partition("=")
    axis = left.rstrip("~!")
    found = next((text for name, text in axes.items() if name == axis or name.endswith(f".{axis}")), None)
    if found is None:
        return False
    text = "+".join(map(str, found)) if isinstance(found, list) else str(found)
    if left.endswith("~"):
        return value in text
    return value not in text if left.endswith("!") else value == text


EFFECTS: Final = "<br>"
"""Between what was measured of several cells, in one cell of a table."""
Check = Callable[[Figures], Finding]
Pair = tuple[str, Of, Of]
"""A label, and what is subtracted from what: B − A, or B / A."""


def differ(
    pairs: Iterable[Pair],
    at_least_us: float = -inf,
    at_most_us: float = inf,
    figure: str = "mean",
    scale: float = 1,
) -> Check:
    """A claim that B − A is in a range, µs, for each pair. scale: 0.5 where half of the figure is meant."""
    listed = tuple(pairs)

    def check(figures: Figures) -> Finding:
        effects = [(label, scaled(figures.effect(a, b, figure), scale)) for label, a, b in listed]
        return judged(effects, at_least_us * US, at_most_us * US, _difference)

    return check


def times(pairs: Iterable[Pair], at_least: float = 0, at_most: float = inf, figure: str = "mean") -> Check:
    """A claim that B / A is in a range, for each pair."""
    listed = tuple(pairs)

    def check(figures: Figures) -> Finding:
        effects = [(label, figures.ratio(a, b, figure)) for label, a, b in listed]
        low, high = (log(at_least) if at_least else -inf), (log(at_most) if at_most < inf else inf)
        return judged(effects, low, high, ratio_text)

    return check


def scaled(one: Effect | None, scale: float) -> Effect | None:
    """The effect in another unit."""
    if one is None or scale == 1:
        return one
    error = None if one.error is None else one.error * scale
    # Half a bound of clocks is no whole number.
    return replace(one, a=one.a * scale, b=one.b * scale, error=error, clocks=cast(int, (one.clocks or 0) * scale))


def judged(
    effects: Sequence[tuple[str, Effect | None]],
    low: float,
    high: float,
    worded: Callable[[Effect, float | None], str],
) -> Finding:
    """Whether every effect is above `low` and below `high`.

    yes: every interval lies within. no: one lies outside. not shown: neither, or an effect or interval is missing.
    Repetitions that are all equal have an interval without a width: where it lies on a bound, nothing is shown.
    """
    known = [(label, one) for label, one in effects if one is not None]
    if not known:
        return NOT_MEASURED
    alpha = ALPHA / len(known)
    words, within, outside, wide = [], len(known) == len(effects), False, []
    for label, one in known:
        half = one.half(alpha)
        words.append(f"{label} {worded(one, half)}")
        if half is None:
            wide.append(f"{label} (one repetition has no interval)")
            continue
        below, above = one.difference - half, one.difference + half
        outside |= above < low or below > high
        if not (below > low and above < high):
            wide.append(f"{label} (clocks: {100 * (one.clocks or 0) / half:.0f} %)" if one.clocks else label)
    missing = [f"{label}: not measured" for label, one in effects if one is None]
    agrees: Agrees = "no" if outside else "yes" if within and not wide else "not shown"
    return Finding(EFFECTS.join(words + missing), agrees, ", ".join(wide), ", ".join(missing))


def _difference(one: Effect, half: float | None) -> str:
    return f"{with_error(one.difference / US, None if half is None else half / US)} µs"


def with_error(difference: float, half: float | None) -> str:
    """A difference with its sign and its ±."""
    error = " (one repetition)" if half is None else f" ± {number(half, 1)}"
    return f"{'+' if difference >= 0 else ''}{number(difference, 1)}{error}"


def number(value: float, decimals: int) -> str:
    """A number as pages write it: 1,234.5 and −0.5."""
    return f"{value:,.{decimals}f}".replace("-", "−")


def ratio_text(one: Effect, half: float | None) -> str:
    """A logarithm of a ratio, as the ratio with its interval."""
    if half is None:
        return f"× {factor(exp(one.difference))} (one repetition)"
    low, high = (factor(exp(one.difference + sign * min(half, 50))) for sign in (-1, 1))
    return f"× {factor(exp(one.difference))} ({low} to {high})"


def factor(value: float) -> str:
    """A factor with three figures."""
    return f"{value:.3g}" if 0.001 <= value < 1_000 else f"{value:,.0f}" if value < 1e9 else f"{value:.0e}"
