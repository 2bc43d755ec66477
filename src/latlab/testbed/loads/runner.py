"""All loads of a cell: on before the talkers start, off after the last packet, what they achieved."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

from latlab.model.errors import LabError, rejection_remedy
from latlab.model.units import SECOND_NS
from latlab.recordings.cell import Load, Ready
from latlab.scenario import Scenario
from latlab.testbed.apply import BY_HAND, TestBed
from latlab.testbed.loads import LOADS
from latlab.testbed.loads.base import LoadPlan, LoadProcess, Output, load_entry
from latlab.testbed.site import Site
from latlab.testbed.step import WITH_ITS_LAB, Argv
from latlab.testbed.supervised import Supervised
from latlab.testbed.tuning.threads import pid_file

FLOWS_S = 30.0
# A guest in software emulation takes up to 0.1 s of its CPU for each look, which its load does not have meanwhile. In
# virtual time a look takes some milliseconds, and it is the time between them that is emulated.
POLL_S, VIRTUAL_POLL_S = 0.2, 0.02
# Each more than what the tools say to each other on their control connection before the load itself.
FLOWING_PACKETS = 8
FLOWING_BYTES = 4096
KVM_EXITS = "exits by KVM's count"


class LoadRunner:
    """The loads of one cell on a test bed."""

    def __init__(
        self,
        bed: TestBed,
        plans: Sequence[LoadPlan],
        exits: Mapping[str, ExitCounter] = MappingProxyType({}),
        wait_ns: Callable[[str, int], int] | None = None,
    ) -> None:
        """exits: where the exits of guests are counted, by guest. wait_ns: how long to wait before an instance of
        a load starts.
        """
        self._wait_ns = wait_ns
        self._bed = bed
        self._exits = exits
        self._exits_before: dict[str, tuple[float, int]] = {}
        self._plans = plans
        self._running: list[tuple[LoadPlan, list[RunningProcess]]] = []
        self._versions: dict[str, str] = {}
        self._begun = 0.0

    async def start(self) -> None:
        """Start every load, and wait until its traffic flows. LabError, with all processes ended, when one does not."""
        try:
            for plan in self._plans:
                with self._bed.awaited(f"load {plan.name} starts"):
                    await self._start(plan)
        except BaseException:
            await self.kill()
            raise

    def failure(self) -> LabError | None:
        """The first load that ended before it was to stop; None while all run."""
        for plan, running in self._running:
            for process in running:
                if process.plan.ending != "itself" or self._early(plan):
                    failure = process.failure()
                    if failure:
                        return failure
        return None

    async def stop(self) -> list[Load]:
        """What each load achieved; all processes have ended. LabError with its stderr when one died before."""
        failure = self.failure()
        if failure:
            await self.kill()
            raise failure
        try:
            return [await self._stop(plan, running) for plan, running in self._running]
        finally:
            await self.kill()

    async def kill(self) -> None:
        """End what still runs, and remove its output."""
        for _, running in self._running:
            for process in running:
                await process.kill()
        self._running = []

    async def _start(self, plan: LoadPlan) -> None:
        kind = LOADS[plan.kind]
        if kind.version and plan.kind not in self._versions:
            said = await self._bed.hosts[plan.source].run(kind.version, check=False)
            self._versions[plan.kind] = said.stdout.strip()
        running: list[RunningProcess] = []
        self._running.append((plan, running))
        before = 0 if plan.work else await self._sent(plan)
        self._begun = self._begun or time.monotonic()
        for number, process in enumerate(kind.processes(plan)):
            if self._wait_ns and process.role == "source":
                await self._bed.hosts[plan.source].pause(self._wait_ns(plan.name, number) / SECOND_NS)
            running.append(await RunningProcess.start(f"load {plan.name}", process, self._bed))
        if not plan.work:
            await self._until_flowing(plan, before)
        counter = self._exits.get(plan.source)
        if counter and (exits := await counter.read(self._bed)) is not None:
            self._exits_before[plan.name] = (time.monotonic(), exits)

    async def _until_flowing(self, plan: LoadPlan, before: int) -> None:
        source = self._bed.hosts[plan.source]
        within_s = FLOWS_S * source.patience
        deadline = time.monotonic() + within_s
        enough = before + plan.instances * max(FLOWING_PACKETS * (plan.size or 0), FLOWING_BYTES)
        sources = [process for process in self._running[-1][1] if process.plan.role == "source"]
        while await self._sent(plan) < enough:
            failure = self.failure()
            if failure:
                raise failure
            if time.monotonic() > deadline:
                said = "".join(source.said() for source in sources)
                raise LabError(
                    f"load {plan.name}: no traffic left {plan.source_interface} within {within_s:g} s{said}",
                    where=plan.source,
                    remedy=_nothing_flows(sources, said),
                )
            await source.pause(VIRTUAL_POLL_S if source.turns else POLL_S)

    async def _sent(self, plan: LoadPlan) -> int:
        """The bytes that have left by the load's interface since it exists."""
        counter = f"/sys/class/net/{plan.source_interface}/statistics/tx_bytes"
        return int((await self._bed.hosts[plan.source].run(("cat", counter))).stdout)

    async def _stop(self, plan: LoadPlan, running: list[RunningProcess]) -> Load:
        outputs: dict[int, Output] = {}
        exits_per_s = await self._exits_per_s(plan)
        # Sources first: a server's count is whole only once nothing is sent any more.
        for role in ("source", "server"):
            mine = [process for process in running if process.plan.role == role]
            for process in mine:
                # An iperf3 server ends with its client, and interrupting it would lose its counts.
                if role == "source" or process.plan.ending != "interrupt":
                    process.tell_to_stop()
            for process in mine:
                outputs[id(process)] = await process.output(self._bed, self._patience(plan, process))
        ordered = [outputs[id(process)] for process in running]
        try:
            achieved = LOADS[plan.kind].parse(plan, ordered)
        except (ValueError, LookupError, ZeroDivisionError) as error:
            said = "; ".join(output.stderr.strip() or output.stdout.strip()[-200:] for output in ordered)
            raise LabError(
                f"load {plan.name}: its result cannot be read ({error!r}): {said}",
                where=plan.source,
                remedy="see what the program printed; `latlab plan` has its command, to try it manually",
            ) from None
        achieved = replace(achieved, work_per_s={**achieved.work_per_s, **exits_per_s})
        if not achieved.version:
            achieved = replace(achieved, version=self._versions.get(plan.kind, ""))
        return load_entry(plan, [process.command() for process in running], achieved)

    async def _exits_per_s(self, plan: LoadPlan) -> dict[str, float]:
        """Of the guest that the load starts at, whatever it exits for, as KVM counted since the load began."""
        before = self._exits_before.get(plan.name)
        if before is None or (now := await self._exits[plan.source].read(self._bed)) is None:
            return {}
        begun, exits = before
        return {KVM_EXITS: (now - exits) / (time.monotonic() - begun)}

    def _patience(self, plan: LoadPlan, process: RunningProcess) -> float:
        if process.plan.ending != "itself":
            return END_S
        return END_S + max(0.0, self._begun + plan.seconds - time.monotonic())

    def _early(self, plan: LoadPlan) -> bool:
        return time.monotonic() < self._begun + plan.seconds


