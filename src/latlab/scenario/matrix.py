"""The cells of a scenario: every combination of its matrix's values, each a separate scenario."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import product
from math import prod
from typing import Any

from latlab.model.part import Keys
from latlab.scenario.findings import Mistake, Path, Raw, show_path, shown, unknown
from latlab.scenario.loads import NO_LOADS
from latlab.scenario.models import Scenario
from latlab.scenario.parse import Parsed, parse
from latlab.scenario.parts import Part, UnknownError
from latlab.scenario.probes import NO_PROBES
from latlab.scenario.shape import MACHINES, known_keys, unused_guests
from latlab.scenario.sketch import PTP_ENDS, Sketch
from latlab.scenario.tuning import Tuning

LOADS = "loads"
PROBES = "probes"
CHOSEN = {LOADS: NO_LOADS, PROBES: NO_PROBES}
"""Keys whose values say which of a collection's entries a cell has, and the word for none of them."""
CELLS_MAX = 10_000
_SLUG_MAX = 120
_COLLECTIONS = ("hosts", "links", "guests", "streams", "probes", "loads", "shapers", "tuning")
_NOT_VARIED = (
    *("matrix", "overrides", "exclude", "name", "description", "repeat", "seed", "accept", "trust", "windows"),
    *("headline", "published"),
)
"""What belongs to the whole scenario and cannot differ between its cells."""


def path_of(key: str, shapers: Iterable[str]) -> tuple[str, ...]:
    """What a key of the matrix leads through. Shapers and ports of PTP's are called by their interface, `sensor.eth0`,
    which is one name.

    shapers: the names of those there are, by which an interface with a dot in its name is known.
    """
    parts = key.split(".")
    if parts[:2] == ["clock", "ptp"] and len(parts) > 4 and parts[2] in PTP_ENDS:
        # Nothing is below a port.
        return *parts[:3], ".".join(parts[3:])
    if parts[0] != "shapers" or len(parts) < 3:
        return tuple(parts)
    depths = [name.count(".") + 1 for name in shapers if f"{key}.".startswith(f"shapers.{name}.")]
    end = 1 + max(depths, default=2)
    return parts[0], ".".join(parts[1:end]), *parts[end:]


@dataclass(frozen=True)
class MatrixCell:
    """One combination of values.

    label: matrix key → value chosen; for `loads` and `probes` the list of names, `["none"]` for none; for a mapping, or
    a list of them, its short name: what distinguishes it from the other values of the key. A key that leads into a
    load, a probe or a guest that the cell does not have is not in it.
    slug: the label as a name for files, unique in the scenario.
    scenario: with the values put in; its `loads` and `probes` are the active ones only, and it has neither a matrix nor
    overrides. sources: path of each value put in → where the file has it, below `matrix` or `overrides`.
    published: which rows of `published` name the cell.
    """

    label: Keys
    slug: str
    scenario: Scenario
    sources: Mapping[tuple[str, ...], Path] = field(default_factory=dict)
    published: frozenset[int] = frozenset()


@dataclass(frozen=True)
class _Values(Sequence[Any]):
    """The values of a key of the matrix. names: what each is called. named: the file says so."""

    values: tuple[Any, ...]
    names: tuple[Any, ...]
    named: bool

    @classmethod
    def of(cls, written: dict[str, Any] | list[Any]) -> _Values:
        """Those of a list, each named by its value or by what distinguishes it from the others, or of a mapping of
        names.
        """
        if isinstance(written, dict):
            return cls(tuple(written.values()), tuple(map(str, written)), named=True)
        return cls(tuple(written), tuple(short_names(written)), named=False)

    def at(self, index: int) -> Any:
        """What leads to a value in the file, below its key."""
        return self.names[index] if self.named else index

    def __getitem__(self, index: Any) -> Any:
        return self.values[index]

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class _Setting:
    """One value that is put into the scenario. source: where the file has it, below `matrix` or `overrides`."""

    path: tuple[str, ...]
    value: object
    source: Path


