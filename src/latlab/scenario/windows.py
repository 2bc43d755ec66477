"""Windows chosen before the run: intervals of each cell whose figures are shown next to the whole run's."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from latlab.scenario.findings import shown, wrong
from latlab.scenario.parts import Listed, Part, Reference
from latlab.scenario.units import Duration

WINDOWS_MAX = 64
WHY_MAX = 200


def _why(text: object) -> object:
    if not isinstance(text, str) or not text.strip() or not text.isprintable():
        raise wrong(f"{shown(text)} is not a reason", "why this interval, in a sentence: the report shows it")
    if len(text) > WHY_MAX:
        raise wrong(f"a reason of {len(text)} characters", f"{WHY_MAX} or fewer")
    return text


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise wrong("an empty list", "streams, or leave the key out: then it is for all of them")
    again = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if again is not None:
        raise wrong(f"{shown(again)} appears twice", "each stream once")
    return names


Why = Annotated[str, BeforeValidator(_why), WithJsonSchema({"type": "string", "minLength": 1, "maxLength": WHY_MAX})]


class Window(Part):
    """The packets launched from `from` on and before `to`. The same in every cell."""

    from_: Duration = Field(alias="from", description="when it begins, after the start of the streams")
    to: Duration = Field(description="when it ends, after the start of the streams; at most the duration")
    why: Why = Field(description="why this interval, in a sentence")
    streams: Annotated[Listed[Reference], AfterValidator(_each_once)] = Field(
        default=(), description="its streams; all if not given"
    )

    def is_of(self, stream: str) -> bool:
        """Whether it is one of the stream's."""
        return not self.streams or stream in self.streams
