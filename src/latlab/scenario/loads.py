"""The kinds of background load. A new kind is one model here and one name in `Load`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from latlab.scenario.findings import wrong
from latlab.scenario.parts import EndText, ItemName, Part, Priority, Reference
from latlab.scenario.streams import UDP_PAYLOAD_MAX
from latlab.scenario.units import SIZE, RateOrMax, Size, within

NO_LOADS = "none"
"""In the matrix: no load is active."""


def _not_reserved(name: str) -> str:
    if name == NO_LOADS:
        raise wrong("a load cannot be named none", "another name: none stands for no load in the matrix")
    return name


LoadName = Annotated[ItemName, AfterValidator(_not_reserved)]
Instances = Annotated[int, Field(ge=1, le=32)]
Payload = Annotated[Size, within(SIZE, 1, UDP_PAYLOAD_MAX)]


class LoadBase(Part):
    """What every load has: where it comes from and where it goes."""

    from_: Reference = Field(alias="from", description="the host or guest that sends the load")
    to: Reference = Field(description="the host or guest that receives the load")
    via: EndText | None = Field(
        default=None, description="the sender's host.interface, where several links join the two"
    )


class Flood(LoadBase):
    """UDP packets from latlab's own agent."""

    kind: Literal["flood"]
    size: Payload = Field(default=1400, description="bytes of UDP payload in a packet")
    rate: RateOrMax = Field(default=None, description="UDP payload of all flows together; max: as fast as it goes")
    flows: int = Field(default=1, ge=1, le=64, description="UDP flows, each to a port of its own")
    priority: Priority = Field(default=0, description="socket priority (SO_PRIORITY), 0 to 15")


class Iperf3(LoadBase):
    """iperf3, one client and one server for each instance."""

    kind: Literal["iperf3"]
    instances: Instances = Field(default=1, description="clients that run at the same time")
    protocol: Literal["udp", "tcp"] = Field(default="udp", description="udp or tcp")
    rate: RateOrMax = Field(default=None, description="of all instances together; max: as fast as it goes")
    size: Payload | None = Field(default=None, description="bytes written at once; iperf3's own choice if not given")


class Netperf(LoadBase):
    """netperf, always as fast as it goes."""

    kind: Literal["netperf"]
    instances: Instances = Field(default=1, description="clients that run at the same time")
    test: Literal["UDP_STREAM", "TCP_STREAM"] = Field(default="UDP_STREAM", description="netperf's test (-t)")
    size: Payload | None = Field(
        default=None, description="bytes written at once (-m); netperf's own choice if not given"
    )


Load = Annotated[Flood | Iperf3 | Netperf, Field(discriminator="kind")]
