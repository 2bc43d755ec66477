"""What of a scenario is right in itself, down to the single value, for judging how it fits while the rest is wrong."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from latlab.scenario.findings import Path, Raw
from latlab.scenario.guests import Guest
from latlab.scenario.hosts import Host, has_interface, machine_of, machines_of, switches_of, whereabouts
from latlab.scenario.links import Link
from latlab.scenario.loads import Load
from latlab.scenario.models import Scenario, Window
from latlab.scenario.network import Segment, segments, vlan_parents
from latlab.scenario.parts import End, Part, UnknownError, parse_end
from latlab.scenario.probes import Between, ProbeBase
from latlab.scenario.shape import model_at
from latlab.scenario.shapers import Shaper
from latlab.scenario.streams import Stream
from latlab.scenario.tuning import Tuning

Key = TypeVar("Key")
Item = TypeVar("Item")
Value = TypeVar("Value")

PTP_ENDS = ("ports", "observed")
"""What of clock.ptp is by `host.interface`."""
_PARTS = ("hosts", "links", "guests", "streams", "probes", "loads", "shapers", "tuning", "windows")
_COLLECTIONS = (*_PARTS, "matrix", "accept")


@dataclass(frozen=True)
class Sketch:
    """What of a scenario is usable: entries by name (links and windows by index), each with those of its values that
    are right.

    Asking a part for a value that is wrong, or is missing, raises UnknownError. names: every entry of each collection
    that is written, usable or not. top: the scenario without its collections. ends: by link and side. ptp_names: the
    ends that are written below `ports` and `observed` of clock.ptp, usable or not. vlans: by link, every one that is
    written, usable or not.
    """

    names: Mapping[str, tuple[str | int, ...]]
    top: Scenario
    hosts: Mapping[str, Host]
    links: Mapping[int, Link]
    guests: Mapping[str, Guest]
    streams: Mapping[str, Stream]
    probes: Mapping[str, ProbeBase]
    loads: Mapping[str, Load]
    shapers: Mapping[str, Shaper]
    tuning: Mapping[str, Tuning]
    windows: Mapping[int, Window]
    accept: Mapping[str, Any]
    ends: Mapping[tuple[int, int], End]
    ptp_names: Mapping[str, tuple[str, ...]]
    vlans: Mapping[int, Collection[str]]

    @cached_property
    def segments(self) -> list[Segment]:
        """Those of the links whose ends are known, with the guests whose place is; none that has a host's name."""
        links = [index for index, _ in where_known(self.links, lambda _, link: link.ends)]
        placed = where_known(self.guests, lambda _, guest: (guest.host, guest.uplink, guest.interface))
        guests = [name for name, _ in placed if name not in self.names.get("hosts", ())]
        return segments(
            {index: self.links[index] for index in links},
            {name: self.guests[name] for name in guests},
            self.switches.values(),
        )

    @cached_property
    def switches(self) -> Mapping[str, tuple[End, ...]]:
        """As Scenario.switches, of the hosts of which that is known."""
        return switches_of({name: self.hosts[name] for name, _ in where_known(self.hosts, lambda _, host: host.switch)})

    def is_switched(self, end: End) -> bool:
        """Whether the end is a port of its host's switch."""
        return end in self.switches.get(end.host, ())

    @cached_property
    def pairs(self) -> Mapping[tuple[str, str], Stream | Between]:
        """What packets go along between two: (collection, name) → each stream, and each probe that asks another."""
        found: dict[tuple[str, str], Stream | Between] = {("streams", name): one for name, one in self.streams.items()}
        asking = ((name, one) for name, one in self.probes.items() if isinstance(one, Between))
        return found | {("probes", name): one for name, one in asking}

    @cached_property
    def loose_links(self) -> list[set[str]]:
        """Of each link without two right ends at hosts there are, or not all of whose VLANs are known, or that a switch
        may join to others: the hosts of its right ends, without those that may be switches."""
        hosts = self.names.get("hosts", ())
        switches = {*hosts} - {name for name, _ in where_known(self.hosts, lambda _, host: host.switch)}
        found = []
        for index in self.names.get("links", ()):
            right = {end: end.host for (link, _), end in self.ends.items() if link == index and end.host in hosts}
            try:
                link = self.links[int(index)]
                whole = len(link.ends) == len(right) and len(link.vlans) == len(self.vlans[int(index)])
            except (KeyError, UnknownError):
                whole = False
            if not whole or switches & {*right.values()}:
                found.append({*right.values()} - switches)
        return found

    @cached_property
    def vlan_parents(self) -> Mapping[End, End]:
        """As network.vlan_parents, of the ends and the VLANs that are right."""
        return vlan_parents(self.ends_of_links, self.links, self.switches.values())

    @property
    def ends_of_links(self) -> Mapping[int, tuple[End, ...]]:
        """Each link → those of its ends that are right."""
        links = dict.fromkeys(link for link, _ in self.ends)
        return {link: tuple(end for (other, _), end in self.ends.items() if other == link) for link in links}

    def parent_of(self, end: End) -> End:
        """As Scenario.parent_of."""
        return self.vlan_parents.get(end, end)

    def interfaces_of(self, host: str) -> list[str]:
        """The host's interfaces that can be used: ends of links, then VLAN interfaces on them; no switch's ports."""
        ports = self.switches.get(host, ())
        ends = (end for end in self.ends.values() if end not in ports)
        return [end.interface for end in (*ends, *self.vlan_parents) if end.host == host]

    def is_existing(self, host: str) -> bool:
        """True for a host that is known to be there before the run."""
        return host in self.hosts and not self.hosts[host].is_namespace

    def is_cable(self, ends: Iterable[End]) -> bool:
        """True for the ends of a link that is known to be there before the run."""
        return all(end.host in self.hosts and has_interface(self.hosts[end.host], end.interface) for end in ends)

    @cached_property
    def _machines(self) -> Mapping[str, str]:
        """What machines_of says of the hosts whose whereabouts are known."""
        return machines_of({name: self.hosts[name] for name, _ in where_known(self.hosts, whereabouts)})

    def machine_of(self, name: str) -> str | None:
        """As Scenario.machine_of. UnknownError: it is not known, or there is no such host or guest."""
        host = name if name in self.hosts or name not in self.guests else self.guests[name].host
        try:
            return machine_of(self.hosts, self._machines, host)
        except KeyError:
            raise UnknownError(f"the machine of {name} is not known") from None

    def namespace_of(self, host: str) -> str:
        """What two hosts with the same interfaces have in common: "" those of this machine itself, else a host's name.

        A host of which nothing is known has separate interfaces.
        """
        if self.is_existing(host):
            with suppress(UnknownError):
                return self.machine_of(host) or ""
        return host

    def sharing(self, here: str, there: str) -> str | None:
        """What two hosts with the same interfaces are both: "local", or "on" a machine; None of any others."""
        namespace = self.namespace_of(here)
        if here == there or namespace != self.namespace_of(there):
            return None
        return f"on {namespace}" if namespace else "local"


