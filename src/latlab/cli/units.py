"""Values with units, as options have them."""

from __future__ import annotations

from latlab.model.errors import UsageError


def duration_ns(text: str, option: str) -> int:
    """The duration in ns; 0 may be without a unit. UsageError: it is none."""
    from pydantic_core import PydanticCustomError

    from latlab.scenario.units import parse_duration

    try:
        return 0 if text.strip() == "0" else parse_duration(text)
    except PydanticCustomError as error:
        context = error.context or {}
        remedy = f"expected {context.get('expected', 'a duration, such as 1us')}"
        raise UsageError(f"{text!r} is not a duration", where=option, remedy=remedy) from error
