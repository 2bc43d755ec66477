"""A test bed: steps applied one after the other, and all of them undone at the end, whatever happens."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from latlab.errors import LabError, after_that
from latlab.host import Host, host_from
from latlab.lab.journal import Journal, Record
from latlab.lab.process import MARK
from latlab.lab.step import Check, Step, StepResult, fill
from latlab.lab.undo import raise_together, undo_journal

T = TypeVar("T")

POLL_S = 0.01


class TestBed:
    """The machine as a run has changed it. Leaving the context undoes everything, in reverse order.

    hosts are those that the steps name; run names the journal. results has every step applied so far.
    """

    __test__ = False  # the name starts like a test class; pytest leaves it alone

    def __init__(self, run: str, hosts: Mapping[str, Host]) -> None:
        self.hosts = hosts
        self.results: list[StepResult] = []
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

    async def apply(self, steps: Sequence[Step]) -> list[StepResult]:
        """What became of each step. LabError at the first that fails: host, command, expected and actual.

        A cancellation waits for the step under way, so that no command runs on behind the clean-up.
        """
        first = len(self.results)
        for step in steps:
            await to_the_end(self._apply(step))
        return self.results[first:]

    async def spawn(self, host: Host, title: str, argv: Sequence[str]) -> tuple[asyncio.subprocess.Process, int]:
        """The process, as from Host.spawn, and the number under which it is journalled: `settle` it once it has ended.

        It was in the journal, by a mark of its own, before it began: however the lab ends, clean-up finds it, and
        every child that inherited its environment.
        """
        mark = secrets.token_hex(8)
        n = self._journal.record_process(host, title, mark)
        return await host.spawn(argv, env={MARK: mark}), n

    def settle(self, n: int | None) -> None:
        """Nothing; the process journalled as n has ended by itself or by its owner."""
        if n is not None:
            self._journal.undone(n)

    async def undo_all(self) -> list[str]:
        """What was undone, in words, last done first. LabError lists all failures, after the rest was undone.

        A cancellation waits until all is undone.
        """
        words, failures = await to_the_end(undo_journal(self._journal, self._host_of))
        raise_together("the test bed is not wholly undone", failures)
        return words

    def _host_of(self, record: Record) -> Host:
        live = self.hosts.get(str(record.host.get("name")))
        return live if live and live.describe() == record.host else host_from(record.host)

    async def _apply(self, step: Step) -> None:
        host = self.hosts[step.host]
        if step.present and (await host.run(step.present, check=False)).returncode == 0:
            raise LabError(
                f"{step.title}: it is there already, and this run did not make it",
                where=step.host,
                remedy="`latlab clean`, or remove by hand what another program left",
            )
        if step.undo:
            before = step.before
            values = before.read((await host.run(before.argv)).stdout) if before else {}
            self._journal.record(host, step.title, fill(step.undo, values), step.present)
        begun = time.monotonic()
        if step.do:
            await host.run(step.do)
        actual = await _read_back(host, step.check) if step.check else None
        expected = step.check.expected if step.check else None
        command = host.command_line(step.do or (step.check.argv if step.check else ()))
        result = StepResult(
            host=step.host,
            title=step.title,
            command=command,
            seconds=time.monotonic() - begun,
            expected=expected,
            actual=actual,
            ok=actual == expected,
        )
        self.results.append(result)
        if not result.ok and step.check:
            read = host.command_line(step.check.argv)
            raise LabError(f"{step.title}: `{read}` expected {expected!r}, actual {actual!r}", where=step.host)


async def _read_back(host: Host, check: Check) -> str:
    """The actual value; the last one read when it never became the expected one in the time it has."""
    deadline = time.monotonic() + check.within_ms / 1000
    while True:
        done = await host.run(check.argv, check=False)
        try:
            actual = (
                check.read(done.stdout) if done.returncode == 0 else f"status {done.returncode}: {done.stderr.strip()}"
            )
        except (ValueError, LookupError, TypeError):
            actual = f"unreadable: {done.stdout.strip()[:200]}"
        if actual == check.expected or time.monotonic() >= deadline:
            return actual
        await asyncio.sleep(POLL_S)


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