def sketch_of(scenario: Scenario) -> Sketch:
    """The sketch of a scenario in which no part is wrong: all of it."""
    links, windows = dict(enumerate(scenario.links)), dict(enumerate(scenario.windows))
    listed = {"links": tuple(links), "windows": tuple(windows)}
    return Sketch(
        names={name: listed[name] if name in listed else tuple(getattr(scenario, name)) for name in _COLLECTIONS},
        top=scenario,
        hosts=scenario.hosts,
        links=links,
        guests=scenario.guests,
        streams=scenario.streams,
        probes=scenario.probes,
        loads=scenario.loads,
        shapers=scenario.shapers,
        tuning=scenario.tuning,
        windows=windows,
        accept=scenario.accept,
        ends={(index, side): end for index, link in links.items() for side, end in enumerate(link.ends)},
        ptp_names={key: tuple(getattr(scenario.clock.ptp, key, ())) for key in PTP_ENDS},
        vlans={index: tuple(map(str, link.vlans)) for index, link in links.items()},
    )


def sketch(raw: Raw, broken: Collection[Path]) -> Sketch:
    """The sketch of plain data that is wrong at the broken paths."""
    entries = {name: _entries(raw.get(name)) for name in _COLLECTIONS if (name,) not in broken}
    names = {name: tuple(key for key, _ in found) for name, found in entries.items()}
    top = {key: value for key, value in raw.items() if key not in _COLLECTIONS}
    made: dict[str, dict[Any, Any]] = {name: {} for name in _COLLECTIONS}
    for name in _PARTS:
        for key, entry in entries.get(name, ()):
            part = _part(raw, (name, key), entry, broken)
            if part is not None:
                made[name][key] = part
    return Sketch(
        names=names,
        top=_partial(raw, (), top, [path for path in broken if path and path[0] not in _COLLECTIONS], Scenario),
        hosts=made["hosts"],
        links=made["links"],
        guests=made["guests"],
        streams=made["streams"],
        probes=made["probes"],
        loads=made["loads"],
        shapers=made["shapers"],
        tuning=made["tuning"],
        windows=made["windows"],
        accept={str(key): value for key, value in entries.get("accept", ())},
        ends=dict(_ends(entries.get("links", ()))),
        ptp_names={key: tuple(str(name) for name, _ in _entries(_below(raw, "clock", "ptp", key))) for key in PTP_ENDS},
        vlans=dict(_vlans(entries.get("links", ()))),
    )


def known(found: Iterable[Item]) -> Iterator[Item]:
    """What is found until something is asked for that is not known."""
    with suppress(UnknownError):
        yield from found


def where_known(items: Mapping[Key, Item], value: Callable[[Key, Item], Value]) -> Iterator[tuple[Key, Value]]:
    """Each key with its item's value, where that is known."""
    for key, item in items.items():
        with suppress(UnknownError):
            yield key, value(key, item)


