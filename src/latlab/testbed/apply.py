"""A test bed: steps applied and services started one after the other, and all of them undone at the end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shlex
import signal
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from latlab.hosts import Host, LostMachine, host_from
from latlab.model.errors import LabError, LatlabError, SnapshotError, StartError, UnreachedError, after_that
from latlab.testbed.images import mark_used
from latlab.testbed.journal import Journal, ProcessRecord, Record
from latlab.testbed.step import Argv, Before, Check, Service, Step, StepResult, fill
from latlab.testbed.supervised import Supervised
from latlab.testbed.undo import MARK, end_process, raise_together, undo_journal

if TYPE_CHECKING:
    from latlab.hosts.turns import Turns

T = TypeVar("T")

BY_HAND = "`latlab plan` prints every command, so that you can run it manually"
OTHER_VERSION = "run it manually: another version of the program may print something else"
PRINTED = 200
"""How much of what a program printed is quoted."""
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
    ) -> Supervised:
        """The process, as from Host.spawn: whoever started it kills it, or settles it once it has ended.

        It was in the journal, by its mark, before it began: however the lab ends, clean-up finds it, and
        every child that inherited its environment. What runs on a machine in virtual time goes with that, and is not.
        """
        if host.turns:
            return Supervised(host, await host.spawn(argv, stdout=stdout, stderr=stderr), None, self._journal.undone)
        mark = secrets.token_hex(8)
        n = self._journal.record_process(host, title, mark)
        process = await host.spawn(argv, env={MARK: mark}, stdout=stdout, stderr=stderr)
        return Supervised(host, process, n, self._journal.undone)

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
        with its host nothing is read. What one host has is read by one command; what is not as expected then, alone.
        """
        again = []
        there = [step for step in self._lasting if not self.is_gone(step.about or step.host)]
        for _, of_host in groupby(there, key=lambda step: step.host):
            steps = list(of_host)
            begun = time.monotonic()
            found = await self._read_at_once(steps)
            for step, actual in zip(steps, found, strict=True):
                assert step.check
                if actual == step.check.expected:
                    again.append(self._result(step, begun, step.check.argv, actual, None))
                elif not self.is_gone(step.about or step.host):
                    again.append(await self._checked(step, time.monotonic(), step.check.argv))
        return again

    async def _read_at_once(self, steps: Sequence[Step]) -> list[str | None]:
        """What the checks of a host's steps read, all by one command there; None: that is not known."""
        checks = [step.check for step in steps if step.check and not step.check.at]
        unknown: list[str | None] = [None] * len(steps)
        if len(checks) < len(steps) or len(steps) == 1:
            return unknown
        try:
            done = await self.hosts[steps[0].host].run(read_at_once(checks), timeout_s=ALL_CHECKS_S)
            *found, rest = done.stdout.split("\0")
            if rest or len(found) != 2 * len(checks):
                return unknown
            outputs = zip(checks, found[::2], found[1::2], strict=True)
            return [check.read(said) if status == "0" else None for check, said, status in outputs]
        except (LabError, ValueError, LookupError, TypeError):
            return unknown

    def failure(self) -> LabError | None:
        """Why a service has ended that should run; None while all do."""
        return next((running.failure() for running in self._ended()), None)

    def is_gone(self, host: str) -> bool:
        """Whether what carries the host, or the machine it is on, has ended: nothing there can be asked any more."""
        return any(self._carries(running, host) for running in self._ended())

    async def all_of_these(self, *works: Coroutine[Any, Any, object], after: BaseException | None = None) -> None:
        """Run all works one after the other, whatever became of those before, a cancellation included.

        The first failure is raised, with the others in its text; `after` failed before them all.
        """
        first = after
        for work in works:
            try:
                await to_the_end(work)
            except (LatlabError, OSError, asyncio.CancelledError) as error:
                then = await self.cause_of(error) if isinstance(error, LabError) else error
                first = after_that(first, then) if first else then
        if first:
            raise first

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
        running = await RunningService.start(self, host, service)
        n = running.process.record
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
            read = self.hosts[step.check.at or step.host].short_line(step.check.argv)
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
            values = await _former(host, step.before) if step.before else {}
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
        return self._result(step, begun, command, actual, why)

    def _result(self, step: Step, begun: float, command: Argv, actual: str | None, why: str | None) -> StepResult:
        return StepResult(
            host=step.host,
            title=step.title,
            command=self.hosts[step.host].command_line(command),
            seconds=time.monotonic() - begun,
            expected=step.check.expected if step.check else None,
            actual=actual,
            ok=why is None,
            why=why,
        )


