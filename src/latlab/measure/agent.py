"""One agent while it runs: told its spec, heard out event by event, ended with its lab."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeVar

from latlab.errors import LabError
from latlab.host import Host, Process, signal_group
from latlab.lab.apply import TestBed
from latlab.measure.events import Listener, Packets, ignore

T = TypeVar("T")

READY_S = 20.0
STOP_S = 20.0
STDERR_LINES = 5


class Agent:
    """`latlab-agent VERB` on a host of a test bed. Every failure is a LabError naming host and verb."""

    def __init__(self, host: Host, verb: str, process: Process, record: int | None, listener: Listener) -> None:
        loop = asyncio.get_running_loop()
        self.host = host
        self.verb = verb
        self.ready: asyncio.Future[dict[str, Any]] = loop.create_future()
        self.complete: asyncio.Future[None] = loop.create_future()
        self.done: asyncio.Future[dict[str, Any]] = loop.create_future()
        self.ready_at = 0.0
        """The event loop's time when it was ready."""
        self._error: dict[str, Any] | None = None
        self._process = process
        self._listener = listener
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._record: int | None = record
        self._reading = asyncio.ensure_future(self._read())

    @classmethod
    async def start(
        cls,
        bed: TestBed,
        host: Host,
        binary: str,
        verb: str,
        spec: Mapping[str, Any],
        listener: Listener = ignore,
    ) -> Agent:
        """The agent, ready: everything it needs is set up, and nothing has been sent yet."""
        agent = cls(host, verb, *await bed.spawn(host, f"agent {verb}", (binary, verb)), listener)
        try:
            agent._say(spec)
            await agent._within(agent.ready, READY_S, "was not ready")
        except BaseException:
            await agent.kill(bed)
            raise
        return agent

    @property
    def tai_ns(self) -> int:
        """Its host's CLOCK_TAI when it was ready."""
        return int(self.ready.result()["tai_ns"])

    def begin(self, start_tai_ns: int) -> None:
        """Nothing; the streams start at that instant of its host's CLOCK_TAI."""
        self._say({"start_tai_ns": start_tai_ns})

    async def stop(self, bed: TestBed) -> dict[str, Any]:
        """Its `done`; it has written its recordings and is gone."""
        self._say({"stop": True})
        try:
            done = await self._within(self.done, STOP_S, "did not stop")
            await self._within(asyncio.ensure_future(self._process.wait()), STOP_S, "was done and did not end")
        finally:
            await self.kill(bed)
        return done

    async def kill(self, bed: TestBed) -> None:
        """Nothing; the process is gone, if it was not already."""
        if self._process.returncode is None:
            signal_group(self._process, signal.SIGKILL)
            await self._process.wait()
        await self._reading
        bed.settle(self._record)
        self._record = None

    def as_dict(self) -> dict[str, Any]:
        """Its entry in cell.json."""
        return {
            "host": self.host.name,
            "verb": self.verb,
            "ready": _result(self.ready),
            "done": _result(self.done),
            "error": self._error,
        }

    async def _within(self, awaited: asyncio.Future[T], seconds: float, fault: str) -> T:
        seconds *= self.host.patience
        try:
            with self.host.waiting():
                return await asyncio.wait_for(asyncio.shield(awaited), seconds)
        except TimeoutError:
            raise LabError(
                f"`latlab-agent {self.verb}` {fault} within {seconds:g} s{self._last_words()}",
                where=self.host.name,
            ) from None

    def _say(self, message: Mapping[str, Any]) -> None:
        # An agent that has gone away says why by its events or its exit status, not by this pipe.
        with contextlib.suppress(ConnectionError, RuntimeError):
            assert self._process.stdin
            self._process.stdin.write(json.dumps(message).encode() + b"\n")

    async def _read(self) -> None:
        await asyncio.gather(self._read_events(), self._read_stderr())
        status = await self._process.wait()
        gone = LabError(
            f"`latlab-agent {self.verb}` ended unexpectedly with status {status}{self._last_words()}",
            where=self.host.name,
        )
        self._fail(gone)

    async def _read_events(self) -> None:
        assert self._process.stdout
        async for line in _lines(self._process.stdout):
            # What is no event is passed over: if it was to be one, that one is missed, and its waiter says so.
            with contextlib.suppress(ValueError, LookupError, TypeError):
                event = json.loads(line)
                if isinstance(event, dict):
                    self._take(event)

    async def _read_stderr(self) -> None:
        assert self._process.stderr
        async for line in _lines(self._process.stderr):
            self._stderr.append(line.decode(errors="replace").rstrip())

    def _take(self, event: dict[str, Any]) -> None:
        match event.pop("event"):
            case "ready" if not self.ready.done():
                self.ready_at = asyncio.get_running_loop().time()
                self.ready.set_result(event)
            case "complete" if not self.complete.done():
                self.complete.set_result(None)
            case "done" if not self.done.done():
                self.done.set_result(event)
            case "progress":
                streams = {entry["stream"]: entry["packets"] for entry in event["streams"]}
                self._listener(Packets(self.host.name, self.verb, streams))
            case "error":
                self._error = event
                where = ": ".join(filter(None, (self.host.name, self.verb, event["where"])))
                self._fail(LabError(event["what"], where=where, remedy=event["remedy"]))

    def _fail(self, error: LabError) -> None:
        for future in (self.ready, self.complete, self.done):
            if not future.done():
                future.set_exception(error)
                future.exception()  # taken here: nobody may be waiting for this one

    def _last_words(self) -> str:
        return f": {'; '.join(self._stderr)}" if self._stderr else ""


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Every line of a stream; one that is longer than the stream's limit comes in pieces or not at all."""
    while True:
        try:
            line = await stream.readline()
        except ValueError:
            continue
        if not line:
            return
        yield line


def _result(future: asyncio.Future[dict[str, Any]]) -> dict[str, Any] | None:
    if not future.done() or future.cancelled() or future.exception():
        return None
    return future.result()
