"""What a value of the matrix that is a mapping is called: by what distinguishes it from the other values of its key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from latlab.scenario.findings import Raw

_Path = tuple[str, ...]
_ABSENT = object()


def short_names(values: Sequence[object]) -> list[object]:
    """The values in their order, every mapping, and every list with one inside, as a text that no other of them has.

    Guests that are all tap in one value and all macvtap in another: `bridge tap`, `bridge macvtap`. That are not all
    alike: `vm1.bridge tap + vm2.bridge xdp`. Of which one value has more: all that each has, `vm1`, `vm1 + vm2`. An
    empty text: `none`.
    """
    names: list[object] = []
    for value in values:
        name = _name(value, [other for other in values if other is not value]) if _is_nested(value) else value
        names.append(_unlike(name or "none", names) if isinstance(name, str) else name)
    return names


def _name(value: object, others: Sequence[object]) -> str:
    found = sorted(_differences(value, others), key=lambda one: one[1] is not None)
    words = _worded(found, value)
    if not words:
        # All that it has, the others have too, and more.
        lacking = [(other, [(path, None) for path, _ in _differences(other, [value])]) for other in others]
        words = [f"without {word}" for other, paths in lacking for word in _worded(paths, other)]
    words = words or _worded(list(_differences(value, [None])), value)
    return " + ".join(dict.fromkeys(words)) or "defaults"


def _differences(value: object, others: Sequence[object], path: _Path = ()) -> Iterator[tuple[_Path, str | None]]:
    """(path, text) of each plain value that not all others have; (path, None) of each entry where not all have it."""
    entries = _entries(value)
    beside = [_entries(other) for other in others]
    uneven = any(other.keys() != entries.keys() for other in beside)
    for key, inner in entries.items():
        there = [other.get(key, _ABSENT) for other in beside]
        if _is_nested(inner):
            if uneven:
                yield (*path, key), None
            yield from _differences(inner, [other for other in there if other is not _ABSENT], (*path, key))
        elif any(other != inner for other in there):
            yield (*path, key), _text(inner)


def _worded(found: Sequence[tuple[_Path, str | None]], whole: object) -> list[str]:
    """Each finding once, by the end of its path where all with that end in the whole are the same, else by its path."""
    ends: dict[str, set[str | None]] = {}
    for path, text in _everything(whole):
        ends.setdefault(path[-1], set()).add(text)
    words = []
    for path, text in found:
        name = path[-1] if len(ends[path[-1]]) == 1 else ".".join(path)
        words.append(name if text is None else f"{name} {text}")
    return list(dict.fromkeys(words))


def _everything(value: object, path: _Path = ()) -> Iterator[tuple[_Path, str | None]]:
    for key, inner in _entries(value).items():
        yield (*path, key), None if _is_nested(inner) else _text(inner)
        yield from _everything(inner, (*path, key))


def _unlike(name: str, taken: Sequence[object]) -> str:
    """The name, with a number where it is taken."""
    number, unlike = 1, name
    while unlike in taken:
        number += 1
        unlike = f"{name} ({number})"
    return unlike


def _is_nested(value: object) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(one, dict | list) for one in value))


def _entries(value: object) -> Raw:
    """What is inside a mapping, or a list by its indices; nothing in what is plain."""
    if not _is_nested(value):
        return {}
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {str(key): inner for key, inner in pairs}


def _text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(_text, value))
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    return str(value)