def _nothing_flows(sources: Sequence[RunningProcess], said: str) -> str:
    """What to do where a load's sources run and send nothing."""
    towards = ", ".join(dict.fromkeys(source.plan.towards for source in sources if source.plan.towards))
    dropped = f"check whether a firewall drops {towards} (`nft list ruleset`, `iptables -S`)" if towards else ""
    return next(filter(None, (source.remedy(said) for source in sources)), dropped)


# How often a guest has left for its hypervisor, as KVM counts it on the guest's host.


READ = 'cat "/sys/kernel/debug/kvm/$(cat "$0")"-*/exits'
"""Prints the exits of the guest whose QEMU's pid is in the file $0. A folder of a VM is PID-FD (kvm_create_vm_debugfs,
virt/kvm/kvm_main.c); `exits` of all its vCPUs together."""


@dataclass(frozen=True)
class ExitCounter:
    """Where a guest's exits are counted: the machine, as a host of the test bed, and what prints them there."""

    machine: str
    argv: Argv

    async def read(self, bed: TestBed) -> int | None:
        """Exits since the guest was started; None where KVM does not report it: an emulated one, or no debugfs."""
        said = await bed.hosts[self.machine].run(self.argv, check=False)
        text = said.stdout.strip()
        return int(text) if said.returncode == 0 and text.isdecimal() else None


