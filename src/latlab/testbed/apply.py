"""A test bed: steps applied one after the other, and all of them undone at the end, whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeVar

from latlab.hosts import Host, Process, host_from
from latlab.model.errors import LabError, SnapshotError, StartError, UnreachedError, after_that
from latlab.testbed.awaited import Awaited, Tell
from latlab.testbed.journal import Journal, ProcessRecord, Record
from latlab.testbed.process import MARK, end_process
from latlab.testbed.read_back import read_back
from latlab.testbed.running_service import RunningService
from latlab.testbed.service import Service
from latlab.testbed.step import Argv, Step, StepResult, fill
from latlab.testbed.undo import raise_together, undo_journal

T = TypeVar("T")

BY_HAND = "`latlab plan` prints every command, so that you can run it manually"
CAUSE_POLLS = 15
CAUSE_POLL_S = 0.02


class TestBed:
    """The machine as a run has changed it. Leaving the context undoes everything, in reverse order.

    hosts are those that the steps name; run names the journal. results has every step applied so far. tell: called for
    what takes long.
    """

    __test__ = False  # the name starts like a test class; pytest leaves it alone

    def __init__(self, run: str, hosts: Mapping[str, Host], tell: Tell = lambda what, seconds: None) -> None:
        self.hosts = hosts
        self.awaited = Awaited(tell)
        """`with bed.awaited("what it is")`: where that takes long, the listener is informed."""
        self.results: list[StepResult] = []
        self._lasting: list[Step] = []
        self._services: dict[int, RunningService] = {}
        self._journal = Journal.create(run)

    async def __aenter__(self) -> TestBed:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.undo_all()
        except (LabError, asyncio.CancelledError) as then:
            if error is None:
                raise
            raise after_that(error, then) from None
        finally:
            self._journal.close()

    async def apply(self, steps: Sequence[Step | Service]) -> list[StepResult]:
        """What became of each step and service. LabError at the first that fails: host, command, expected and actual.

        StartError: a service did not get ready, and may the next time: it hung as it booted, or its snapshot did not
        serve, and is removed.
        A cancellation waits for the step under way, so that no command runs on behind the clean-up. It does not wait
        until a service is ready, which clean-up ends.
        """
        first = len(self.results)
        for step in steps:
            try:
                with self.awaited(step.title):
                    await (self._serve(step) if isinstance(step, Service) else to_the_end(self._apply(step)))
            except StartError:
                raise
            except LabError as error:
                raise await self.cause_of(error) from None
        return self.results[first:]

    async def spawn(
        self,
        host: Host,
        title: str,
        argv: Sequence[str],
        *,
        stdout: int | None = asyncio.subprocess.PIPE,
        stderr: int | None = asyncio.subprocess.PIPE,
    ) -> tuple[Process, int | None]:
        """The process, as from Host.spawn, and the number under which it is journalled: `settle` it once it has ended.

        It was in the journal, by its mark, before it began: however the lab ends, clean-up finds it, and
        every child that inherited its environment. What runs on a machine in virtual time goes with that, and is not.
        """
        if host.turns:
            return await host.spawn(argv, stdout=stdout, stderr=stderr), None
        mark = secrets.token_hex(8)
        n = self._journal.record_process(host, title, mark)
        return await host.spawn(argv, env={MARK: mark}, stdout=stdout, stderr=stderr), n

    def settle(self, n: int | None) -> None:
        """Note that the process journalled as n has ended, alone or by its owner."""
        if n is not None:
            self._journal.undone(n)

    async def undo_all(self) -> list[str]:
        """What was undone, in words, last done first. LabError lists all failures, after the rest was undone.

        A cancellation waits until all is undone.
        """
        with self.awaited("undo the test bed"):
            words, failures = await to_the_end(undo_journal(self._journal, self._host_of, self._end, own=True))
        raise_together("the test bed was not undone completely", failures)
        return words

    async def check_again(self) -> list[StepResult]:
        """What every lasting or closing step's check reads now, `ok` where it is as expected; command is the check's.

        Only of steps that were as expected when they were applied: the others are findings already. Of what has ended
        with its host nothing is read.
        """
        again = []
        for step in self._lasting:
            assert step.check
            if self.is_gone(step.about or step.host):
                continue
            again.append(await self._checked(step, time.monotonic(), step.check.argv))
        return again

    def failure(self) -> LabError | None:
        """Why a service has ended that should run; None while all do."""
        return next((running.failure() for running in self._ended()), None)

    def is_gone(self, host: str) -> bool:
        """Whether what carries the host, or the machine it is on, has ended: nothing there can be asked any more."""
        return any(self._carries(running, host) for running in self._ended())

    async def cause_of(self, error: LabError) -> LabError:
        """The error; where a service has ended, that is the first cause, and the error is reported after it.

        What comes from a host that has ended is not reported again. Whoever speaks through a guest's QEMU may hear of
        its end before the QEMU has ended. A machine that runs and is silent forever is ended: that is the cause, too.
        """
        await self._give_up_lost()
        for _ in range(CAUSE_POLLS):
            if self._cause(error) or not self._services:
                break
            await asyncio.sleep(CAUSE_POLL_S)
        else:
            await self._give_up_silent(error)
        return self._cause(error) or error

    def _cause(self, error: LabError) -> LabError | None:
        """The error as it is reported after why a service has ended; None while all run that should."""
        hosts = error.where.split(", ")
        latest = {running.carries: running for running in self._services.values()}
        # One that a later step is to end should run until the same is carried by another.
        passing = [running for running in latest.values() if running.passing and running.ended()]
        causes = [*self._ended(), *(running for running in passing if any(self._carries(running, at) for at in hosts))]
        if not causes:
            return None
        cause = causes[0].failure()
        if all(any(self._carries(running, host) for running in causes) for host in hosts):
            return cause
        told = after_that(cause, error)
        return told if isinstance(told, LabError) else cause

    async def _give_up_lost(self) -> None:
        """End the machines that are known to be lost: what runs on them has ended for no other reason."""
        for running in list(self._services.values()):
            if running.carries and not running.ended() and (lost := self.hosts[running.carries].lost):
                await running.give_up(lost)

    async def _give_up_silent(self, error: LabError) -> None:
        """End the machine that the error is from, if it is silent forever."""
        for running in list(self._services.values()):
            if running.ended() or not any(self._carries(running, host) for host in error.where.split(", ")):
                continue
            if running.carries and (lost := await self.hosts[running.carries].silence()):
                await running.give_up(lost)

    def _carries(self, running: RunningService, host: str) -> bool:
        """Whether the host ends when that service ends."""
        if running.carries is None:
            return False
        return running.carries in (host, self.hosts[host].machine.name if host in self.hosts else host)

    def _ended(self) -> list[RunningService]:
        return [running for running in self._services.values() if running.ended() and not running.passing]

    async def _serve(self, service: Service) -> None:
        host = self.hosts[service.host]
        begun = time.monotonic()
        running = await to_the_end(self._begin(host, service))
        actual = await running.until_ready()
        expected = service.ready.expected if service.ready else None
        result = StepResult(
            host=service.host,
            title=service.title,
            command=host.command_line(service.argv),
            seconds=time.monotonic() - begun,
            expected=expected,
            actual=actual,
            ok=actual == expected,
        )
        self.results.append(result)
        if not result.ok:
            error = running.not_ready(actual)
            if service.passing and not running.ended():
                # An emulated machine whose timer's interrupt was lost waits for it forever; that is rare.
                raise StartError(error, which=service.title, again=f"starting again: {service.title} did not finish")
            if (snapshot := running.refused) is None:
                raise error
            with contextlib.suppress(OSError):
                snapshot.unlink(missing_ok=True)
            raise SnapshotError(snapshot, error)

    async def _begin(self, host: Host, service: Service) -> RunningService:
        running, n = await RunningService.start(self, host, service)
        self._services[-1 - len(self._services) if n is None else n] = running
        return running

    async def _end(self, host: Host, record: ProcessRecord) -> bool:
        """Whether there was anything to end; it has been ended: a service of ours by its handle, which is quickest."""
        running = self._services.pop(record.n, None)
        if running and await running.end():
            return True
        if running and running.passed():
            return False
        return await end_process(host, record.mark)

    def _host_of(self, record: Record) -> Host:
        live = self.hosts.get(str(record.host.get("name")))
        return live if live and live.describe() == record.host else host_from(record.host)

    async def _apply(self, step: Step) -> None:
        host = self.hosts[step.host]
        begun = time.monotonic()
        why, said = None, ""
        try:
            said = await self._change(host, step)
        except LabError as error:
            if not step.optional:
                raise _of_step(await _explained(error, host, step), step) from None
            why = _came_back(error, host, step)
        if step.closing:
            self._lasting.append(step)
            return
        result = await self._checked(step, begun, step.do or (step.check.argv if step.check else ()), why, said)
        self.results.append(result)
        if result.ok and step.lasting:
            self._lasting.append(step)
        if not result.ok and not step.optional and step.check:
            read = self.hosts[step.check.at or step.host].command_line(step.check.argv)
            differs = f"expected {result.expected!r}, actual {result.actual!r}"
            raise LabError(f"{step.title}: `{read}` {differs}", where=step.host, remedy=step.check.remedy or BY_HAND)

    async def _change(self, host: Host, step: Step) -> str:
        """What the step's command said on stderr; it is done, its undo in the journal before it."""
        if step.present and (await host.run(step.present, check=False)).returncode == 0:
            raise LabError(
                f"{step.title}: it exists already, and this run did not make it",
                where=step.host,
                remedy="`latlab clean`; or remove it manually if another program left it",
            )
        if step.undo and not host.fleeting:
            before = step.before
            values = before.read((await host.run(before.argv)).stdout) if before else {}
            self._journal.record(host, step.title, fill(step.undo, values), step.present, step.rescue)
        marked = {MARK: self._journal.mark} if step.undo else None
        return (await host.run(step.do, env=marked, timeout_s=step.within_s)).stderr.strip() if step.do else ""

    async def _checked(
        self, step: Step, begun: float, command: Argv, why: str | None = None, said: str = ""
    ) -> StepResult:
        """The step's result by what its check reads now.

        begun: time.monotonic(). why: what has failed already. said: by the step's command, whatever its exit status.
        """
        host, check = self.hosts[step.host], step.check
        actual = None
        expected = check.expected if check else None
        try:
            # What has failed will not come to be.
            asked = self.hosts[check.at] if check and check.at else host
            # Whoever asks another may wait for what the host does meanwhile; else a machine in virtual time stands
            # still between two looks.
            with host.waiting() if check and check.at else contextlib.nullcontext():
                actual = await read_back(asked, replace(check, within_ms=0) if why else check) if check else None
        except LabError as error:
            if not step.optional:
                raise
            why = why or error.what
        if why is None and actual != expected:
            why = f"read back: {actual}" + (f"; output: {said}" if said else "")
        return StepResult(
            host=step.host,
            title=step.title,
            command=host.command_line(command),
            seconds=time.monotonic() - begun,
            expected=expected,
            actual=actual,
            ok=why is None,
            why=why,
        )


