"""Everything that would keep a scenario from running on this machine, found before anything is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from latlab.errors import LabError, LatlabError, UsageError
from latlab.host.tools import install_remedy
from latlab.lab.agent_binary import find_agent
from latlab.lab.loads.table import LOADS
from latlab.lab.machine import Machine, read_machine
from latlab.scenario import Scenario

__all__ = ["find_agent", "preflight", "raise_problems"]

Problems = Iterator[LatlabError]


def preflight(scenario: Scenario, machine: Machine | None = None) -> list[LatlabError]:
    """All problems of a cell's scenario, each with its remedy; empty when it can run.

    UsageError: the scenario does not fit the machine. LabError: the machine lacks something. Reads only.
    """
    machine = machine or read_machine()
    return [problem for check in CHECKS for problem in check(scenario, machine)]


def raise_problems(problems: Sequence[LatlabError]) -> None:
    """Nothing without problems; else raises one error that lists each once.

    It is a UsageError as soon as one of them is: the scenario has to be put right in any case.
    """
    lines = list(dict.fromkeys(str(problem) for problem in problems))
    if not lines:
        return
    if len(lines) == 1:
        raise problems[0]
    kind = UsageError if any(isinstance(problem, UsageError) for problem in problems) else LabError
    raise kind(f"{len(lines)} problems:\n" + "\n".join(f"  {line}" for line in lines))


def _interfaces(scenario: Scenario, machine: Machine) -> Problems:
    """Interfaces of this machine: those of cables must be there, those of links to make must not."""
    for number, link in enumerate(scenario.links):
        created = scenario.link_is_created(link)
        for end in link.ends:
            if scenario.hosts[end.host].kind != "local" or created != (end.interface in machine.interfaces):
                continue
            where = f"links.{number}"
            if created:
                yield UsageError(
                    f"{end}: this machine has an interface {end.interface} already",
                    where=where,
                    remedy="choose another name; if a crashed run left it, `latlab clean`",
                )
            else:
                there = ", ".join(sorted(machine.interfaces - {"lo"})) or "none"
                yield UsageError(
                    f"{end}: this machine has no interface {end.interface}",
                    where=where,
                    remedy=f"its interfaces: {there}",
                )


def _cpus(scenario: Scenario, machine: Machine) -> Problems:
    """CPUs that the tuning names."""
    for host, tuning in scenario.tuning.items():
        parts = {"talker": tuning.talker.cpus, "listener": tuning.listener.cpus, "load": tuning.load.cpus}
        for part, cpus in parts.items():
            missing = sorted(set(cpus or ()) - machine.cpus)
            if missing:
                yield UsageError(
                    f"no CPU {', '.join(map(str, missing))} is online",
                    where=f"tuning.{host}.{part}.cpus",
                    remedy=f"online: {', '.join(map(str, sorted(machine.cpus)))}",
                )


def _privilege(scenario: Scenario, machine: Machine) -> Problems:
    """What the kernel allows only to root, or to those it gave the capability."""
    # Every agent makes room for timestamps in its sockets beyond the usual limit (SO_RCVBUFFORCE).
    needed = {"CAP_NET_ADMIN"}
    if any(host.kind == "netns" for host in scenario.hosts.values()):
        needed |= {"CAP_SYS_ADMIN"}
    if any(stream.transport == "ethernet" for stream in scenario.streams.values()):
        needed |= {"CAP_NET_RAW"}
    for stream in scenario.streams.values():
        for part in (scenario.tuning_of(stream.talker).talker, scenario.tuning_of(stream.listener).listener):
            needed |= {"CAP_SYS_NICE"} if part.fifo else set()
            needed |= {"CAP_IPC_LOCK"} if part.lock_memory else set()
    missing = sorted(needed - machine.capabilities)
    if missing:
        yield LabError(f"missing privilege: {', '.join(missing)}", remedy="run with sudo")


def _tools(scenario: Scenario, machine: Machine) -> Problems:
    """The programs that the steps and the loads call."""
    needed = {"ip"}
    if any(scenario.link_is_created(link) for link in scenario.links):
        needed |= {"sysctl", "grep"}
    for load in scenario.loads.values():
        needed |= set(LOADS[load.kind].tools)
        needed |= {"ss"} if LOADS[load.kind].tools else set()
        for host in (load.from_, load.to) if LOADS[load.kind].tools else ():
            tuning = scenario.tuning_of(host).load
            needed |= {"chrt"} if tuning.fifo else set()
            needed |= {"taskset"} if tuning.cpus else set()
    for tool in sorted(needed):
        if not machine.has_tool(tool):
            yield LabError(f"{tool} is missing", remedy=install_remedy(tool))


def _agent(scenario: Scenario, machine: Machine) -> Problems:
    """The agent's binary."""
    try:
        find_agent()
    except LabError as error:
        yield error


CHECKS: tuple[Callable[[Scenario, Machine], Problems], ...] = (
    _interfaces,
    _cpus,
    _privilege,
    _tools,
    _agent,
)
