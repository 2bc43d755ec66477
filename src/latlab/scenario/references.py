"""Names in a scenario that stand for something else in it: each must exist."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from latlab.scenario.findings import Finding, Path, Raw, unknown
from latlab.scenario.loads import NO_LOADS
from latlab.scenario.probes import NO_PROBES

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


def unknown_references(raw: Raw) -> Iterator[Finding]:
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
) -> Iterator[Finding]:
    found = [raw.get(collection, {} if collection in _MAY_BE_ABSENT else None) for collection in collections]
    if all(isinstance(entries, dict) for entries in found):
        names = dict.fromkeys([*others, *(name for entries in found if entries for name in entries)])
        if name is not None and name not in names:
            yield Finding(path, *unknown(collections[0].removesuffix("s"), name, names))


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