async def _explained(error: LabError, host: Host, step: Step) -> LabError:
    """The error; with what the step knows to ask there, where a command of it has failed on a host that answers."""
    if step.explain is None or isinstance(error, UnreachedError):
        return error
    try:
        output = (await host.run(step.explain.argv, check=False)).stdout
    except LabError:
        return error
    return LabError(error.what, where=error.where, remedy=step.explain.read(output), parts=error.parts)


def _of_step(error: LabError, step: Step) -> LabError:
    """The error, with what the step was to do and what to do next."""
    what = error.what if error.what.startswith(f"{step.title}: ") else f"{step.title}: {error.what}"
    return LabError(what, where=error.where, remedy=error.remedy or BY_HAND, parts=error.parts)


def _came_back(error: LabError, host: Host, step: Step) -> str:
    """The error without the command, which the step's result has."""
    what = error.what.removeprefix(f"{step.title}: ")
    for argv in (step.do, step.before.argv if step.before else ()):
        what = what.removeprefix(f"`{host.command_line(argv)}` ")
    return what


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """The result of work, which runs to its end even when the caller is cancelled; that is raised then."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        failure = None if task.cancelled() else task.exception()
        raise after_that(asyncio.CancelledError(), failure) if failure else asyncio.CancelledError
    return task.result()
