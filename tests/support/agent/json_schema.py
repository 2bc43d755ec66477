"""What is wrong with a JSON value by a JSON Schema, as far as the agent's schemas go (draft 2020-12)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

SAID_ELSEWHERE = {"$defs", "$schema", "default", "description", "format", "title"}
"""Keywords that hold a value to nothing."""
TYPES: dict[str, tuple[type, ...]] = {
    "array": (list, tuple),
    "boolean": (bool,),
    "integer": (int,),
    "null": (type(None),),
    "number": (int, float),
    "object": (Mapping,),
    "string": (str,),
}


def problems(value: Any, schema: Any, whole: Mapping[str, Any], where: str = "") -> list[str]:
    """What is wrong with the value, each with where that is. whole: the document whose `$defs` the schema means.

    NotImplementedError: the schema has a keyword that is not understood here, so the value may be wrong by it.
    """
    return list(_problems(value, schema, whole, where or "$"))


def resolved(schema: Mapping[str, Any], whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema, with what it refers to in it."""
    while "$ref" in schema:
        named = schema["$ref"].removeprefix("#/$defs/")
        schema = {key: one for key, one in schema.items() if key != "$ref"} | whole["$defs"][named]
    return schema


def _problems(value: Any, schema: Any, whole: Mapping[str, Any], where: str) -> Iterator[str]:
    if schema is False:
        yield f"{where}: nothing may be here"
    if isinstance(schema, bool):
        return
    schema = resolved(schema, whole)
    for keyword, asked in schema.items():
        if keyword not in SAID_ELSEWHERE:
            yield from _by(keyword, asked, value, schema, whole, where)


def _by(keyword: str, asked: Any, value: Any, schema: Any, whole: Mapping[str, Any], where: str) -> Iterator[str]:
    """What is wrong by one keyword."""
    is_object, is_array, is_number = (_is(value, kind) for kind in ("object", "array", "number"))
    match keyword:
        case "type":
            if not any(_is(value, kind) for kind in ([asked] if isinstance(asked, str) else asked)):
                yield f"{where}: {value!r} is no {asked}"
        case "const" | "enum":
            if value not in ([asked] if keyword == "const" else asked):
                yield f"{where}: {value!r} is not {asked}"
        case "minimum" | "maximum":
            if is_number and (value < asked if keyword == "minimum" else value > asked):
                yield f"{where}: {value} is beyond {asked}"
        case "pattern":
            if isinstance(value, str) and not re.search(asked, value):
                yield f"{where}: {value!r} does not match {asked}"
        case "minItems" | "maxItems":
            if is_array and (len(value) < asked if keyword == "minItems" else len(value) > asked):
                yield f"{where}: {len(value)} items are beyond {asked}"
        case "required":
            yield from (f"{where}: {key} is missing" for key in asked if is_object and key not in value)
        case "properties":
            for key in value if is_object else ():
                if key in asked:
                    yield from _problems(value[key], asked[key], whole, f"{where}.{key}")
        case "additionalProperties":
            for key in value if is_object else ():
                if key not in schema.get("properties", {}):
                    yield from _problems(value[key], asked, whole, f"{where}.{key}")
        case "prefixItems":
            for number, (item, one) in enumerate(zip(value, asked, strict=False) if is_array else ()):
                yield from _problems(item, one, whole, f"{where}[{number}]")
        case "items":
            first = len(schema.get("prefixItems", ()))
            for number, item in enumerate(value[first:] if is_array else (), start=first):
                yield from _problems(item, asked, whole, f"{where}[{number}]")
        case "oneOf" | "anyOf":
            tried = [list(_problems(value, one, whole, where)) for one in asked]
            fitting = sum(not wrong for wrong in tried)
            if not fitting:
                # Of several shapes the one that was meant has the fewest differences.
                yield from min(tried, key=len)
            elif keyword == "oneOf" and fitting > 1:
                yield f"{where}: it is {fitting} things at once"
        case "not":
            if not list(_problems(value, asked, whole, where)):
                yield f"{where}: it is what it must not be"
        case _:
            raise NotImplementedError(f"{keyword} of a JSON Schema")


def _is(value: Any, kind: str) -> bool:
    """Whether a value is of one of JSON's types."""
    return isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
