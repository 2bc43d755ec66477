"""All loads of a cell: on before the talkers start, off after the last packet, what they achieved."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from latlab.model.errors import LabError
from latlab.recordings.cell import Load
from latlab.testbed.apply import TestBed
from latlab.testbed.loads.base import LoadPlan, Output, load_entry
from latlab.testbed.loads.kvm_exits import ExitCounter
from latlab.testbed.loads.running import END_S, RunningProcess
from latlab.testbed.loads.table import LOADS

SECOND_NS = 1_000_000_000
FLOWS_S = 30.0
# A guest in software emulation takes up to 0.1 s of its CPU for each look, which its load does not have meanwhile.
POLL_S = 0.2
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
                await process.kill(self._bed)
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
            await source.pause(POLL_S)

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
                f"load {plan.name}: its result cannot be read ({error!r}): {said}", where=plan.source
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
