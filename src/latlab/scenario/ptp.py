"""Clocks that PTP keeps alike (IEEE 1588, IEEE 802.1AS): where linuxptp is started for the run, where observed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from latlab.model.units import HOUR_NS, MICROSECOND_NS, MINUTE_NS, SECOND_NS
from latlab.scenario.findings import shown, wrong
from latlab.scenario.parts import Cpus, End, Part, Priority
from latlab.scenario.shapers import ShapedInterface
from latlab.scenario.units import DURATION, Duration, within

Timestamps = Literal["hardware", "software"]

HARDWARE_LIMIT_NS = MICROSECOND_NS
SOFTWARE_LIMIT_NS = 100_000
"""The accuracy of a software timestamp: it includes the time of the stack at both ends."""


SOCKET_PATH_MAX = 107
"""Bytes of sun_path without its last one, a zero (unix(7))."""


def _socket(text: str) -> str:
    """The path, if it is one that is the same for every program there, whatever folder it was started in."""
    if not text.startswith("/") or "\0" in text:
        raise wrong(f"{shown(text)} is not an absolute path", "the path of ptp4l's socket, such as /run/ptp4l")
    if (length := len(text.encode(errors="surrogatepass"))) > SOCKET_PATH_MAX:
        raise wrong(f"{shown(text)} has {length} bytes", f"a socket's path of {SOCKET_PATH_MAX} or fewer")
    return text


SocketPath = Annotated[str, AfterValidator(_socket), WithJsonSchema({"type": "string", "pattern": "^/"})]


class Ptp(Part):
    """linuxptp: started for the run on the ports that have a role, and left alone where it is only observed."""

    ports: dict[ShapedInterface, Literal["master", "slave"]] = Field(
        default_factory=dict, description="host.interface → the role of the ptp4l that is started there for the run"
    )
    observed: dict[ShapedInterface, SocketPath] = Field(
        default_factory=dict,
        description=(
            "host.interface → the Unix socket of a ptp4l that already runs there, such as /run/ptp4l; it is queried, "
            "not changed"
        ),
    )
    profile: Literal["automotive", "gptp", "default"] = Field(
        default="automotive",
        description="automotive: fixed roles, no Announce messages, peer delay; gptp: IEEE 802.1AS; "
        "default: IEEE 1588's own, end-to-end delay",
    )
    timestamps: Timestamps | None = Field(
        default=None,
        description="what timestamps its packets; if not given, hardware on network cards and software on links that "
        "are made for the run",
    )
    domain: Annotated[int, Field(ge=0, le=127)] = Field(default=0, description="its domainNumber")
    priority: Priority = Field(default=0, description="socket priority of its packets")
    fifo: Annotated[int, Field(ge=1, le=99)] | None = Field(
        default=1, description="SCHED_FIFO priority of ptp4l and phc2sys; null: an ordinary thread"
    )
    cpus: Cpus | None = Field(default=None, description="the CPUs they run on; anywhere if not given")
    limit: Annotated[Duration, within(DURATION, 1, SECOND_NS)] | None = Field(
        default=None,
        description="the offset within which a slave is locked; 1us with timestamps in hardware, 100us in software if "
        "not given",
    )
    wait: Annotated[Duration, within(DURATION, SECOND_NS, HOUR_NS)] = Field(
        default=MINUTE_NS, description="how long to wait for the lock before measuring"
    )

    @model_validator(mode="before")
    @classmethod
    def _has_ports(cls, value: object) -> object:
        """PTP is started or observed somewhere. A port that is wrong in itself is one, and is reported as such."""
        if isinstance(value, dict) and not value.get("ports") and not value.get("observed"):
            raise wrong("no port", "ports: {host.interface: slave}, or observed: {host.interface: /run/ptp4l}")
        return value

    @property
    def interfaces(self) -> tuple[str, ...]:
        """Every port, as `host.interface`."""
        return tuple(dict.fromkeys((*self.ports, *self.observed)))

    def master_of(self, end: End, segments: Iterable[Collection[End]]) -> End | None:
        """The port at another end of its segment that is a master; None where none is started there.

        segments: the ends of each.
        """
        across = (other for ends in segments if end in ends for other in ends if other != end)
        return next((other for other in across if self.ports.get(str(other)) == "master"), None)

    def limit_ns(self, timestamps: Timestamps) -> int:
        """The offset within which a slave is locked, ns."""
        if self.limit is not None:
            return self.limit
        return HARDWARE_LIMIT_NS if timestamps == "hardware" else SOFTWARE_LIMIT_NS