def _below(value: Any, *keys: str) -> Any:
    """What stands below the keys; None where one is not there, or above it is no mapping."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _entries(value: Any) -> list[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list) else []


def _part(raw: Raw, path: Path, entry: Any, broken: Collection[Path]) -> Part | None:
    """The part at the path; None if not even its model is known, or its name is wrong."""
    model = model_at(path, raw)
    if model is None or path in broken or not isinstance(entry, dict) or not issubclass(model, Part):
        return None
    below = [other[len(path) :] for other in broken if other[: len(path)] == path]
    try:
        return _partial(raw, path, entry, below, model)
    except ValidationError:
        return None  # pydantic does not look into a list that is too long: nothing of it is reported


PartT = TypeVar("PartT", bound=Part)


def _partial(raw: Raw, path: Path, data: Raw, broken: Collection[Path], model: type[PartT]) -> PartT:
    """The model's part with the values of the data that are right; broken paths count from the part."""
    fields = {info.alias or name: name for name, info in model.model_fields.items()}
    kinds = {key: model.model_fields[name].annotation for key, name in fields.items()}
    below = {key: [other[1:] for other in broken if other[0] == key] for key in fields}
    mappings = {key: right for key in fields if (right := _right(kinds[key], data.get(key), below[key])) is not None}
    wrong = {fields[path[0]] for path in broken if path[0] in fields and path[0] not in mappings}
    given = {key: value for key, value in data.items() if key in fields and fields[key] not in wrong} | mappings
    part: PartT = _loose(model).model_validate(given)
    absent = {name for key, name in fields.items() if key not in given}
    unknown = {name for name in absent if model.model_fields[name].is_required()} | wrong
    unknown |= {name for name in absent if _asked(model.model_fields[name], part) & unknown}
    for name in unknown:
        part.__dict__.pop(name)
    for key in {path[0] for path in broken if path[0] in fields}:
        inside = _part(raw, (*path, key), data.get(key), [(*path, *other) for other in broken])
        if inside is not None:
            part.__dict__[fields[str(key)]] = inside
    for key in mappings:
        for name in {str(other[0]) for other in below[key]}:
            inside = _part(raw, (*path, key, name), data[key].get(name), [(*path, *other) for other in broken])
            if inside is not None:
                part.__dict__[fields[key]] = {**part.__dict__[fields[key]], _key(kinds[key], name): inside}
    return part


def _right(annotation: Any, value: Any, broken: Collection[Path]) -> Raw | None:
    """The entries of a mapping in which nothing is broken; None of what is no mapping. Paths count from the value."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) is not dict or not isinstance(value, dict) or () in broken:
        return None
    found = {}
    for name, entry in value.items():
        below = [other[1:] for other in broken if other[0] == name]
        right = _right(get_args(annotation)[1], entry, below) if below else entry
        if right is not None:
            found[name] = right
    return found


def _key(annotation: Any, name: str) -> Any:
    """A right key of a mapping, as the mapping has it: of a number, the number."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return TypeAdapter(get_args(annotation)[0]).validate_python(name)


def _asked(field: FieldInfo, part: Part) -> set[str]:
    """The fields of the part that the field's default depends on."""
    asked: set[str] = set()
    if not field.default_factory_takes_validated_data:
        return asked

    class Noted(Raw):
        def __getitem__(self, name: str) -> Any:
            asked.add(name)
            return super().__getitem__(name)

        def get(self, name: str, default: Any = None) -> Any:
            asked.add(name)
            return super().get(name, default)

    field.get_default(call_default_factory=True, validated_data=Noted(part.__dict__))
    return asked


@cache
def _loose(model: type[PartT]) -> type[PartT]:
    """The model with nothing required. Defaults are not validated, so any will do."""
    loose: Raw = {}
    for name, info in model.model_fields.items():
        if info.is_required():
            optional = copy(info)
            optional.default = None
            loose[name] = (info.annotation, optional)
    made: type[PartT] = create_model(f"{model.__name__}Sketch", __base__=model, **loose)
    return made


def _ends(links: Iterable[tuple[str | int, Any]]) -> Iterator[tuple[tuple[int, int], End]]:
    """Each end that is one, of links that may be wrong otherwise."""
    for index, link in links:
        ends = link.get("ends") if isinstance(link, dict) else None
        for side, text in enumerate(ends[:2] if isinstance(ends, list) else ()):
            with suppress(PydanticCustomError):
                yield (int(index), side), parse_end(text)


def _vlans(links: Iterable[tuple[str | int, Any]]) -> Iterator[tuple[int, Collection[str]]]:
    """The VLANs of each link by their ids as they are written, right or wrong."""
    for index, link in links:
        vlans = link.get("vlans") if isinstance(link, dict) else None
        yield int(index), tuple(map(str, vlans)) if isinstance(vlans, dict) else ()
