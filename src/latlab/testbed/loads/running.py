"""One process of a load, or of a tool that measures: started, ready, stopped, its output collected."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from typing import Any, Literal

from latlab.hosts import Host, Process, signal_group
from latlab.model.errors import LabError, rejection_remedy
from latlab.recordings.cell import Ready
from latlab.testbed.apply import TestBed
from latlab.testbed.loads.base import LoadProcess, Output
from latlab.testbed.service import WITH_ITS_LAB

READY_S = 30.0
END_S = 10.0
POLL_S = 0.1
CHUNK = 65_536
WORDS = 5  # lines of a process's last output that an error quotes
START_LEAD_NS = 20_000_000  # enough for the line to arrive before the instant it names

SIGNALS = {"interrupt": signal.SIGINT, "terminate": signal.SIGTERM}


class NotReadyError(LabError):
    """A process runs, and has not become ready in time."""


class RunningProcess:
    """A process, journalled while it lives. of: whose it is, as errors say it: `load netperf3`, `probe rr`."""

    def __init__(self, of: str, plan: LoadProcess, host: Host, process: Process, record: int | None) -> None:
        self.plan = plan
        self.host = host
        self._of = of
        self._process = process
        self._lines: list[str] = []
        self._ready: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
        self._stderr = b""
        self._heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.gather(self._read_stdout(), self._read_stderr())
        self._record: int | None = record

    @classmethod
    async def start(cls, of: str, plan: LoadProcess, bed: TestBed) -> RunningProcess:
        """The process, running and ready: it listens, or has said so. LabError when it does not get there."""
        host = bed.hosts[plan.host]
        # A tool is killed when the lab dies. latlab's agent ends on its own.
        argv = plan.argv if plan.spec is not None else (*WITH_ITS_LAB, "TERM", *plan.argv)
        running = cls(of, plan, host, *await bed.spawn(host, f"{plan.role} of {of}", argv))
        try:
            with bed.awaited(f"{plan.role} of {of} on {host.name} gets ready"):
                await running._until_ready()
        except LabError as error:
            await running.kill(bed)
            said = "" if running._ready.done() else running.said()
            raise type(error)(f"{error.what}{said}", where=error.where or host.name, remedy=error.remedy) from None
        except asyncio.CancelledError:
            await running.kill(bed)
            raise
        return running

    async def _until_ready(self) -> None:
        """Wait until it listens, or has said that it is ready. LabError: it does not get there."""
        if self.plan.spec is not None:
            self._say(self.plan.spec)
            ready = await self._first(self._ready)
            if self.plan.role == "source":
                self._say({"start_tai_ns": ready.tai_ns + START_LEAD_NS})
        elif self.plan.tcp_port is not None:
            await self._first(asyncio.ensure_future(self._listens("t", self.plan.tcp_port)))
        elif self.plan.udp_port is not None:
            await self._first(asyncio.ensure_future(self._listens("u", self.plan.udp_port)))
        elif self.plan.says:
            await self._first(self._heard)

    def ended(self) -> bool:
        """Whether the process is over."""
        return self._process.returncode is not None

    @property
    def status(self) -> int:
        """Its exit status, below 0 of one that a signal ended; 0 while it runs."""
        return self._process.returncode or 0

    def failure(self) -> LabError | None:
        """Why the load is not running as it should: the process is over; None while it runs."""
        if not self.ended():
            return None
        return self._ended("ended early")

    def wrong_end(self) -> LabError | None:
        """Why a process that ended on its own failed; None where it succeeded."""
        if self._process.returncode == 0:
            return None
        return self._ended("ended")

    def _ended(self, how: str) -> LabError:
        said = self.said()
        what = f"{self._of}: `{self.command()}` {how} with status {self._process.returncode}{said}"
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
            self._say({"stop": True})
        elif self.plan.ending in SIGNALS:
            self._signal(SIGNALS[self.plan.ending])

    async def output(self, bed: TestBed, within_s: float = END_S) -> Output:
        """All it wrote, once it has ended on request; LabError when it does not end in time."""
        within_s *= self.host.patience
        try:
            with self.host.waiting(), bed.awaited(f"{self.plan.role} of {self._of} on {self.host.name} ends"):
                async with asyncio.timeout(within_s):
                    await asyncio.shield(self._reading)
                    await self._process.wait()
        except TimeoutError:
            await self.kill(bed)
            raise LabError(
                f"{self._of}: `{self.command()}` did not end within {within_s:g} s{self.said()}",
                where=self.host.name,
            ) from None
        self._settle(bed)
        return Output(self.plan, "\n".join(self._lines), self._stderr.decode(errors="replace"))

    async def kill(self, bed: TestBed) -> None:
        """Kill the process and its children."""
        self._signal(signal.SIGKILL)
        await self._process.wait()
        await self._reading
        self._settle(bed)

    def _settle(self, bed: TestBed) -> None:
        bed.settle(self._record)
        self._record = None

    def _signal(self, number: signal.Signals) -> None:
        if self.ended():
            return  # its number may be another process's by now
        signal_group(self._process, number)

    def _say(self, message: Any) -> None:
        assert self._process.stdin
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._process.stdin.write(json.dumps(message).encode() + b"\n")

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
            raise LabError(f"{self._of}: `{self.command()}` ended before it was ready")
        raise NotReadyError(f"{self._of}: `{self.command()}` was not ready within {within_s:g} s")

    async def _listens(self, kind: Literal["t", "u"], port: int) -> None:
        # A connection would be taken for the client: the socket table is asked instead.
        while not (await self.host.run(("ss", f"-Hl{kind}n", f"sport = :{port}"))).stdout.strip():
            await self.host.pause(POLL_S)

    async def _read_stdout(self) -> None:
        assert self._process.stdout
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
        assert self._process.stderr
        while chunk := await self._process.stderr.read(CHUNK):
            self._stderr += chunk
            if not self._heard.done():
                self._hear(self._stderr.decode(errors="replace"))

    def _hear(self, said: str) -> None:
        if self.plan.says and self.plan.says in said and not self._heard.done():
            self._heard.set_result(None)