async def _former(host: Host, before: Before) -> Mapping[str, str]:
    """Names and values of what stood before a step. LabError: they cannot be read."""
    output = (await host.run(before.argv)).stdout
    try:
        return before.read(output)
    except (ValueError, LookupError, TypeError) as error:
        raise LabError(
            f"`{host.short_line(before.argv)}` printed {output.strip()[:PRINTED]!r}: {error}",
            where=host.name,
            remedy=OTHER_VERSION,
        ) from None


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
        what = what.removeprefix(f"`{host.short_line(argv)}` ")
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


# What takes long reports it: what is waited for, and how long by now.


FIRST_S = 10.0
"""What is over by then is not worth a line."""
AGAIN_S = 30.0
Tell = Callable[[str, float], None]
"""Called with what is waited for, and for how many seconds by now."""


class Awaited:
    """What is waited for at one place; within it, more precisely, something else may be."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._within: list[object] = []

    @contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        """Report `what` after FIRST_S, and every AGAIN_S from then on: unless something is waited for within it."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        one = object()

        async def tell_again() -> None:
            await asyncio.sleep(FIRST_S)
            while True:
                if self._within[-1] is one:
                    self._tell(what, loop.time() - begun)
                await asyncio.sleep(AGAIN_S)

        self._within.append(one)
        telling = loop.create_task(tell_again())
        try:
            yield
        finally:
            telling.cancel()
            self._within.remove(one)


# Reading a step's outcome back.


POLL_S = 0.01
VIRTUAL_POLL_S = 0.1
"""Of a machine in virtual time, whose pauses cost nothing and whose answers do."""
SHORTEST_S = 30.0
ALL_CHECKS_S = 60.0


def read_at_once(checks: Sequence[Check]) -> Argv:
    """The command that runs all of them: it writes what each says and its exit status, with a zero byte after either.

    It writes all of that in one piece: a machine in virtual time ends its turn whenever it has something to say.
    """
    script = "\n".join(f"{shlex.join(check.argv)}; printf '\\000%s\\000' $?" for check in checks)
    return ("sh", "-c", f"{{ {script}\n}} | dd obs=65536 2>/dev/null")


async def read_back(host: Host, check: Check) -> str:
    """The actual value; the last one read when it never became the expected one in the time it has."""
    deadline = time.monotonic() + host.patience * check.within_ms / 1000
    while True:
        done = await host.run(check.argv, check=False, timeout_s=max(SHORTEST_S, check.within_ms / 1000))
        try:
            actual = (
                check.read(done.stdout) if done.returncode == 0 else f"status {done.returncode}: {done.stderr.strip()}"
            )
        except (ValueError, LookupError, TypeError):
            actual = f"unreadable: {done.stdout.strip()[:PRINTED]}"
        if actual == check.expected or time.monotonic() >= deadline:
            return actual
        # By the host's own clock: a machine in virtual time runs as long as anything waits for something on it, and
        # must not be asked again at an instant of this machine's.
        await host.pause(VIRTUAL_POLL_S if host.turns else POLL_S)


# A service while it runs: started, waited for until it is ready, watched, and ended.


TERM_S = 2.0
CANCEL_S = 0.5
ENDED_BY_OTHERS = (-signal.SIGTERM, -signal.SIGINT, -signal.SIGKILL)
LAST_LINES = 12
LAST_BYTES = 1 << 16
PANIC = "Kernel panic - not syncing: "


