"""Figures that others have published of the same measurement: shown next to it, never mixed with what is measured."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, model_validator

from latlab.scenario.findings import shown, wrong
from latlab.scenario.limits import METRICS, PROBE_METRICS, TIMER_METRICS
from latlab.scenario.parts import Part
from latlab.scenario.units import Duration


def known_metric(name: str) -> str:
    """The name of a metric that scenarios may name. PydanticCustomError: there is none like that."""
    known = tuple(dict.fromkeys((*METRICS, *PROBE_METRICS, *TIMER_METRICS)))
    if name not in known:
        raise wrong(f"there is no metric {shown(name)}", f"one of {', '.join(known)}")
    return name


Figure = Duration | None
_FIGURES: Final = ("min", "mean", "max", "stddev", "pk_pk", "p50", "p99")
_ASCENDING: Final = (("min", "p50", "p99", "max"), ("min", "mean", "max"))
"""A mean is between the extremes, and nothing more is certain of it: one outlier may lift it above the 99 of 100."""


class Published(Part):
    """One row of a published table. Durations are whole nanoseconds."""

    source: Annotated[str, Field(min_length=1)] = Field(description="where it was published, by whom and when")
    row: Annotated[str, Field(min_length=1)] = Field(description="what was measured, in the words of the source")
    metric: Annotated[str, AfterValidator(known_metric)] = Field(description="the metric here that it is compared with")
    n: Annotated[int, Field(ge=1)] | None = Field(default=None, description="how many packets")
    min: Figure = Field(default=None, description="the smallest")
    mean: Figure = Field(default=None, description="the mean")
    max: Figure = Field(default=None, description="the largest")
    stddev: Figure = Field(default=None, description="the standard deviation")
    pk_pk: Figure = Field(default=None, description="largest less smallest")
    p50: Figure = Field(default=None, description="the median")
    p99: Figure = Field(default=None, description="99 of 100 are below it")

    @model_validator(mode="after")
    def _a_figure_at_least(self) -> Self:
        if all(getattr(self, name) is None for name in _FIGURES):
            raise wrong(f"{shown(self.row)} has no figure", f"at least one of {', '.join(_FIGURES)}")
        return self

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        for names in _ASCENDING:
            given = [(name, value) for name in names if (value := getattr(self, name)) is not None]
            for (low, less), (high, more) in pairwise(given):
                if less > more:
                    what = f"{shown(self.row)}: {low}, {less} ns, is above {high}, {more} ns"
                    raise wrong(what, f"{' ≤ '.join(names)}, as they were published")
        return self