@dataclass(frozen=True)
class _Override:
    """One of `overrides`. when: matrix key → index of the value that cells have in which it applies."""

    when: Mapping[str, int]
    settings: tuple[_Setting, ...]

    def applies(self, picked: Mapping[str, int]) -> bool:
        """Whether it applies where these values are picked."""
        return self.when.items() <= picked.items()

    def meets(self, other: _Override) -> bool:
        """Whether both apply in any cell."""
        return all(other.when.get(key, index) == index for key, index in self.when.items())


@dataclass(frozen=True)
class MatrixRun:
    """A cell and which repetition of it, from 1.

    seed: of what differs between its repetitions in virtual time; None on a clock that differs anyway.
    """

    cell: MatrixCell
    repeat: int
    seed: int | None = None


def runs(cells: Sequence[MatrixCell], repeat: int, seed: int, *, copies: bool = False) -> list[MatrixRun]:
    """Return every repetition of every cell, in the order to run them: shuffled, the same for the same seed.

    Each repetition is shuffled apart, so that what drifts over the whole run meets all cells alike. copies: all
    repetitions in virtual time have the seed of the first, so that they must be equal.
    """
    shuffler = random.Random(seed)
    ordered = []
    for number in range(1, repeat + 1):
        block = list(cells)
        shuffler.shuffle(block)
        ordered += [MatrixRun(cell, number, _seed(cell.scenario, 1 if copies else number)) for cell in block]
    return ordered


def _seed(scenario: Scenario, repeat: int) -> int | None:
    """Return a repetition's seed: the scenario's, or 1, and one more for each repetition after the first."""
    if not scenario.in_virtual_time:
        return None
    return (1 if scenario.seed is None else scenario.seed) + repeat - 1


def expand(raw: Raw, base: Parsed) -> tuple[list[MatrixCell], list[Mistake]]:
    """The cells of a scenario in its matrix's order, and what is wrong with the matrix, its overrides and in any cell.

    raw: the plain data, base: what became of it. What is wrong without the matrix is not reported again. While anything
    is, each value is tried alone; in a right scenario every combination is. A finding's path is that of the value,
    of the matrix or of an override, that brings it about.
    """
    written = raw.get("matrix", {})
    rest = {key: value for key, value in raw.items() if key not in ("matrix", "overrides", "exclude", "published")}
    lists = written.items() if isinstance(written, dict) else ()
    matrix = {key: _Values.of(values) for key, values in lists if isinstance(values, dict | list)}
    shapers = tuple(map(str, base.sketch.names.get("shapers", ())))
    paths = {key: path_of(key, shapers) for key in matrix}
    findings, usable = _judge(base.sketch, matrix, paths)
    conditions, unlike = _conditions(base.sketch, matrix)
    overrides, wrong = _overrides(base.sketch, conditions, paths, shapers)
    findings += [*unlike, *wrong]
    if wrong or any(finding.path[:1] == ("overrides",) for finding in (*unlike, *base.findings)):
        usable = []  # what else is set in the cells of a value is not known
    size = prod(len(values) for values in matrix.values())
    if size > CELLS_MAX:
        return [], [*findings, Mistake(("matrix",), f"{size} cells", f"{CELLS_MAX} or fewer")]
    findings += _twice(rest, matrix, paths, usable)
    told = set(base.findings)
    if base.scenario is not None and not findings:
        return _every_cell(rest, matrix, paths, overrides, conditions)
    for key, index in usable:
        beside = [one for one in overrides if one.when.get(key) == index]
        led = all(_leads_somewhere(base.sketch, setting.path) for one in beside for setting in one.settings)
        if not led or any(len(one.when) > 1 for one in beside):
            continue  # nor is it here
        data, sources = _put_in(rest, {key: index}, matrix, paths, overrides)
        for finding in parse(data).findings:
            if finding not in told:
                told.add(finding)
                findings.append(_retold(finding, _cause(finding, sources, ("matrix", key, matrix[key].at(index))), ""))
    return [], findings


