"""Figures that somebody else has published of the same measurement: shown beside, never mixed with what is measured."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from latlab.scenario.findings import shown, wrong
from latlab.scenario.limits import METRICS
from latlab.scenario.parts import Part
from latlab.scenario.units import Duration


def _metric(name: str) -> str:
    if name not in METRICS:
        raise wrong(f"there is no metric {shown(name)}", f"one of {', '.join(METRICS)}")
    return name


Figure = Duration | None


class Published(Part):
    """One row of a published table. Durations are whole nanoseconds."""

    source: Annotated[str, Field(min_length=1)] = Field(description="where it was published, by whom and when")
    row: Annotated[str, Field(min_length=1)] = Field(description="what was measured, as it is called there")
    metric: Annotated[str, AfterValidator(_metric)] = Field(description="the metric here that it is beside")
    n: Annotated[int, Field(ge=1)] | None = Field(default=None, description="how many packets")
    min: Figure = Field(default=None, description="the smallest")
    mean: Figure = Field(default=None, description="the mean")
    max: Figure = Field(default=None, description="the largest")
    stddev: Figure = Field(default=None, description="the standard deviation")
    pk_pk: Figure = Field(default=None, description="largest less smallest")
    p50: Figure = Field(default=None, description="the median")
    p99: Figure = Field(default=None, description="99 of 100 are below it")
