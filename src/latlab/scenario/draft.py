"""A scenario of one's own, to begin with: from a few settings to commented YAML.

The text is no more than a beginning, so what is seldom changed stands in it as a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import yaml

from latlab.model.bridges import KINDS
from latlab.scenario.load import read_yaml
from latlab.scenario.loads import LOAD_MODELS, LoadBetween, LoadOn

SENT: Final = [
    kind for kind, model in LOAD_MODELS.items() if issubclass(model, LoadBetween) and "rate" in model.model_fields
]
ON_ONE: Final = {kind: model for kind, model in LOAD_MODELS.items() if issubclass(model, LoadOn)}
LOADS: Final = (*SENT, *ON_ONE)
"""The kinds of load that a draft can have: those with a rate, and those that are sent nowhere."""
DIRECTIONS: Final = ("down", "up", "both")
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9@./_%-]*")
"""Text that YAML takes as it is, also within braces."""


@dataclass(frozen=True)
class DraftMachine:
    """A machine, and its interface to the other one. destination: as ssh takes it; empty: this machine."""

    destination: str
    interface: str


@dataclass(frozen=True)
class Draft:
    """What is asked for; texts are as a scenario has them, and are checked as those of a scenario are.

    sensor, ecu: where these are, of which the second runs the guests; None: both are namespaces of this machine.
    subnet: of a cable between machines. rate: of loads that are sent.
    """

    name: str
    sensor: DraftMachine | None = None
    ecu: DraftMachine | None = None
    subnet: str = "10.78.0.0/24"
    guests: int = 1
    image: str = "debian-cloud"
    bridges: tuple[str, ...] = ("tap",)
    direction: str = "down"
    period: str = "1006us"
    size: str = "64B"
    loads: tuple[str, ...] = ()
    rate: str = "100Mbit/s"
    duration: str = "10s"
    repeat: str = "1"

    @property
    def names(self) -> tuple[str, ...]:
        """The guests' names, or that of their host where there are none: what the sensor talks with."""
        return tuple(f"vm{number}" for number in range(1, self.guests + 1)) or ("ecu",)


def draft_text(draft: Draft) -> str:
    """Return the scenario file."""
    parts = (_head, _hosts, _links, _guests, _streams, _loads, _tuning, _run, _matrix, _accept)
    return "\n\n".join("\n".join(lines) for part in parts if (lines := list(part(draft)))) + "\n"


def _head(draft: Draft) -> Iterator[str]:
    ways = {"down": "to", "up": "from", "both": "to and from"}[draft.direction]
    what = f"{draft.guests} virtual machines" if draft.guests else "the ECU"
    what = "a virtual machine" if draft.guests == 1 else what
    yield "# docs/reference/scenario.md describes every key. `latlab validate` checks this file, `latlab plan` prints"
    yield "# the commands of a run, and `latlab run` measures."
    yield f"name: {_text(draft.name)}"
    yield f"description: {_text(f'A packet every {draft.period} {ways} {what}')}"


def _hosts(draft: Draft) -> Iterator[str]:
    if draft.sensor is None or draft.ecu is None:
        yield "# Both hosts are network namespaces of this machine, made for the run and removed afterwards."
    else:
        yield "# The machines. latlab reaches them by ssh, with your own ssh configuration, and needs root there."
    yield "hosts:"
    for name, place in (("sensor", draft.sensor), ("ecu", draft.ecu)):
        if place is None:
            yield f"  {name}: {{kind: netns}}"
        elif place.destination:
            yield f"  {name}: {{kind: ssh, ssh: {{destination: {_text(place.destination)}}}}}"
        else:
            yield f"  {name}: {{kind: local}}"


def _links(draft: Draft) -> Iterator[str]:
    if draft.sensor is None or draft.ecu is None:
        yield "# The cable between them: a veth pair."
        yield "links:"
        yield "  - ends: [sensor.eth0, ecu.eth0]"
        return
    yield "# The cable between them. It exists already, and both interfaces are up. The sensor's has the first"
    yield "# address of the subnet, the ECU's the second; guests get the eleventh and those after it."
    yield "links:"
    ends = f"sensor.{draft.sensor.interface}", f"ecu.{draft.ecu.interface}"
    yield f"  - ends: [{', '.join(map(_text, ends))}]"
    yield f"    subnet: {_text(draft.subnet)}"


def _guests(draft: Draft) -> Iterator[str]:
    if not draft.guests:
        return
    uplink = draft.ecu.interface if draft.ecu else "eth0"
    build = "latlab image build" + ("" if draft.image == "debian-cloud" else f" {_text(draft.image)}")
    yield f"# The virtual machines on the ECU. `{build}` builds their image, once."
    yield f"# Bridges: {', '.join(KINDS)} (docs/reference/bridges.md)."
    yield "guests:"
    for name in draft.names:
        yield f"  {name}: {_guest(draft, uplink, draft.bridges[0])}"


