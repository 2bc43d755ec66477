"""Names in a scenario that stand for something else in it: each must exist."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from latlab.scenario.findings import Finding, Path, unknown
from latlab.scenario.loads import NO_LOADS

ANY = "*"


def _whole(text: str) -> str:
    return text


def _first(text: str) -> str:
    return text.split(".", 1)[0]


REFERENCES: tuple[tuple[Path, str, Callable[[str], str], tuple[str, ...]], ...] = (
    # where the name stands, the collection it names an entry of, the name in the text, what else it may be
    (("links", ANY, "ends", ANY), "hosts", _first, ()),
    (("streams", ANY, "talker"), "hosts", _whole, ()),
    (("streams", ANY, "listener"), "hosts", _whole, ()),
    (("streams", ANY, "via"), "hosts", _first, ()),
    (("loads", ANY, "from"), "hosts", _whole, ()),
    (("loads", ANY, "to"), "hosts", _whole, ()),
    (("loads", ANY, "via"), "hosts", _first, ()),
    (("matrix", "loads", ANY), "loads", _whole, (NO_LOADS,)),
    (("matrix", "loads", ANY, ANY), "loads", _whole, (NO_LOADS,)),
)
KEYS = (
    # whose keys are names, the collection they name entries of, the name in the key
    ("tuning", "hosts", _whole),
    ("accept", "streams", _first),
)


def unknown_references(raw: dict[str, Any]) -> Iterator[Finding]:
    """Each name that stands for nothing. A collection that is no mapping is reported elsewhere."""
    for pattern, collection, name_in, others in REFERENCES:
        for path, text in _matches(raw, pattern, ()):
            yield from _check(raw, path, collection, name_in(text), others)
    for field, collection, name_in in KEYS:
        if isinstance(raw.get(field), dict):
            for key in raw[field]:
                yield from _check(raw, (field, key), collection, name_in(key), ())


def _check(raw: dict[str, Any], path: Path, collection: str, name: str, others: tuple[str, ...]) -> Iterator[Finding]:
    entries = raw.get(collection, {} if collection == "loads" else None)
    if isinstance(entries, dict) and name not in entries and name not in others:
        yield Finding(path, *unknown(collection.removesuffix("s"), name, dict.fromkeys([*others, *entries])))


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
