"""Whether cell.json has the shape that every reader of it relies on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def misshapen(document: Mapping[str, Any]) -> Iterator[str]:
    """What of cell.json is not what it has to be, a clause each: "streams is null, not a list of objects"."""
    if not isinstance(document.get("cell", {}), dict):
        yield f"cell is {_told(document['cell'])}, not an object"
    for name in ("streams", "agents"):
        found = document.get(name, [])
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            yield f"{name} is {_told(found)}, not a list of objects"
        elif name == "streams":
            yield from _periods(found)


def _periods(streams: list[dict[str, Any]]) -> Iterator[str]:
    for place, stream in enumerate(streams):
        period = stream.get("period_ns")
        if period is not None and (type(period) is not int or period <= 0):
            yield f"streams[{place}].period_ns is {_told(period)}, not null or an integer above 0"


def _told(value: object) -> str:
    """What was found, as short as a message needs it: a list or an object by its kind only."""
    if isinstance(value, list):
        return "a list of other things"
    return "null" if value is None else "an object" if isinstance(value, dict) else repr(value)
