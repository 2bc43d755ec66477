"""What pydantic says about a scenario's shape, in our words, and names in it for which there is nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError

from latlab.scenario.findings import WRONG, Mistake, Path, Raw, closest, shown, unknown
from latlab.scenario.guests import IN_WORDS as GUESTS_IN_WORDS
from latlab.scenario.loads import NO_LOADS
from latlab.scenario.models import Scenario
from latlab.scenario.parts import IN_WORDS
from latlab.scenario.probes import NO_PROBES

_FORMS = {**IN_WORDS, **GUESTS_IN_WORDS}

_KIND = "kind"
_FOLLOWS = "default_factory_not_called"
"""Pydantic's note that a default was not made because of another error, which it reports."""
_TOO_SHORT = "too_short"
"""Pydantic says it also of a list that is long enough, but has too few items that are right."""


def findings_of(error: ValidationError, raw: Raw) -> Iterator[Mistake]:
    """Each thing that is wrong."""
    for detail in error.errors(include_url=False):
        follows = detail["type"] == _TOO_SHORT and len(detail["input"]) >= detail["ctx"]["min_length"]
        if detail["type"] != _FOLLOWS and not follows:
            path = _path(detail["loc"], raw)
            yield Mistake(path, *_words(path, dict(detail), raw))


def known_keys(path: Path, raw: Raw) -> dict[str, str]:
    """The keys that the model at the path takes, with their descriptions; empty where there is no model."""
    model = model_at(path, raw)
    if model is None:
        return {}
    return {info.alias or name: info.description or "" for name, info in model.model_fields.items()}


def _path(loc: tuple[int | str, ...], raw: Raw) -> Path:
    """Where it stands: pydantic's path without what it adds, the kind where `kind` decides which model an entry is."""
    loc = loc[:-1] if len(loc) > 1 and loc[-1] == "[key]" else loc
    annotation: Any = Scenario
    value: Any = raw
    path: Path = ()
    rest = list(loc)
    while rest:
        part = rest.pop(0)
        path = (*path, part)
        annotation, value = _inner(annotation, part), _child(value, part)
        if rest and _discriminator(annotation):
            rest.pop(0)
        annotation = _of_kind(annotation, value)
    return path


def _words(path: Path, detail: dict[str, Any], raw: Raw) -> tuple[str, str]:
    context = detail.get("ctx", {})
    described = known_keys(path[:-1], raw).get(str(path[-1]), "") if path else ""
    if detail["type"] == "missing":
        return "missing", described or "a value"
    if detail["type"] == "extra_forbidden":
        return unknown("key", str(path[-1]), known_keys(path[:-1], raw))
    words = _WORDS.get(detail["type"])
    if words is None:
        return detail["msg"], described
    return words(shown(detail["input"]), {"input": detail["input"], **context})


def _unlisted(value: str, context: dict[str, Any]) -> tuple[str, str]:
    """What is said of a value that is none of those listed."""
    meant = closest(str(context["input"]), _quoted(context["expected"]))
    return f"{value} is not supported", meant or context["expected"].replace("'", "")


def _quoted(listed: str) -> list[str]:
    """The words that pydantic lists: "'tap', 'xdp' or 'ovs-afxdp'"."""
    return re.findall(r"'([^']*)'", listed)


