"""The tools' probes of a cell: servers with the listeners, clients once the streams run and the warm-up is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from latlab.hosts.tools import PACKAGES, install_remedy
from latlab.model.errors import LabError, UnavailableError
from latlab.testbed.apply import TestBed
from latlab.testbed.loads.base import LoadProcess, Output
from latlab.testbed.loads.runner import END_S, NotReadyError, RunningProcess
from latlab.testbed.probes import TOOLS
from latlab.testbed.probes.base import ToolPlan

SPARE_S = 30.0
"""How much longer than its duration a client may take: sockperf sorts and writes its log at the end."""


@dataclass(frozen=True)
class ToolRan:
    """A tool that finished: its version, its commands (a server's first), what the client wrote."""

    plan: ToolPlan
    version: str
    commands: tuple[str, ...]
    output: Output


class ToolRunner:
    """The tools of one cell on a test bed. They end on their own."""

    def __init__(self, bed: TestBed, plans: Sequence[ToolPlan]) -> None:
        self.plans = plans
        self._bed = bed
        self._versions: dict[str, str] = {}
        self._servers: dict[str, RunningProcess] = {}
        self._clients: dict[str, RunningProcess] = {}
        self._ran: list[ToolRan] = []

    async def look(self) -> None:
        """Read the clients' versions. UnavailableError: a tool is not there, or not what is needed."""
        for plan in self.plans:
            self._versions[plan.name] = await self._version(plan)

    async def start(self) -> None:
        """Start the servers until each answers. LabError, with all processes ended: one does not."""
        try:
            for plan in self.plans:
                if server := TOOLS[plan.kind].server:
                    self._servers[plan.name] = await self._server(plan, server(plan))
        except BaseException:
            await self.kill()
            raise

    async def ask(self, in_s: float) -> None:
        """Wait until every client has finished. LabError: one did not.

        What they measure counts from in_s from now on: a client begins earlier by what is dropped, if there is time.
        """
        waited_s = 0.0
        for plan in sorted(self.plans, key=lambda plan: -TOOLS[plan.kind].dropped_s):
            at_s = max(in_s - TOOLS[plan.kind].dropped_s, waited_s)
            await self._bed.hosts[plan.asker].pause(at_s - waited_s)
            waited_s = at_s
            client = TOOLS[plan.kind].client(plan)
            self._clients[plan.name] = await RunningProcess.start(f"probe {plan.name}", client, self._bed)
        for plan in self.plans:
            client_process, server = self._clients[plan.name], self._servers.get(plan.name)
            output = await client_process.output(self._bed, plan.seconds + SPARE_S)
            if failure := client_process.wrong_end():
                meant = TOOLS[plan.kind].failed
                raise meant(plan, client_process.status, output.stdout, output.stderr) if meant else failure
            commands = (*((server.command(),) if server else ()), client_process.command())
            self._ran.append(ToolRan(plan, self._versions[plan.name], commands, output))

    def failure(self) -> LabError | None:
        """The first server that is over while it is needed; None while all run."""
        return next((failure for one in self._servers.values() if (failure := one.failure())), None)

    async def stop(self) -> list[ToolRan]:
        """What the tools that finished wrote; all processes have ended."""
        try:
            for server in self._servers.values():
                server.tell_to_stop()
            for server in self._servers.values():
                await server.output(self._bed, END_S)
        finally:
            await self.kill()
        return self._ran

    async def kill(self) -> None:
        """End what still runs."""
        for process in (*self._clients.values(), *self._servers.values()):
            await process.kill()
        self._clients, self._servers = {}, {}

    async def _server(self, plan: ToolPlan, process: LoadProcess) -> RunningProcess:
        try:
            return await RunningProcess.start(f"probe {plan.name}", process, self._bed)
        except NotReadyError as error:
            meant = TOOLS[plan.kind].unready
            raise meant(plan) if meant else error from None

    async def _version(self, plan: ToolPlan) -> str:
        """The client's version. UnavailableError: the tool is not there, or not one that does what the plan asks."""
        kind = TOOLS[plan.kind]
        host, where = self._bed.hosts[plan.asker], f"probes.{plan.name}"
        said = await host.run(kind.version, check=False)
        printed = said.stdout + said.stderr
        try:
            version = kind.version_of(printed)
        except ValueError as error:
            program = kind.asks[0]
            package = PACKAGES.get(program, program)
            raise UnavailableError(
                f"{plan.kind} on {plan.asker} cannot be used: {error}",
                where=where,
                remedy=f"another version of {package}: {install_remedy(program)}",
            ) from None
        if lack := kind.unbuilt(plan, printed):
            raise UnavailableError(f"{plan.kind} on {plan.asker} {lack.what}", where=where, remedy=lack.remedy)
        return version