def _every_cell(
    rest: Raw,
    matrix: Mapping[str, _Values],
    paths: Mapping[str, tuple[str, ...]],
    overrides: Sequence[_Override],
    conditions: Mapping[Path, Mapping[str, int]],
) -> tuple[list[MatrixCell], list[Mistake]]:
    cells: list[MatrixCell] = []
    findings: dict[Mistake, Mistake] = {}
    slugs: set[str] = set()
    matched: set[Path] = set()
    seen: set[frozenset[tuple[str, int]]] = set()
    for combination in _combinations(matrix, paths):
        picked, data, sources, absent = _of_combination(rest, combination, matrix, paths, overrides)
        meets = [path for path, when in conditions.items() if when.items() <= picked.items()]
        matched.update(meets)
        if frozenset(picked.items()) in seen or any(path[0] == "exclude" for path in meets):
            continue
        seen.add(frozenset(picked.items()))
        data = _without(data, absent)
        label = {
            key: _names(matrix[key][index]) if key in CHOSEN else matrix[key].names[index]
            for key, index in picked.items()
        }
        slug = _unique(_slug(label), slugs)
        sources = {path: source for path, source in sources.items() if not _is_about(path, absent)}
        varied = [("matrix", key, matrix[key].at(index)) for key, index in picked.items() if key not in CHOSEN]
        parsed = parse(data)
        if parsed.scenario is not None:
            compared = frozenset(int(path[1]) for path in meets if path[0] == "published")
            cells.append(MatrixCell(label, slug, parsed.scenario, sources, compared))
        for finding in parsed.findings:
            path = _cause(finding, sources, varied[0] if len(varied) == 1 else ("matrix",))
            # The same mistake is in other cells too: it is reported for the first one.
            findings.setdefault(_retold(finding, path, ""), _retold(finding, path, f"in cell {slug}"))
    unmatched = [path for path in conditions if path not in matched and path[0] != "published"]
    found = [Mistake(path, "no cell has these values", "values that one cell has together") for path in unmatched]
    if not seen:
        found.append(Mistake(("exclude",), "every cell is excluded", "one cell that is measured"))
    return cells, [*found, *findings.values()]


def _of_combination(
    rest: Raw,
    picked: Mapping[str, int],
    matrix: Mapping[str, _Values],
    paths: Mapping[str, tuple[str, ...]],
    overrides: Sequence[_Override],
) -> tuple[dict[str, int], Raw, dict[tuple[str, ...], Path], Collection[str]]:
    """Of a combination: the values that differ between cells, the data with them, each path → where its value stands,
    and the guests that are in the data and not in the cell.

    A key that leads to such a guest is left out, and no override applies for its value.
    """
    data, sources = _put_in(rest, picked, matrix, paths, overrides)
    absent = unused_guests(data)
    meant = {key: index for key, index in picked.items() if not _is_about(paths[key], absent)}
    if len(meant) < len(picked):
        again = _put_in(rest, meant, matrix, paths, overrides)
        # Else it is an override for its value that takes the guest away: the value makes a cell.
        if unused_guests(again[0]) == absent:
            return meant, *again, absent
    return dict(picked), data, sources, absent


def _put_in(
    raw: Raw,
    picked: Mapping[str, int],
    matrix: Mapping[str, _Values],
    paths: Mapping[str, tuple[str, ...]],
    overrides: Sequence[_Override],
) -> tuple[Raw, dict[tuple[str, ...], Path]]:
    """The data with the picked values, and what overrides set beside them, put in; each path → where the value stands.

    What is set of a load or a probe that is not there is left out.
    """
    sources: dict[tuple[str, ...], Path] = {}
    settings = [
        _Setting(paths[key], matrix[key][index], ("matrix", key, matrix[key].at(index)))
        for key, index in picked.items()
    ]
    settings += [one for override in overrides if override.applies(picked) for one in override.settings]
    for one in settings:
        top, *below = one.path
        if top not in CHOSEN or not below or below[0] in raw.get(top, {}):
            raw = _with(raw, one.path, one.value)
            sources |= {one.path: one.source} if top not in CHOSEN or below else {}
    return raw, sources