class RunningService:
    """One service on its host; whatever it writes goes to its log."""

    def __init__(self, asked: Host, service: Service, process: Supervised) -> None:
        self.process = process
        self._host = process.host
        self._asked = asked
        self._service = service
        self._given_up: tuple[LostMachine, str] | None = None
        """Why it was ended although it ran, and its last words until then."""

    @classmethod
    async def start(cls, bed: TestBed, host: Host, service: Service) -> RunningService:
        """The service, begun."""
        log = Path(service.log)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            process = await bed.spawn(host, service.title, service.argv, stdout=output.fileno(), stderr=output.fileno())
        if service.incoming:
            mark_used(service.incoming)
        asked = bed.hosts[service.ready.at] if service.ready and service.ready.at else host
        if service.spec is not None:
            process.say(service.spec)
        return cls(asked, service, process)

    async def until_ready(self) -> str | None:
        """What its check read at last; None without a check, or when it ended before that."""
        if self._service.ready is None:
            return None
        if self._host.turns and not self._asked.turns:
            return await self._after_each(self._host.turns, self._service.ready)
        reading = asyncio.ensure_future(read_back(self._asked, self._service.ready))
        ended = asyncio.ensure_future(self.process.wait())
        try:
            await asyncio.wait((reading, ended), return_when=asyncio.FIRST_COMPLETED)
            return reading.result() if reading.done() else None
        finally:
            # One may get lost: asyncio.wait_for of Python 3.11 drops it when what it waits for ends at that moment.
            while left := {future for future in (reading, ended) if not future.done()}:
                for future in left:
                    future.cancel()
                await asyncio.wait(left, timeout=CANCEL_S)
            await asyncio.gather(reading, ended, return_exceptions=True)

    async def _after_each(self, turns: Turns, check: Check) -> str | None:
        """What its check reads here at last, which looks after each turn of the machine in virtual time it is on.

        The machine halts meanwhile: by which turn it is ready does not depend on when this machine looked.
        """
        actual = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._host.patience * check.within_ms / 1000):
                while (actual := await read_back(self._asked, replace(check, within_ms=0))) != check.expected:
                    if self.ended():
                        return None
                    await turns.take_one()
        return actual

    @property
    def passing(self) -> bool:
        """Whether a later step ends it."""
        return self._service.passing

    @property
    def carries(self) -> str | None:
        """The host that ends with it."""
        return self._service.carries

    @property
    def refused(self) -> Path | None:
        """The snapshot from which it did not get ready, unless it was ended; None where it resumes from none."""
        return None if self.process.status in ENDED_BY_OTHERS else self._service.incoming

    def passed(self) -> bool:
        """Whether a later step has ended it, as it was to, and nothing of it is left."""
        return self.passing and self.process.status == 0

    def ended(self) -> bool:
        """Whether it runs no more."""
        return self.process.ended

    async def give_up(self, lost: LostMachine) -> None:
        """End it, as whom it carries is silent forever."""
        self._given_up = lost, self._last_words()
        await self.end()

    def failure(self) -> LabError:
        """Why it ended, by its last words."""
        status = self.process.status
        how = f"was ended by signal {-status}" if status is not None and status < 0 else f"ended with status {status}"
        said = self._last_words()
        if self._given_up:
            lost, said = self._given_up
            if lost.remedy:
                return LabError(lost.why, where=str(self.carries), remedy=lost.remedy)
            how = f"runs, but {self.carries} is lost: {lost.why}"
        panic = panic_of(Path(self._service.console)) if self._service.console else None
        cause = f": its kernel panicked: {panic}" if panic else ""
        return LabError(
            f"{self._service.title}: `{self._service.program}` {how}{cause}{said}",
            where=self._host.name,
            remedy=self._remedy(),
        )

    def not_ready(self, actual: str | None) -> LabError:
        """Why it never got ready."""
        check = self._service.ready
        if self.ended() or check is None:
            return self.failure()
        read = self._asked.short_line(check.argv)
        within = f"within {check.within_ms / 1000:g} s"
        return LabError(
            f"{self._service.title}: `{read}` expected {check.expected!r} {within}, actual {actual!r}"
            + self._last_words(),
            where=self._host.name,
            remedy="; ".join(filter(None, (check.remedy, self._remedy()))),
        )

    async def end(self) -> bool:
        """Whether it still ran; it has been stopped, and all of its process group has ended."""
        return await self.process.end(TERM_S)

    def _remedy(self) -> str:
        said = " and ".join(filter(None, (self._service.console, self._service.log)))
        return f"its whole output is in {said}"

    def _last_words(self) -> str:
        """The last lines of its console and of its log; empty when there are none."""
        said = ""
        for name, path in (("console", self._service.console), ("log", self._service.log)):
            if path and (lines := last_lines(Path(path))):
                said += f"\n  the last lines of its {name}, {path}:\n" + "\n".join(f"    {line}" for line in lines)
        return said


def panic_of(console: Path) -> str | None:
    """What a guest's kernel said as it panicked (kernel: kernel/panic.c); None when it did not."""
    found = [line.partition(PANIC)[2] for line in _lines(console) if _tells_of_panic(line)]
    return found[-1] if found else None


def last_lines(path: Path) -> list[str]:
    """The last lines that say something, of a file that may not be there; control characters are left out.

    A kernel that panics says why and then where it was, which is long: what it said until then is reported.
    """
    lines = _lines(path)
    panics = [at for at, line in enumerate(lines) if _tells_of_panic(line)]
    return lines[: panics[-1] + 1 if panics else None][-LAST_LINES:]


def _tells_of_panic(line: str) -> bool:
    """A kernel that does not start again says it again at the end."""
    return PANIC in line and "end Kernel panic" not in line


def _lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - LAST_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    lines = ("".join(c for c in line if c.isprintable()).rstrip() for line in text.splitlines())
    return [line for line in lines if line]