_WORDS: dict[str, Callable[[str, dict[str, Any]], tuple[str, str]]] = {
    WRONG: lambda value, ctx: (ctx["what"], ctx["expected"]),
    "string_pattern_mismatch": lambda value, ctx: (
        f"{value} is not a {_FORMS[ctx['pattern']][0]}",
        _FORMS[ctx["pattern"]][1],
    ),
    "string_too_short": lambda value, ctx: ("an empty text", "text"),
    "literal_error": _unlisted,
    "int_type": lambda value, ctx: (f"{value} is not a whole number", "a whole number"),
    "int_from_float": lambda value, ctx: (f"{value} is not a whole number", "a whole number"),
    "string_type": lambda value, ctx: (f"{value} is not text", "text"),
    "bool_type": lambda value, ctx: (f"{value} is neither true nor false", "true or false"),
    "greater_than_equal": lambda value, ctx: (f"{value} is too small", f"{ctx['ge']} or more"),
    "less_than": lambda value, ctx: (f"{value} is too large", f"less than {ctx['lt']}"),
    "less_than_equal": lambda value, ctx: (f"{value} is too large", f"{ctx['le']} or less"),
    _TOO_SHORT: lambda value, ctx: ("too few", f"{ctx['min_length']} or more"),
    "too_long": lambda value, ctx: ("too many", f"{ctx['max_length']} or fewer"),
    "model_type": lambda value, ctx: (f"{value} is not a mapping", "a mapping of keys to values"),
    "model_attributes_type": lambda value, ctx: (f"{value} is not a mapping", "a mapping of keys to values"),
    "dict_type": lambda value, ctx: (f"{value} is not a mapping", "a mapping of names to values"),
    "tuple_type": lambda value, ctx: (f"{value} is not a list", "a list: [a, b]"),
    "union_tag_not_found": lambda value, ctx: (f"{_named(ctx)} is missing", f"{_named(ctx)}: what it is"),
    "union_tag_invalid": lambda value, ctx: unknown(_named(ctx), ctx["tag"], _quoted(ctx["expected_tags"])),
}


def model_at(path: Path, raw: Raw) -> type[BaseModel] | None:
    """The model that describes what stands at the path; raw identifies the kind."""
    annotation: Any = Scenario
    value: Any = raw
    for part in path:
        annotation = _inner(annotation, part)
        value = _child(value, part)
        annotation = _of_kind(annotation, value)
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _inner(annotation: Any, part: str | int) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields.items()
        return next((info.annotation for name, info in fields if (info.alias or name) == part), None)
    if get_origin(annotation) is dict:
        return get_args(annotation)[1]
    if get_origin(annotation) is tuple:
        return get_args(annotation)[0]
    return None


