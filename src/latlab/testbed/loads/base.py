"""What every kind of background load is: the processes it takes, and how their output is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from latlab.model.part import Document
from latlab.recordings.cell import Load, RecordedWork
from latlab.testbed.step import Argv, Spec

SPARE_S = 240
"""Loads begin before agents that may take as long to get ready, in guests four times 30 s, and end on request."""

Role = Literal["server", "source"]
Ending = Literal["command", "interrupt", "itself", "terminate"]


@dataclass(frozen=True)
class Cores:
    """How a load's processes are scheduled on a host: SCHED_FIFO priority, CPUs; None leaves it as it is."""

    fifo: int | None = None
    cpus: tuple[int, ...] | None = None

    def prefix(self) -> Argv:
        """The `chrt` and `taskset` to put before a command that cannot set this itself."""
        fifo = ("chrt", "-f", str(self.fifo)) if self.fifo else ()
        cpus = ("taskset", "-c", ",".join(map(str, self.cpus))) if self.cpus else ()
        return fifo + cpus


@dataclass(frozen=True)
class Work:
    """What keeps one host busy: what, of those that its kind knows. size: bytes of memory, or of file, of each worker.
    path: the folder of its files; either is None of what has none.
    """

    what: str
    size: int | None = None
    path: str | None = None


@dataclass(frozen=True, kw_only=True)
class LoadPlan:
    """One load of a cell, resolved to addresses and ports.

    A load that is sent nowhere has `work`: its source is the host or guest that it is on, its instances are its
    workers, and it has no sink, addresses, interface and ports. Of the others rate_bps counts the payload of all
    instances together, None is as fast as it goes; size is the payload of a packet in bytes, None is the tool's own
    choice. sink_address is where its source sends to, listen_address where its sink receives: they differ behind user
    NAT. The load owns the ports from `port` to port + instances. seconds is how long it is needed; a load that can be
    stopped may run SPARE_S longer if it is not stopped.
    """

    name: str
    kind: str
    source: str
    sink: str = ""
    source_address: str = ""
    sink_address: str = ""
    listen_address: str = ""
    source_interface: str = ""
    size: int | None = None
    rate_bps: int | None = None
    instances: int
    protocol: str = ""
    priority: int = 0
    port: int = 0
    seconds: int
    source_agent: str
    sink_agent: str = ""
    source_cores: Cores = Cores()
    sink_cores: Cores = Cores()
    work: Work | None = None

    def rate_each(self) -> int | None:
        """An instance's share of the rate, in bit/s; None is as fast as it goes."""
        return None if self.rate_bps is None else self.rate_bps // self.instances


@dataclass(frozen=True)
class LoadProcess:
    """One process of a load.

    spec: for our agent, the JSON object on its standard input. tcp_port, udp_port: it is ready once it listens there.
    says: it is ready once it has written a line with this in it, to standard output or error; our agent, after it was
    told to start.
    towards: the port that it sends to, in words, such as "TCP port 5600 of ecu".
    ending: how it is stopped: by the agent's stop `command`, by SIGINT (`interrupt`), by SIGTERM
    (`terminate`), or not at all because it ends by `itself`.
    """

    role: Role
    host: str
    argv: Argv
    ending: Ending
    spec: Spec | None = None
    tcp_port: int | None = None
    udp_port: int | None = None
    says: str = ""
    towards: str = ""


@dataclass(frozen=True)
class Output:
    """What a process wrote from start to end."""

    process: LoadProcess
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Achieved:
    """What a load did: payload bit/s sent and received, packets/s sent; None where the tool does not say.

    work_per_s: how much of its work it did, by the name of what is counted.
    """

    version: str
    sent_bps: float | None
    received_bps: float | None
    sent_pps: float | None
    work_per_s: Mapping[str, float] = field(default_factory=dict)
    detail: Mapping[str, object] = field(default_factory=dict)


def load_entry(plan: LoadPlan, commands: Sequence[str], achieved: Achieved) -> Load:
    """The entry of cell.json's `loads` of a load as it ran."""
    work = plan.work
    return Load(
        name=plan.name,
        kind=plan.kind,
        from_=None if work else plan.source,
        to=None if work else plan.sink,
        on=plan.source if work else None,
        work=RecordedWork(**vars(work), workers=plan.instances) if work else None,
        version=achieved.version,
        commands=list(commands),
        asked_bps=plan.rate_bps,
        sent_bps=achieved.sent_bps,
        received_bps=achieved.received_bps,
        sent_pps=achieved.sent_pps,
        work_per_s=dict(achieved.work_per_s),
        detail=achieved.detail,
    )


@dataclass(frozen=True)
class LoadKind:
    """A kind of load, registered in one line.

    tools: the programs it needs on its hosts; without those of a load on one host its cells are unavailable. processes:
    servers first. parse: from the outputs in the same order; ValueError, LookupError or ZeroDivisionError when they are
    not what the tool prints at its end. version: the command that prints the tool's version, when its output does not
    say it.
    """

    name: str
    tools: tuple[str, ...]
    processes: Callable[[LoadPlan], list[LoadProcess]]
    parse: Callable[[LoadPlan, Sequence[Output]], Achieved]
    version: Argv | None = None


def total(values: Sequence[float]) -> float | None:
    """The sum of the instances' values; None when there is none."""
    return sum(values) if values else None


# What the loads made by latlab's agent have in common: its spec, and what it reports at its end.


def last_events(stdout: str) -> dict[str, Document]:
    """The last event of each kind; a line that is not whole is passed over."""
    events = {}
    for line in stdout.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        events[event["event"]] = event
    return events


def totals_of(event: Document) -> Document:
    """What an event has in addition to its name."""
    return {key: value for key, value in event.items() if key != "event"}


def realtime_spec(cores: Cores) -> Spec:
    """`realtime` of an agent's spec (docs/reference/agent.md) for a load."""
    return {
        "fifo": cores.fifo,
        "cpus": list(cores.cpus) if cores.cpus else None,
        "lock_memory": False,
        "cpu_dma_latency_us": None,
        "timer_slack_ns": None,
    }