def _combinations(matrix: Mapping[str, _Values], paths: Mapping[str, tuple[str, ...]]) -> Iterator[dict[str, int]]:
    """{key: index of its value} of every cell. Where a cell has not the load or the probe that a key leads into, the
    key says nothing: it is left out, and what differs in it alone is one cell.
    """
    seen: set[frozenset[tuple[str, int]]] = set()
    for chosen in product(*(range(len(values)) for values in matrix.values())):
        picked = dict(zip(matrix, chosen, strict=True))
        active = {key: _names(matrix[key][index]) for key, index in picked.items() if key in CHOSEN}
        meant = {
            key: index
            for key, index in picked.items()
            if len(paths[key]) < 2 or paths[key][0] not in active or paths[key][1] in active[paths[key][0]]
        }
        if frozenset(meant.items()) not in seen:
            seen.add(frozenset(meant.items()))
            yield meant


def _twice(
    rest: Raw,
    matrix: Mapping[str, _Values],
    paths: Mapping[str, tuple[str, ...]],
    usable: Sequence[tuple[str, int]],
) -> Iterator[Mistake]:
    """Values of a key that mean the same, as 1ms and 1000us do: they would be measured as different cells."""
    first: dict[tuple[str, str], int] = {}
    for key, index in usable:
        values = matrix[key]
        if key in CHOSEN or len(values) == 1:
            continue
        path = paths[key]
        parsed = parse(_put_in(rest, {key: index}, matrix, paths, ())[0])
        if any(tuple(map(str, finding.path[: len(path)])) == path for finding in parsed.findings):
            continue  # of a wrong value only a part is known
        with suppress(UnknownError, KeyError):
            meant = repr(_led_to(parsed.sketch, path))
            same = first.setdefault((key, meant), index)
            if same != index:
                what = f"{shown(values[index])} is the same as {shown(values[same])}"
                yield Mistake(("matrix", key, values.at(index)), what, "each value once")


def _retold(finding: Mistake, path: Path, where: str) -> Mistake:
    """The finding as one of the matrix; where: which of its cells has it."""
    told = (where, show_path(finding.path), finding.what)
    return Mistake(path, ": ".join(filter(None, told)), finding.expected)


def _judge(
    sketch: Sketch, matrix: Mapping[str, _Values], paths: Mapping[str, tuple[str, ...]]
) -> tuple[list[Mistake], list[tuple[str, int]]]:
    """What is wrong with the matrix's keys and its combinations of loads; which values, by index, can be tried."""
    findings: list[Mistake] = []
    usable: list[tuple[str, int]] = []
    for key, values in matrix.items():
        where = paths[key]
        for other in matrix:
            if other != key and key not in CHOSEN and paths[other][: len(where)] == where:
                what = f"{other} is part of {key}, which the matrix sets, too"
                findings.append(Mistake(("matrix", other), what, "one of them"))
        if key in CHOSEN:
            wrong = list(_chosen_findings(key, values))
            there = {CHOSEN[key], *map(str, sketch.names.get(key, ()))}
            misfits = {finding.path[2:] for finding in wrong}
            indices = {
                index
                for index, value in enumerate(values)
                if there.issuperset(_names(value)) and (values.at(index),) not in misfits
            }
            leads = key in sketch.names
        else:
            wrong = list(_path_findings(sketch, ("matrix", key), where))
            indices = set() if wrong else set(range(len(values)))
            leads = _leads_somewhere(sketch, where)
        findings += wrong
        usable += [(key, index) for index in sorted(indices) if leads]
    return findings, usable


