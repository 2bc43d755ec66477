"""What every probe that a tool measures is: a client, a server that answers it if it asks, and where its words are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from latlab.model.errors import LabError
from latlab.model.units import MICROSECOND_NS, SECOND_NS
from latlab.scenario.tuning import Realtime
from latlab.testbed.loads.base import Cores, LoadProcess
from latlab.testbed.machine import Machine
from latlab.testbed.step import Argv

SERVER_SPARE_S = 60


@dataclass(frozen=True)
class DdsOptions:
    """The options of a tool that measures over DDS: reliable: what is lost is sent again. take: who takes samples."""

    domain: int
    reliable: bool
    take: str


@dataclass(frozen=True, kw_only=True)
class ToolPlan:
    """One tool's probe of a cell, resolved to addresses and ports.

    asker, answerer: hosts or guests; one and the same where nothing is sent, which has no addresses, port and size.
    realtime: how the client's own thread is to run, of kinds that set that themselves. sink_address is where the client
    sends to, listen_address where the server listens: they differ behind user NAT. *_interface: what the host calls the
    interface that has the address. The probe owns as many ports from `port` on as its kind takes. size: bytes of a
    message. period_ns: between messages; None: each follows the answer to the one before. seconds: how long the client
    measures. log: the file that the client writes next to what it prints, on its host; of kinds that write one. dds: of
    kinds that are over DDS.
    """

    name: str
    kind: str
    asker: str
    answerer: str
    source_address: str = ""
    sink_address: str = ""
    listen_address: str = ""
    asker_interface: str = ""
    answerer_interface: str = ""
    port: int = 0
    transport: str = ""
    size: int = 0
    period_ns: int | None
    seconds: int
    log: str
    asker_cores: Cores = field(default_factory=Cores)
    answerer_cores: Cores = field(default_factory=Cores)
    dds: DdsOptions | None = None
    realtime: Realtime | None = None

    def rate(self) -> int:
        """Messages a second. ValueError: it has no period."""
        if self.period_ns is None:
            raise ValueError(f"{self.name} is a closed loop")
        return SECOND_NS // self.period_ns

    def period_us(self) -> int:
        """The period in whole µs. ValueError: it has none."""
        if self.period_ns is None:
            raise ValueError(f"{self.name} has no period")
        return self.period_ns // MICROSECOND_NS


@dataclass(frozen=True)
class ToolKind:
    """A tool that measures, registered in one line.

    asks, answers: the programs it needs at either end. server, client: their processes; server None: nothing is asked.
    version: the command that prints the client's version. version_of: that, out of what it printed; ValueError: too
    old, or not that tool, with what is needed. writes_log: what the client measured is in the plan's log, not in what
    it prints. failed: what an exit status of the client other than 0 means, with what it printed and wrote to stderr;
    None: nothing is known. lacking: why the machine that it runs on cannot do that, with programs. unbuilt: what of
    the plan this build does not do, by what `version` printed. dropped_s: of what the client measures this is dropped,
    from its beginning on. unready: what it means that the server runs and is not
    ready in time; None: nothing is known.
    """

    name: str
    asks: tuple[str, ...]
    answers: tuple[str, ...]
    server: Callable[[ToolPlan], LoadProcess] | None
    client: Callable[[ToolPlan], LoadProcess]
    version: Argv
    version_of: Callable[[str], str]
    writes_log: bool = False
    failed: Callable[[ToolPlan, int, str, str], LabError] | None = None
    lacking: Callable[[Machine], LabError | None] = lambda machine: None
    unbuilt: Callable[[ToolPlan, str], LabError | None] = lambda plan, printed: None
    dropped_s: int = 0
    unready: Callable[[ToolPlan], LabError] | None = None
