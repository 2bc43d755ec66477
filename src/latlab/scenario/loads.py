"""The kinds of background load. A new kind is one model here and one name in `Load`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal, get_args

from pydantic import AfterValidator, Field

from latlab.model.limits import LIMITS
from latlab.scenario.findings import shown, wrong
from latlab.scenario.parts import EndText, ItemName, Part, Priority, Reference
from latlab.scenario.units import SIZE, RateOrMax, Size, within

NO_LOADS = "none"
"""In the matrix: no load is active."""


def _not_reserved(name: str) -> str:
    if name == NO_LOADS:
        raise wrong("a load cannot be named none", "another name: none stands for no load in the matrix")
    return name


def _absolute(path: str) -> str:
    if not path.startswith("/") or not path.isprintable():
        raise wrong(f"{shown(path)} is not an absolute path", "a folder such as /var/tmp")
    return path


LoadName = Annotated[ItemName, AfterValidator(_not_reserved)]
Instances = Annotated[int, Field(ge=1, le=32)]
Payload = Annotated[Size, within(SIZE, 1, LIMITS.payload_bytes)]
WorkerSize = Annotated[Size, within(SIZE, 2**20, 2**40)]
FolderPath = Annotated[str, AfterValidator(_absolute)]
WORKER_SIZE = 64 * 2**20
"""Of each worker of stress-ng where none is given; its own defaults, 256 MiB of memory and files of 1 GiB, are more
than a guest of ours has."""
FOLDER = "/var/tmp"
"""Where files lie that are to be on a disk: /tmp may be memory (file-hierarchy(7))."""


class LoadBetween(Part):
    """What every load has that is sent: where it comes from and where it goes."""

    is_ours: ClassVar[bool] = False
    """Whether latlab's own agents make it, which end on request."""
    has_control: ClassVar[bool] = True
    """Whether its ends have a TCP connection of control next to what they send. So packets go back, of priority 0."""

    from_: Reference = Field(alias="from", description="the host or guest that sends the load")
    to: Reference = Field(description="the host or guest that receives the load")
    via: EndText | None = Field(default=None, description="the sender's host.interface, if several links join the two")


class Flood(LoadBetween):
    """UDP packets from latlab's own agent."""

    is_ours: ClassVar[bool] = True
    has_control: ClassVar[bool] = False
    protocol: ClassVar[str] = "udp"

    kind: Literal["flood"]
    size: Payload = Field(default=1400, description="bytes of UDP payload in a packet")
    rate: RateOrMax = Field(default=None, description="UDP payload of all flows together; max: as fast as possible")
    flows: int = Field(default=1, ge=1, le=64, description="UDP flows, each to its own port")
    priority: Priority = Field(default=0, description="socket priority (SO_PRIORITY), 0 to 15")

    @property
    def instances(self) -> int:
        """Its flows."""
        return self.flows


class Iperf3(LoadBetween):
    """iperf3, one client and one server for each instance."""

    priority: ClassVar[int] = 0

    kind: Literal["iperf3"]
    instances: Instances = Field(default=1, description="clients that run at the same time")
    protocol: Literal["udp", "tcp"] = Field(default="udp", description="udp or tcp")
    rate: RateOrMax = Field(default=None, description="of all instances together; max: as fast as possible")
    size: Payload | None = Field(default=None, description="bytes written at once; iperf3's default if not given")


class Netperf(LoadBetween):
    """netperf, always as fast as it goes."""

    priority: ClassVar[int] = 0
    rate: ClassVar[int | None] = None

    kind: Literal["netperf"]
    instances: Instances = Field(default=1, description="clients that run at the same time")
    test: Literal["UDP_STREAM", "TCP_STREAM"] = Field(default="UDP_STREAM", description="netperf's test (-t)")
    size: Payload | None = Field(default=None, description="bytes written at once (-m); netperf's default if not given")

    @property
    def protocol(self) -> str:
        """Of its test."""
        return "tcp" if self.test == "TCP_STREAM" else "udp"


class LoadOn(Part):
    """What every load has that keeps one host or guest busy, and sends nothing."""

    is_ours: ClassVar[bool] = False
    """Whether latlab's own agent makes it, which ends on request."""

    drafted: ClassVar[str]
    """Its keys in a scenario that `latlab init` writes."""
    drafted_note: ClassVar[str]
    """The comment there."""

    on: Reference = Field(description="the host or guest that it runs on")
    workers: Instances = Field(default=1, description="how many run at the same time, 1 to 32")

    @property
    def needs_hypervisor(self) -> bool:
        """Whether it asks something of a hypervisor, which then has to be there."""
        return False


class Busy(LoadOn):
    """latlab's own agent, which asks what is beneath it for something that is quickly done, again and again."""

    is_ours: ClassVar[bool] = True
    worker_size: ClassVar[int | None] = None
    folder: ClassVar[str | None] = None
    drafted: ClassVar[str] = "what: calls"
    drafted_note: ClassVar[str] = "calls the kernel"

    kind: Literal["busy"]
    what: Literal["exits", "calls"] = Field(
        description="exits: exit from the guest to its hypervisor (CPUID, x86 only); calls: make system calls (getppid)"
    )

    @property
    def needs_hypervisor(self) -> bool:
        """To exit to it."""
        return self.what == "exits"


class StressNg(LoadOn):
    """stress-ng, as fast as it goes."""

    drafted: ClassVar[str] = "what: cpu"
    drafted_note: ClassVar[str] = "computes"

    kind: Literal["stress-ng"]
    what: Literal["cpu", "memory", "io"] = Field(
        description="cpu: compute (--cpu); memory: map, fill and unmap (--vm); io: write and read a file, each write "
        "on the disk before the next (--hdd, O_DSYNC)"
    )
    size: WorkerSize | None = Field(
        default=None, description="memory, or file, of each worker, 1MiB or more; 64MiB if not given. Not of cpu"
    )
    path: FolderPath | None = Field(
        default=None, description="of io: the folder that its files are in while it runs; /var/tmp if not given"
    )

    @property
    def worker_size(self) -> int | None:
        """Bytes of memory, or of file, of each worker; None of what has neither."""
        return None if self.what == "cpu" else self.size or WORKER_SIZE

    @property
    def folder(self) -> str | None:
        """The folder of its files; None of what has none."""
        return (self.path or FOLDER) if self.what == "io" else None


Load = Annotated[Flood | Iperf3 | Netperf | Busy | StressNg, Field(discriminator="kind")]
LOAD_MODELS: Final[Mapping[str, type[LoadBetween | LoadOn]]] = {
    get_args(model.model_fields["kind"].annotation)[0]: model for model in get_args(get_args(Load)[0])
}
"""{kind: its model}."""