def _conditions(sketch: Sketch, matrix: Mapping[str, _Values]) -> tuple[dict[Path, dict[str, int]], list[Mistake]]:
    """{its path: the values of cells} of each condition that is right, and what is wrong with any.

    A published row may name cells that the matrix does not have: it is shown, and compared with none.
    """
    asked: dict[Path, Mapping[str, Any]] = {}
    for key in ("exclude", "overrides", "published"):
        for number, one in enumerate(getattr(sketch.top, key, ())):
            asked |= {(key, number): one} if isinstance(one, dict) else {(key, number, "when"): one.when}
    found: dict[Path, dict[str, int]] = {}
    findings: list[Mistake] = []
    for path, when in asked.items():
        places = {key: _place(key, value, matrix.get(key)) for key, value in when.items()}
        known = {key: index for key, index in places.items() if index is not None}
        if len(known) == len(places):
            found[path] = known
        wrong = [key for key in places if key not in known and path[0] != "published"]
        findings += [_not_in_matrix((*path, key), key, when[key], matrix) for key in wrong]
    return found, findings


def _overrides(
    sketch: Sketch,
    conditions: Mapping[Path, Mapping[str, int]],
    paths: Mapping[str, tuple[str, ...]],
    shapers: Sequence[str],
) -> tuple[list[_Override], list[Mistake]]:
    """The scenario's overrides whose conditions are right, and what is wrong with paths of any."""
    found: list[_Override] = []
    findings: list[Mistake] = []
    for number, written in enumerate(getattr(sketch.top, "overrides", ())):
        at = ("overrides", number)
        if (when := conditions.get((*at, "when"))) is not None:
            settings = (_Setting(path_of(key, shapers), one, (*at, "set", key)) for key, one in written.set_.items())
            found.append(_Override(when, tuple(settings)))
    # What chooses loads sets nothing in them.
    others = [(path, ("matrix", key)) for key, path in paths.items() if key not in CHOSEN]
    varied = _Override({}, tuple(_Setting(path, None, place) for path, place in others))
    before = [(varied, one) for one in varied.settings]
    for override in found:
        for one in override.settings:
            findings += _set_findings(sketch, one, [other for earlier, other in before if earlier.meets(override)])
            before.append((override, one))
    return found, findings


def _not_in_matrix(where: Path, key: str, value: object, matrix: Mapping[str, _Values]) -> Mistake:
    """What is asked for that the matrix does not have: the key, or this value of it."""
    if key not in matrix:
        return Mistake(where, *unknown("key of the matrix", key, matrix))
    words = map(str, matrix[key].names) if matrix[key].named else (_word(key, one) for one in matrix[key])
    what, expected = unknown("value", _word(key, value), list(words))
    return Mistake(where, f"{what} of matrix.{key}", expected)


def _set_findings(sketch: Sketch, one: _Setting, before: Sequence[_Setting]) -> Iterator[Mistake]:
    """What is wrong with a path that an override sets. before: what the matrix and overrides before it set there."""
    if one.path[0] in CHOSEN and len(one.path) == 1:
        yield Mistake(one.source, f"only the matrix says which {one.path[0]} a cell has", f"a path into {one.path[0]}")
        return
    yield from _path_findings(sketch, one.source, one.path)
    for other in before:
        depth = min(len(one.path), len(other.path))
        if one.path[:depth] == other.path[:depth]:
            yield Mistake(one.source, f"{show_path(other.source)} is set in the same cells", "one of them")


def _place(key: str, value: object, values: _Values | None) -> int | None:
    """Which of the values of a matrix's key it is, or is the name of; None: none of them."""
    if values is None:
        return None
    named = [index for index, name in enumerate(values.names) if _is_name(name, value)] if values.named else []
    if named:
        return named[0]

    def text(one: object) -> str:
        return json.dumps(sorted(_names(one)) if key in CHOSEN else one, sort_keys=True)

    return next((index for index, one in enumerate(values) if text(one) == text(value)), None)