def exit_counters(scenario: Scenario, site: Site) -> Mapping[str, ExitCounter]:
    """By guest, for those that some load starts at."""
    sources = {getattr(load, "from_", None) or getattr(load, "on", None) for load in scenario.loads.values()}
    found = {}
    for name, guest in scenario.guests.items():
        if name in sources:
            there = site.on(scenario.machine_of(name))
            found[name] = ExitCounter(there.name, ("sh", "-c", READ, pid_file(name, guest, there)))
    return found


# One process of a load, or of a tool that measures: started, ready, stopped, its output collected.


READY_S = 30.0
END_S = 10.0
READY_POLL_S, VIRTUAL_READY_POLL_S = 0.1, 0.02
CHUNK = 65_536
WORDS = 5  # lines of a process's last output that an error quotes
START_LEAD_NS = 20_000_000  # enough for the line to arrive before the instant it names

SIGNALS = {"interrupt": signal.SIGINT, "terminate": signal.SIGTERM}


class NotReadyError(LabError):
    """A process runs, and has not become ready in time."""


class RunningProcess:
    """A process, journalled while it lives. of: whose it is, as errors say it: `load netperf3`, `probe rr`."""

    def __init__(self, of: str, plan: LoadProcess, process: Supervised) -> None:
        self.plan = plan
        self.host = process.host
        self._of = of
        self._process = process
        self._lines: list[str] = []
        self._ready: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
        self._stderr = b""
        self._heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.gather(self._read_stdout(), self._read_stderr())

    @classmethod
    async def start(cls, of: str, plan: LoadProcess, bed: TestBed) -> RunningProcess:
        """The process, running and ready: it listens, or has said so. LabError when it does not get there."""
        host = bed.hosts[plan.host]
        # A tool is killed when the lab dies. latlab's agent ends on its own.
        argv = plan.argv if plan.spec is not None else (*WITH_ITS_LAB, "TERM", *plan.argv)
        running = cls(of, plan, await bed.spawn(host, f"{plan.role} of {of}", argv))
        try:
            with bed.awaited(f"{plan.role} of {of} on {host.name} gets ready"):
                await running._until_ready()
        except LabError as error:
            await running.kill()
            said = "" if running._ready.done() else running.said()
            raise type(error)(f"{error.what}{said}", where=error.where or host.name, remedy=error.remedy) from None
        except asyncio.CancelledError:
            await running.kill()
            raise
        return running

    async def _until_ready(self) -> None:
        """Wait until it listens, or has said that it is ready. LabError: it does not get there."""
        if self.plan.spec is not None:
            self._process.say(self.plan.spec)
            ready = await self._first(self._ready)
            if self.plan.role == "source":
                self._process.say({"start_tai_ns": ready.tai_ns + START_LEAD_NS})
            if self.plan.says:
                await self._first(self._heard)
        elif self.plan.tcp_port is not None:
            await self._first(asyncio.ensure_future(self._listens("t", self.plan.tcp_port)))
        elif self.plan.udp_port is not None:
            await self._first(asyncio.ensure_future(self._listens("u", self.plan.udp_port)))
        elif self.plan.says:
            await self._first(self._heard)

    def ended(self) -> bool:
        """Whether the process is over."""
        return self._process.ended

    @property
    def status(self) -> int:
        """Its exit status, below 0 of one that a signal ended; 0 while it runs."""
        return self._process.status or 0

    def failure(self) -> LabError | None:
        """Why the load is not running as it should: the process is over; None while it runs."""
        if not self.ended():
            return None
        return self._ended("ended early")

    def wrong_end(self) -> LabError | None:
        """Why a process that ended on its own failed; None where it succeeded."""
        if self._process.status == 0:
            return None
        return self._ended("ended")

    def _ended(self, how: str) -> LabError:
        said = self.said()
        what = f"{self._of}: `{self.command()}` {how} with status {self._process.status}{said}"
        return LabError(what, where=self.host.name, remedy=self.remedy(said))

    def remedy(self, said: str) -> str:
        """What to do where it said that its packets were rejected; empty where it did not."""
        return rejection_remedy(None, self.plan.towards, said) if self.plan.towards else ""

    def command(self) -> str:
        """The command as one would type it."""
        return self.host.command_line(self.plan.argv)

    def tell_to_stop(self) -> None:
        """Ask the process to end, in the way its kind understands."""
        if self.ended():
            return
        if self.plan.ending == "command":
            self._process.say({"stop": True})
        elif self.plan.ending in SIGNALS:
            self._process.signal(SIGNALS[self.plan.ending])

    async def output(self, bed: TestBed, within_s: float = END_S) -> Output:
        """All it wrote, once it has ended on request; LabError when it does not end in time."""
        within_s *= self.host.patience
        try:
            with self.host.waiting(), bed.awaited(f"{self.plan.role} of {self._of} on {self.host.name} ends"):
                async with asyncio.timeout(within_s):
                    await asyncio.shield(self._reading)
                    await self._process.wait()
        except TimeoutError:
            await self.kill()
            raise LabError(
                f"{self._of}: `{self.command()}` did not end within {within_s:g} s{self.said()}",
                where=self.host.name,
                remedy="see whether its peer still answers, and whether CPUs there are busy (`top`)",
            ) from None
        self._process.settle()
        return Output(self.plan, "\n".join(self._lines), self._stderr.decode(errors="replace"))

    async def kill(self) -> None:
        """Kill the process and its children."""
        await self._process.kill()
        await self._reading

    def said(self) -> str:
        """Its last words: stderr, and of a tool that writes its errors into its JSON, the end of that."""
        stderr = self._stderr.decode(errors="replace").strip().splitlines()
        stdout = self._lines if self.plan.spec is None or not stderr else []
        words = [line.strip() for line in (*stdout[-WORDS:], *stderr[-WORDS:]) if line.strip(" \t{}[],")]
        return f": {'; '.join(words)}" if words else ""

    async def _first(self, awaited: asyncio.Future[Any]) -> Any:
        """The result of awaited; LabError when the process ends or READY_S go by before it."""
        within_s = READY_S * self.host.patience
        try:
            with self.host.waiting():
                await asyncio.wait({awaited, self._reading}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            if awaited.done():
                return awaited.result()
        finally:
            awaited.cancel()
        if self._reading.done():
            await self._process.wait()
            raise LabError(f"{self._of}: `{self.command()}` ended before it was ready", remedy=BY_HAND)
        raise NotReadyError(f"{self._of}: `{self.command()}` was not ready within {within_s:g} s", remedy=BY_HAND)

    async def _listens(self, kind: Literal["t", "u"], port: int) -> None:
        # A connection would be taken for the client: the socket table is asked instead.
        while not (await self.host.run(("ss", f"-Hl{kind}n", f"sport = :{port}"))).stdout.strip():
            await self.host.pause(VIRTUAL_READY_POLL_S if self.host.turns else READY_POLL_S)

    async def _read_stdout(self) -> None:
        async for raw in self._process.stdout:
            line = raw.decode(errors="replace").rstrip("\n")
            self._lines.append(line)
            self._hear(line)
            if self.plan.spec is not None and not self._ready.done():
                self._take_event(line)

    def _take_event(self, line: str) -> None:
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            if event.get("event") == "ready":
                self._ready.set_result(Ready.model_validate(event))
            elif event.get("event") == "error":
                where = f"{self.host.name}: {self._of}: {event.get('where', '')}"
                what = str(event.get("what"))
                error = LabError(what, where=where, remedy=self.remedy(what) or str(event.get("remedy", "")))
                self._ready.set_exception(error)

    async def _read_stderr(self) -> None:
        while chunk := await self._process.stderr.read(CHUNK):
            self._stderr += chunk
            if not self._heard.done():
                self._hear(self._stderr.decode(errors="replace"))

    def _hear(self, said: str) -> None:
        if self.plan.says and self.plan.says in said and not self._heard.done():
            self._heard.set_result(None)
