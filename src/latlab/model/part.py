"""What all types of documents share."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Verdict = Literal["trusted", "suspect", "untrusted"]
Status = Literal["ok", "failed", "interrupted", "not run", "unavailable"]


class Part(BaseModel):
    """A part of a document. Keys that are not declared are an error: they would be lost."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=lambda name: name.removesuffix("_"),
        validate_by_name=True,
        validate_by_alias=True,
    )

    def document(self) -> dict[str, Any]:
        """It as JSON has it: what was not set is not there."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class Recorded(Part):
    """A part that was written as the cell ran, by whichever version of latlab: what is not declared is kept."""

    model_config = ConfigDict(extra="allow")


class Failure(Part):
    """Why a cell failed, was interrupted, never ran or cannot be built here. problems: if it is made of several."""

    what: str
    where: str
    remedy: str
    problems: list[Failure] = []
    errno: int | None = None