def _child(value: Any, part: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(part)
    if isinstance(value, list) and isinstance(part, int) and part < len(value):
        return value[part]
    return None


def _discriminator(annotation: Any) -> str | None:
    """The key, `kind` or `probe`, by which the value is one of several models; None: it is of one."""
    found = None
    while get_origin(annotation) is Annotated:
        for note in annotation.__metadata__:
            found = found or getattr(note, "discriminator", None)
        annotation = get_args(annotation)[0]
    return found


def _named(context: dict[str, Any]) -> str:
    """The key by which pydantic told models apart, which it quotes."""
    return str(context["discriminator"]).strip("'")


def _of_kind(annotation: Any, value: Any) -> Any:
    """The annotation without Annotated and None, and of several models the one of the value's kind."""
    key = _discriminator(annotation) or _KIND
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    choices = [choice for choice in get_args(annotation) if choice is not NoneType]
    if get_origin(annotation) in (dict, tuple, Literal) or not choices:
        return annotation
    kind = value.get(key) if isinstance(value, dict) else None
    for choice in choices:
        if len(choices) == 1 or kind in _kinds(choice, key):
            return _of_kind(choice, value)
    return None


def _kinds(choice: Any, key: str) -> tuple[Any, ...]:
    fields = getattr(choice, "model_fields", {})
    return get_args(fields[key].annotation) if key in fields else ()


# Names in a scenario that stand for something else in it: each must exist.


ANY = "*"
MACHINES = ("hosts", "guests")
_AT_MACHINES = ("streams", "probes", "loads", "flows")
_MAY_BE_ABSENT = ("streams", "probes", "loads", "guests")


def _whole(text: str) -> str:
    return text


def _first(text: str) -> str | None:
    """None: a text that names nothing by its form is reported as such."""
    return text.split(".", 1)[0] if "." in text else None


REFERENCES: tuple[tuple[Path, tuple[str, ...], Callable[[str], str | None], tuple[str, ...]], ...] = (
    # where the name stands, the collections of which it names an entry of, the name in the text, what else it may be
    (("links", ANY, "ends", ANY), ("hosts",), _first, ()),
    (("guests", ANY, "host"), ("hosts",), _whole, ()),
    (("streams", ANY, "talker"), MACHINES, _whole, ()),
    (("streams", ANY, "listener"), MACHINES, _whole, ()),
    (("streams", ANY, "via"), MACHINES, _first, ()),
    (("streams", ANY, "prp"), ("streams",), _whole, ()),
    (("probes", ANY, "from"), MACHINES, _whole, ()),
    (("probes", ANY, "to"), MACHINES, _whole, ()),
    (("probes", ANY, "via"), MACHINES, _first, ()),
    (("probes", ANY, "on"), MACHINES, _whole, ()),
    (("flows", ANY, "at", ANY), MACHINES, _first, ()),
    (("loads", ANY, "from"), MACHINES, _whole, ()),
    (("loads", ANY, "to"), MACHINES, _whole, ()),
    (("loads", ANY, "via"), MACHINES, _first, ()),
    (("loads", ANY, "on"), MACHINES, _whole, ()),
    (("windows", ANY, "streams", ANY), ("streams",), _whole, ()),
    (("matrix", "loads", ANY), ("loads",), _whole, (NO_LOADS,)),
    (("matrix", "loads", ANY, ANY), ("loads",), _whole, (NO_LOADS,)),
    (("matrix", "probes", ANY), ("probes",), _whole, (NO_PROBES,)),
    (("matrix", "probes", ANY, ANY), ("probes",), _whole, (NO_PROBES,)),
)
KEYS = (
    # whose keys are names, the collections they name entries of, the name in the key
    ("shapers", ("hosts",), _first),
    ("tuning", MACHINES, _whole),
    ("accept", ("streams", "probes"), _first),
)


def unused_guests(raw: Raw) -> set[str]:
    """The guests that are there only where they are used, and at which no stream, probe, flow or load is."""
    ends = (one for one in REFERENCES if one[0][0] in _AT_MACHINES and one[1] == MACHINES)
    used = {name_in(text) for pattern, _, name_in, _ in ends for _, text in _matches(raw, pattern, ())}
    guests = raw.get("guests")
    entries = guests.items() if isinstance(guests, dict) else ()
    return {name for name, guest in entries if isinstance(guest, dict) and guest.get("runs") == "used"} - used


def unknown_references(raw: Raw) -> Iterator[Mistake]:
    """Each name that stands for nothing. A collection that is no mapping is reported elsewhere."""
    for pattern, collections, name_in, others in REFERENCES:
        for path, text in _matches(raw, pattern, ()):
            yield from _check(raw, path, collections, name_in(text), others)
    for field, collections, name_in in KEYS:
        if isinstance(raw.get(field), dict):
            for key in raw[field]:
                yield from _check(raw, (field, key), collections, name_in(key), ())


def _check(
    raw: Raw, path: Path, collections: tuple[str, ...], name: str | None, others: tuple[str, ...]
) -> Iterator[Mistake]:
    found = [raw.get(collection, {} if collection in _MAY_BE_ABSENT else None) for collection in collections]
    if all(isinstance(entries, dict) for entries in found):
        names = dict.fromkeys([*others, *(name for entries in found if entries for name in entries)])
        if name is not None and name not in names:
            yield Mistake(path, *unknown(collections[0].removesuffix("s"), name, names))


def _matches(value: Any, pattern: Path, path: Path) -> Iterator[tuple[Path, str]]:
    """The text values whose paths match the pattern."""
    if not pattern:
        if isinstance(value, str):
            yield path, value
        return
    head, rest = pattern[0], pattern[1:]
    items: Any = ()
    if isinstance(value, dict):
        items = value.items() if head == ANY else [(head, value[head])] if head in value else ()
    elif isinstance(value, list) and head == ANY:
        items = enumerate(value)
    for key, item in items:
        yield from _matches(item, rest, (*path, key))
