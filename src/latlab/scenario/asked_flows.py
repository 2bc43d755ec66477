"""Flows whose packets are watched where they pass interfaces, regardless of the sender: nothing is sent for it."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema

from latlab.model.errors import UsageError
from latlab.scenario.findings import shown, wrong
from latlab.scenario.flow_filter import parse_flow
from latlab.scenario.parts import END, End, Listed, Part, parse_end

FLOWS_MAX = 16
POINTS_MAX = 16
SNAP_MAX = 256
TAP = "tap"
"""Of a guest: not an interface in it, but the tap of its virtual network card on its host."""
BOTH = ("in", "out")


class FlowPoint(NamedTuple):
    """Where packets are watched: an interface, and the directions. Of a guest also its tap, by the name `tap`."""

    end: End
    directions: tuple[str, ...] = BOTH

    @property
    def name(self) -> str:
        """As it is written, without a direction."""
        return str(self.end)

    def __str__(self) -> str:
        return self.name if self.directions == BOTH else f"{self.name}:{self.directions[0]}"


def parse_flow_point(value: object) -> FlowPoint:
    """The point that `host.interface`, `host.interface:in` or `host.interface:out` names."""
    text, colon, direction = value.rpartition(":") if isinstance(value, str) and ":" in value else (value, "", "")
    if colon and direction not in BOTH:
        raise wrong(f"{shown(direction)} is not a direction", "in or out, as in ecu.eth0:in")
    return FlowPoint(parse_end(text), (direction,) if colon else BOTH)


def _matches(text: str) -> str:
    try:
        parse_flow(text)
    except UsageError as error:
        raise wrong(error.what, error.remedy) from None
    return text


def _each_once(points: tuple[FlowPoint, ...]) -> tuple[FlowPoint, ...]:
    seen = [(point.end, direction) for point in points for direction in point.directions]
    again = next((end for place, (end, way) in enumerate(seen) if (end, way) in seen[:place]), None)
    if again is not None:
        raise wrong(f"{again} appears twice", "each interface and direction once")
    return points


FlowPointText = Annotated[
    FlowPoint,
    PlainValidator(parse_flow_point),
    WithJsonSchema(
        {"type": "string", "pattern": END.replace("$", "(:(in|out))?$"), "examples": ["sensor.eth0:out", "vm1.tap"]}
    ),
    PlainSerializer(str, return_type=str, when_used="json"),
]


class FlowAsked(Part):
    """Packets that are recorded where they pass interfaces of hosts and guests: their own streams, loads, or those of
    other programs.
    """

    match: Annotated[str, AfterValidator(_matches)] = Field(
        description="which packets, as `latlab watch --flow` takes it, such as udp port 5000"
    )
    at: Annotated[Listed[FlowPointText], AfterValidator(_each_once)] = Field(
        min_length=1,
        max_length=POINTS_MAX,
        description="where: host.interface, in or out with :in or :out, else both; guest.tap is a guest's tap on its "
        "host",
    )
    snap: int = Field(
        default=128, ge=70, le=SNAP_MAX, description="bytes of each packet that are kept, and by which it is recognised"
    )