def _is_name(name: str, value: object) -> bool:
    """Whether a value stands for a name: of a number or a word as `true` a file has the text where it is a key."""
    if isinstance(value, str):
        return name == value
    with suppress(ValueError):
        return json.dumps(json.loads(name)) == json.dumps(value)
    return False


def _path_findings(sketch: Sketch, where: Path, parts: tuple[str, ...]) -> Iterator[Mistake]:
    """What is wrong with a path into the scenario. What it leads through, if wrong itself, is not judged.

    where: the path stands in the file.
    """
    if parts[0] in _NOT_VARIED:
        what = f"{parts[0]} is the same in every cell"
        yield Mistake(where, what, "a path such as streams.control.period")
        return
    place: object = sketch
    with suppress(UnknownError):
        for depth, part in enumerate(parts):
            names = _under(place)
            if part not in names:
                above = ".".join(parts[:depth])
                what, expected = unknown("key", part, names)
                yield Mistake(where, f"{what} in {above}" if above else what, expected)
                return
            if depth < len(parts) - 1:
                place = names[part]()


def _leads_somewhere(sketch: Sketch, parts: tuple[str, ...]) -> bool:
    """True if all that a path without findings leads through is known."""
    try:
        _led_to(sketch, parts[:-1])
    except (UnknownError, KeyError):
        return False
    return True


def _led_to(sketch: Sketch, parts: tuple[str, ...]) -> object:
    """What a path leads to. UnknownError: that is not known. KeyError: it is not there."""
    place: object = sketch
    for part in parts:
        place = _under(place)[part]()
    return place


def _under(place: object) -> dict[str, Callable[[], object]]:
    """What can follow in a path: name or index → what is there. UnknownError: that is not known."""
    if isinstance(place, Sketch):
        return {name: partial(_top, place, name) for name in known_keys((), {})}
    if isinstance(place, Part):
        fields = type(place).model_fields.items()
        return {info.alias or name: partial(getattr, place, name) for name, info in fields}
    if isinstance(place, dict):
        return {str(name): partial(_entry, place, name) for name in place}
    return {}


def _top(sketch: Sketch, name: str) -> object:
    """What the scenario has at its top: a collection has every entry that is written, None for the unusable."""
    if name not in _COLLECTIONS:
        return _under(sketch.top)[name]()
    if name not in sketch.names:
        raise UnknownError(name)
    entries = {key: getattr(sketch, name).get(key) for key in sketch.names[name]}
    if name != "tuning":
        return entries
    # Hosts and guests that are not tuned have the defaults: values are put among them.
    untuned = {machine: Tuning() for kind in MACHINES for machine in sketch.names.get(kind, ())}
    return {**untuned, **entries}


def _entry(entries: dict[Any, object], name: Any) -> object:
    if entries[name] is None:
        raise UnknownError(str(name))
    return entries[name]


def _chosen_findings(key: str, values: _Values) -> Iterator[Mistake]:
    """What is wrong with the combinations of loads, or of probes, the names' existence apart."""
    seen: list[frozenset[str]] = []
    one, nothing = key.removesuffix("s"), CHOSEN[key]
    if values.named:
        yield Mistake(("matrix", key), f"a mapping of names to {key}, which have names", f"a list of names of {key}")
        return
    for index, value in enumerate(values):
        where = ("matrix", key, index)
        if not isinstance(value, str) and not (isinstance(value, list) and all(isinstance(n, str) for n in value)):
            yield Mistake(where, f"{shown(value)} names no {one}", f"a {one}, a list of {key}, or {nothing}")
            continue
        names = _names(value)
        if not names or (nothing in names and len(names) > 1):
            yield Mistake(where, f"{shown(value)} is not a combination of {key}", f"{nothing} alone, or names of {key}")
        elif len(set(names)) != len(names) or frozenset(names) in seen:
            yield Mistake(where, f"{shown(value)} appears twice", f"each {one}, and each combination, once")
        seen.append(frozenset(names))


def _names(value: object) -> list[str]:
    return list(map(str, value)) if isinstance(value, list) else [str(value)]