def _guest(draft: Draft, uplink: str, bridge: str) -> str:
    return f"{{host: ecu, uplink: {_text(uplink)}, image: {_text(draft.image)}, bridge: {_text(bridge)}}}"


def _streams(draft: Draft) -> Iterator[str]:
    yield "# What is measured. Packet n is to leave at start + n × period, and its latency counts from that instant."
    yield "streams:"
    for way in _ways(draft):
        for name in draft.names:
            talker, listener = ("sensor", name) if way == "down" else (name, "sensor")
            yield f"  {_named(draft, way, name)}:"
            yield f"    talker: {talker}"
            yield f"    listener: {listener}"
            yield f"    period: {_scalar(draft.period):<16} # best in step with no kernel's tick (4 ms, 1 ms)"
            yield f"    size: {_scalar(draft.size):<18} # of the probe; headers are not counted"
            yield f"    priority: {7:<14} # SO_PRIORITY"


def _named(draft: Draft, way: str, name: str) -> str:
    return f"{way}-{name}" if draft.guests > 1 else way


def _ways(draft: Draft) -> tuple[str, ...]:
    return ("down", "up") if draft.direction == "both" else (draft.direction,)


def _load_names(draft: Draft) -> list[str]:
    return [
        name
        for kind in dict.fromkeys(draft.loads)
        for name in ([f"{kind}-{way}" for way in _ways(draft)] if kind in SENT else [kind])
    ]


def _loads(draft: Draft) -> Iterator[str]:
    if not draft.loads:
        return
    yield "# Background load. `matrix` says in which cells it runs."
    yield "loads:"
    for kind in dict.fromkeys(draft.loads):
        if model := ON_ONE.get(kind):
            yield f"  {kind}: {{kind: {kind}, on: ecu, {model.drafted}}}     # {model.drafted_note}"
        else:
            for way in _ways(draft):
                ends = ("sensor", draft.names[0]) if way == "down" else (draft.names[0], "sensor")
                yield f"  {kind}-{way}: {{kind: {kind}, from: {ends[0]}, to: {ends[1]}, rate: {_scalar(draft.rate)}}}"


def _tuning(draft: Draft) -> Iterator[str]:
    yield "# How latlab's threads run: SCHED_FIFO priorities are the defaults. On isolated CPUs results vary less."
    yield "# tuning:"
    listener = draft.names[0]
    yield "#   sensor: {talker: {fifo: 90, cpus: [2]}, listener: {fifo: 80, cpus: [3]}}"
    yield f"#   {listener}: {{talker: {{fifo: 90, cpus: [0]}}, listener: {{fifo: 80, cpus: [0]}}}}"
    if draft.guests:
        yield "#   ecu: {guests: {vm1: {vcpus: {cpus: [1], fifo: 1}, vhost: {cpus: [0]}}}}"


def _run(draft: Draft) -> Iterator[str]:
    yield "# How long each cell sends. Packets of the warm-up are recorded, and enter no statistic."
    yield f"duration: {_scalar(draft.duration)}"
    yield "warmup: 500ms"
    yield ""
    yield "# How often each cell is measured, each time on a new test bed."
    yield f"repeat: {_scalar(draft.repeat)}"


def _matrix(draft: Draft) -> Iterator[str]:
    loads = _load_names(draft)
    several = draft.guests > 0 and len(draft.bridges) > 1
    yield "# What is varied. Each combination of the values is a cell: a separate test bed, and a row of the tables."
    if not loads and not several:
        yield "# matrix:"
        yield f"#   streams.{_named(draft, _ways(draft)[0], draft.names[0])}.size: [64B, 1400B]"
        return
    yield "matrix:"
    if several and draft.guests == 1:
        yield f"  guests.vm1.bridge: [{', '.join(map(_text, draft.bridges))}]"
    elif several:
        uplink = draft.ecu.interface if draft.ecu else "eth0"
        yield "  guests:                  # all change their bridge together, because they share an uplink"
        for bridge in draft.bridges:
            for number, name in enumerate(draft.names):
                yield f"    {' ' if number else '-'} {name}: {_guest(draft, uplink, bridge)}"
    if loads:
        yield f"  loads: [{', '.join(['none', *loads])}]"


def _accept(draft: Draft) -> Iterator[str]:
    stream = _named(draft, _ways(draft)[0], draft.names[0])
    yield "# The largest values to accept; `latlab run` exits with 1 if one is exceeded."
    yield "# accept:"
    yield f"#   {stream}.latency.p99: 500us"
    yield f"#   {stream}.counts.lost: 0"


def _text(text: str) -> str:
    """Return the text as one YAML value that is text, whatever it would be without quotes: a number, null, a truth."""
    return _scalar(text) if isinstance(read_yaml(text).data, str) else _quoted(text)


def _scalar(text: str) -> str:
    """Return the text as one YAML value, which cannot become anything else of the file; a number stays one."""
    return text if _PLAIN.fullmatch(text) else _quoted(text)


def _quoted(text: str) -> str:
    return yaml.safe_dump(text, default_style='"', width=float("inf")).rstrip("\n")
