"""What all types of results share."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Verdict = Literal["trusted", "suspect", "untrusted"]
Status = Literal["ok", "failed", "interrupted", "not run", "unavailable"]


class Part(BaseModel):
    """A part of a result. Keys that are not declared are an error: they would be lost."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=lambda name: name.removesuffix("_"),
        validate_by_name=True,
        validate_by_alias=True,
    )


class Recorded(Part):
    """A part that was written as the cell ran, by whichever version of latlab: what is not declared is kept."""

    model_config = ConfigDict(extra="allow")