def _with(raw: Raw, path: tuple[str, ...], value: object) -> Raw:
    """The data with the matrix's value in its place."""
    if path[0] not in CHOSEN or len(path) > 1:
        put: Raw = _put(raw, path, value)
        return put
    key, active = path[0], _names(value)
    entries = raw.get(key) or {}
    limits = raw.get("accept")
    if key == PROBES and isinstance(limits, dict):
        # What a cell does not measure, it need not keep below a limit; unknown names are reported without the matrix.
        streams = raw.get("streams")
        measured = {*(streams if isinstance(streams, dict) else ()), *active}
        raw = {**raw, "accept": {path: limit for path, limit in limits.items() if path.partition(".")[0] in measured}}
    return {**raw, key: {name: entry for name, entry in entries.items() if name in active}}


def _is_about(path: tuple[str, ...], guests: Collection[str]) -> bool:
    """Whether a path leads to one of these guests, or to what is said of how it runs."""
    at_guest = path[:1] in (("guests",), ("tuning",)) and len(path) > 1 and path[1] in guests
    at_threads = path[:1] == ("tuning",) and path[2:3] == ("guests",) and len(path) > 3 and path[3] in guests
    return at_guest or at_threads


def _without(raw: Raw, guests: Collection[str]) -> Raw:
    """The data without these guests and what is said of how they run."""
    if not guests:
        return raw

    def rest(entries: Any) -> Any:
        return {name: entry for name, entry in entries.items() if name not in guests}

    tuning = raw.get("tuning")
    tuned = rest(tuning) if isinstance(tuning, dict) else {}
    for host, entry in tuned.items():
        if isinstance(entry, dict) and isinstance(entry.get("guests"), dict):
            tuned[host] = {**entry, "guests": rest(entry["guests"])}
    return {**raw, "guests": rest(raw["guests"]), "tuning": tuned}


def _put(data: Any, path: tuple[str, ...], value: object) -> Any:
    """A copy of the data with the value at the path; the original is left as it is."""
    if not path:
        return value
    if isinstance(data, list):
        at = int(path[0])
        return [*data[:at], _put(data[at], path[1:], value), *data[at + 1 :]]
    # What is not written, or written as `true`, has its defaults: the value is put among them.
    inner = data if isinstance(data, dict) else {}
    return {**inner, path[0]: _put(inner.get(path[0]), path[1:], value)}


def _cause(finding: Mistake, sources: Mapping[tuple[str, ...], Path], otherwise: Path) -> Path:
    """Where the value stands whose path shares most with the finding's; otherwise: where none shares anything."""
    at = [str(part) for part in finding.path]

    def shared(path: tuple[str, ...]) -> int:
        return next((n for n, (a, b) in enumerate(zip(path, at, strict=False)) if a != b), len(path))

    best = max(sources, key=shared, default=None)
    return otherwise if best is None or shared(best) == 0 else sources[best]


def _slug(label: Keys) -> str:
    """`key=value,key=value` with what a file name should not hold replaced by `-`; `all` for no label."""
    text = ",".join(f"{key}={_word(key, value)}" for key, value in label.items()) or "all"
    slug = re.sub(r"[^A-Za-z0-9._,=+-]+", "-", text)
    return slug if len(slug) <= _SLUG_MAX else f"{slug[: _SLUG_MAX - 9]}-{sha256(text.encode()).hexdigest()[:8]}"


def _word(key: str, value: object) -> str:
    if key in CHOSEN:
        return "+".join(_names(value))
    return value.replace(" + ", "+") if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _unique(slug: str, taken: set[str]) -> str:
    """The slug, with a number where it is taken; case makes no difference, as on some file systems."""
    number, result = 1, slug
    while result.lower() in taken:
        number += 1
        result = f"{slug}-{number}"
    taken.add(result.lower())
    return result


# What a value of the matrix that is a mapping is called: by what distinguishes it from the other values of its key.


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
