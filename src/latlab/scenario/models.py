"""What a scenario is, and what follows from it: routes, addresses, stream numbers, packet counts."""

from __future__ import annotations

import json
from ipaddress import IPv4Interface
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from latlab.scenario.findings import shown, wrong
from latlab.scenario.hosts import Host, is_existing
from latlab.scenario.limits import ACCEPT_SCHEMA, Limit, parse_limit
from latlab.scenario.links import Link, Route, address_of, candidates
from latlab.scenario.loads import Load, LoadName
from latlab.scenario.parts import End, ItemName, Listed, Part, Reference, ScenarioName
from latlab.scenario.streams import FIRST_PORT, Stream, packet_count
from latlab.scenario.tuning import Tuning
from latlab.scenario.units import DURATION, Duration, within

LONGEST_NS = 365 * 24 * 3600 * 10**9


class Clock(Part):
    """How the hosts' clocks are related."""

    sync: Literal["shared", "exchange"] = Field(
        default="shared",
        description="shared: one kernel, one clock; exchange: bound the offset by timestamped exchanges",
    )


def _distinct(values: tuple[object, ...]) -> tuple[object, ...]:
    if not values:
        raise wrong("an empty list", "one value or more")
    seen = set()
    for value in values:
        text = json.dumps(value, sort_keys=True)
        if text in seen:
            raise wrong(f"{shown(value)} is there twice", "each value once")
        seen.add(text)
    return values


Values = Annotated[Listed[Any], AfterValidator(_distinct)]
Accept = Annotated[dict[str, Any], WithJsonSchema(ACCEPT_SCHEMA)]
Length = Annotated[Duration, within(DURATION, 1, LONGEST_NS)]
Pause = Annotated[Duration, within(DURATION, 0, LONGEST_NS)]


class Scenario(Part):
    """What is measured. `load_scenario` and `cells` return none that breaks a rule of `rules.py`."""

    name: ScenarioName = Field(description="name of the scenario: a part of the run folder's name")
    description: str | None = Field(default=None, description="what it is for, in a sentence")
    hosts: dict[ItemName, Host] = Field(min_length=1, description="the machines, by name")
    links: Listed[Link] = Field(default=(), max_length=256, description="the cables between them")
    clock: Clock = Field(default=Clock(), description="how the hosts' clocks are related")
    streams: dict[ItemName, Stream] = Field(min_length=1, max_length=1024, description="what is measured, by name")
    loads: dict[LoadName, Load] = Field(default_factory=dict, description="background load, by name")
    tuning: dict[Reference, Tuning] = Field(
        default_factory=dict,
        description="how latlab's processes run, by host; hosts not named get the defaults",
    )
    duration: Length = Field(description="how long each cell sends, warm-up included, such as 900s")
    warmup: Pause = Field(default=0, description="packets launched in this first time are recorded but in no statistic")
    settle: Pause = Field(default=200_000_000, description="wait after the last packet before the listener is stopped")
    repeat: int = Field(default=1, ge=1, le=1000, description="how often each cell is run")
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = Field(
        default=None, description="of the order in which cells run; drawn anew for each run if not given"
    )
    matrix: dict[str, Values] = Field(
        default_factory=dict,
        description="path in this file, or `loads` → the values it takes; every combination is a cell",
    )
    accept: Accept = Field(
        default_factory=dict,
        description="stream.metric.statistic → largest accepted value; above it `latlab run` exits with 1",
    )

    def stream_number(self, name: str) -> int:
        """The stream's number in packets and tables: its place in the scenario, from 1."""
        return list(self.streams).index(name) + 1

    def port(self, name: str) -> int:
        """The UDP port its listener receives the stream on."""
        return self.streams[name].port or FIRST_PORT + self.stream_number(name) - 1

    def packet_count(self, name: str) -> int:
        """The number of packets of the stream whose launch is before start + duration, warm-up included."""
        return packet_count(self.streams[name], self.duration)

    def route(self, name: str) -> Route:
        """The link the stream takes, with its ends in the stream's direction."""
        stream = self.streams[name]
        return self._route(stream.talker, stream.listener, stream.via)

    def load_route(self, name: str) -> Route:
        """The link the load takes: talker_end is where it comes from, listener_end where it goes."""
        load = self.loads[name]
        return self._route(load.from_, load.to, load.via)

    def address(self, end: End) -> IPv4Interface:
        """The address of a link's end with its prefix; on an existing cable, the one expected there."""
        for index, link in enumerate(self.links):
            if end in link.ends:
                return address_of(index, link, end)
        raise KeyError(f"no link ends at {end}")

    def link_is_created(self, link: Link) -> bool:
        """True where the link is made for the run (as a veth pair); False where it is an existing cable."""
        return not all(is_existing(self.hosts[end.host]) for end in link.ends)

    def tuning_of(self, host: str) -> Tuning:
        """How latlab's processes run on the host: as the scenario says, or the defaults."""
        return self.tuning.get(host, Tuning())

    def limits(self) -> list[Limit]:
        """The accepted limits, in the scenario's order."""
        parsed = (parse_limit(path, value) for path, value in self.accept.items())
        return [limit for limit in parsed if isinstance(limit, Limit)]

    def _route(self, sender: str, receiver: str, via: End | None) -> Route:
        return candidates(dict(enumerate(self.links)), sender, receiver, via)[0]
