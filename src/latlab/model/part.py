"""What all types of documents share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

Document = dict[str, Any]
"""A JSON object, as a file has it or an output prints it."""
Keys = dict[str, Any]
"""A cell by its place in the matrix: key → value."""
Verdict = Literal["trusted", "suspect", "untrusted"]
VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)
"""From the best to the worst."""


def distrusted(strict: bool) -> tuple[Verdict, ...]:
    """The verdicts with which a command ends as with a measurement that is not to be trusted. strict: of the user."""
    return VERDICTS[1:] if strict else VERDICTS[-1:]


Status = Literal["ok", "failed", "interrupted", "not run", "unavailable"]
UNAVAILABLE: Final = "unavailable"
"""The status of a cell that this machine cannot build."""


class DocumentPart(BaseModel):
    """A part of a document. Keys that are not declared are an error: they would be lost."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=lambda name: name.removesuffix("_"),
        validate_by_name=True,
        validate_by_alias=True,
    )

    def without_empty(self, *names: str) -> Self:
        """The part without those of these fields that have nothing in them: then they are not in its document."""
        copy = self.model_copy()
        for name in names:
            if not getattr(copy, name):
                copy.model_fields_set.discard(name)
        return copy

    def document(self) -> Document:
        """It as JSON has it: what was not set is not there."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class Recorded(DocumentPart):
    """A part that was written as the cell ran, by whichever version of latlab: what is not declared is kept, and the
    keys keep their order.
    """

    model_config = ConfigDict(extra="allow")

    _keys: tuple[str, ...] = PrivateAttr(())

    @model_validator(mode="wrap")
    @classmethod
    def _note_order(cls, given: Any, make: ModelWrapValidatorHandler[Self]) -> Self:
        made = make(given)
        if isinstance(given, Mapping):
            made._keys = tuple(key.removesuffix("_") for key in given)
        return made

    @model_serializer(mode="wrap")
    def _in_order(self, write: SerializerFunctionWrapHandler) -> Document:
        written: Document = write(self)
        return {key: written[key] for key in self._keys if key in written} | written


class Told(Protocol):
    """An error that says of itself what, where and what to do next."""

    def as_dict(self) -> Document:
        """It as a document."""


class Failure(DocumentPart):
    """Why a cell failed, was interrupted, never ran or cannot be built here. problems: if it is made of several."""

    what: str
    where: str
    remedy: str
    problems: list[Failure] = []
    errno: int | None = None

    @classmethod
    def of(cls, error: Told) -> Failure:
        """The error as cell.json has it."""
        return cls.model_validate(error.as_dict())
