"""One agent while it runs: it gets its spec, reports its events, and ends with its lab."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from latlab.hosts import Host
from latlab.model.errors import LabError, rejection_remedy
from latlab.model.part import Document, Failure
from latlab.recordings.cell import Ready, RecordedAgent, Totals
from latlab.run.events import Interval, Latencies, LatePackets, Listener, Packets, Seen, TimerWindowEnded, ignore
from latlab.testbed.apply import TestBed
from latlab.testbed.step import Spec
from latlab.testbed.supervised import Supervised

T = TypeVar("T")

READY_S = 20.0
STOP_S = 20.0
OVERLOADED: Final = "check whether the machine is overloaded or was suspended"
"""What to do where nothing came in time."""
PATIENCE = {"trace": 3.0, "timer": 3.0, "drops": 3.0, "watch": 6.0}
"""By how much longer verbs are waited for: those that may make a tracing instance, thousands of files before Linux 6.6,
which for a guest in emulation is 10 s of work, and those whose BPF programs the kernel checks: there longer still.
"""
UNTIL_STOPPED: Final = frozenset({"listen", "pong", "drops", "bridge"})
"""Verbs that end only when the lab stops them: one that ends before misses what comes later."""
ENDED_BY_OTHERS: Final = (
    "see what sends signals to latlab-agent there: a person, systemd, the OOM killer (`journalctl`)"
)
STDERR_LINES = 5


class Agent:
    """`latlab-agent VERB` on a host of a test bed. Every failure is a LabError naming host and verb.

    role: what it does for the lab, where that is another word than its verb. probe: whose agent it is, where it is a
    probe's.
    """

    def __init__(
        self,
        process: Supervised,
        verb: str,
        listener: Listener,
        probe: str | None = None,
        role: str | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.host = process.host
        self.verb = role or verb
        self.probe = probe
        self.ready: asyncio.Future[Ready] = loop.create_future()
        self.complete: asyncio.Future[None] = loop.create_future()
        self.done: asyncio.Future[Totals] = loop.create_future()
        self.ready_at = 0.0
        """The event loop's time when it was ready."""
        self.turn_tai_ns = 0
        """In virtual time the machine's CLOCK_TAI then."""
        self._argv = ("", verb)
        self._ports: tuple[str, ...] = ()
        self._error: Failure | None = None
        self._stopping = False
        self._cores: dict[str, int] = {}
        self._process = process
        self._listener = listener
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._reading = asyncio.ensure_future(self._read())

    @classmethod
    async def start(
        cls,
        bed: TestBed,
        host: Host,
        binary: str,
        verb: str,
        spec: Spec,
        listener: Listener = ignore,
        probe: str | None = None,
        role: str | None = None,
    ) -> Agent:
        """The agent, ready: everything it needs is set up, and nothing has been sent yet."""
        title = _title(role or verb, probe)
        agent = cls(await bed.spawn(host, title, (binary, verb)), verb, listener, probe, role)
        agent._argv, agent._ports = (binary, verb), tuple(_ports(spec))
        try:
            agent._process.say(spec)
            with bed.awaited(f"{agent.title} on {host.name} gets ready"):
                await agent._within(agent.ready, READY_S, "was not ready")
        except BaseException:
            await agent.kill()
            raise
        return agent

    @property
    def title(self) -> str:
        """As "agent ping rr": what it does, and whose it is."""
        return _title(self.verb, self.probe)

    @property
    def tai_ns(self) -> int:
        """Its host's CLOCK_TAI when it was ready."""
        return self.ready.result().tai_ns

    @property
    def command(self) -> str:
        """The command as one would type it; its spec goes to its standard input."""
        return self.host.command_line(self._argv)

    def begin(self, start_tai_ns: int) -> None:
        """Start the streams at that instant of its host's CLOCK_TAI."""
        self._process.say({"start_tai_ns": start_tai_ns})

    def know(self, clocks: Iterable[tuple[int, int, int]]) -> None:
        """Say of streams by how much its host's clock is ahead of their talkers', and ± that: (stream, ns, ns)."""
        told = [{"stream": stream, "ahead_ns": ahead, "off_ns": off} for stream, ahead, off in clocks]
        if told:
            self._process.say({"clocks": told})

    def keep(self, windows: Iterable[Interval]) -> None:
        """Have the events of these intervals of its host's CLOCK_TAI kept."""
        self._process.say({"keep": [{"from_tai_ns": begin, "to_tai_ns": end} for begin, end in windows]})

    async def stop(self, bed: TestBed) -> Totals:
        """Its `done`; it has written its recordings and has ended."""
        self._stopping = True
        self._process.say({"stop": True})
        try:
            with bed.awaited(f"{self.title} on {self.host.name} stops"):
                done = await self._within(self.done, STOP_S, "did not stop")
                await self._within(asyncio.ensure_future(self._process.wait()), STOP_S, "had finished and did not exit")
        finally:
            await self.kill()
        return done

    async def kill(self) -> None:
        """Kill the process, if it has not ended already."""
        await self._process.kill()
        await self._reading

    @property
    def known(self) -> RecordedAgent:
        """Its entry in cell.json: what it has said, None of what it has not said or did not come to."""
        whose: Document = {"host": self.host.name, "verb": self.verb}
        whose |= {"probe": self.probe} if self.probe else {}
        whose |= {"cores": self._cores} if self._cores else {}
        said = {"ready": _result(self.ready), "done": _result(self.done), "error": self._error}
        return RecordedAgent.model_validate({**whose, **said})

    async def _within(self, awaited: asyncio.Future[T], seconds: float, fault: str) -> T:
        seconds *= self.host.patience * PATIENCE.get(self._argv[1], 1.0)
        try:
            with self.host.waiting():
                async with asyncio.timeout(seconds):
                    return await asyncio.shield(awaited)
        except TimeoutError:
            raise LabError(
                f"`latlab-agent {self._argv[1]}` {fault} within {seconds:g} s{self._last_words()}",
                where=self._where(),
                remedy=OVERLOADED,
            ) from None

    async def _read(self) -> None:
        await asyncio.gather(self._read_events(), self._read_stderr())
        status = await self._process.wait()
        gone = LabError(
            f"`latlab-agent {self._argv[1]}` ended unexpectedly with status {status}{self._last_words()}",
            where=self._where(),
            remedy="see whether the kernel ended it (`dmesg`), for example because memory ran out",
        )
        self._fail(gone)

    async def _read_events(self) -> None:
        async for line in _lines(self._process.stdout):
            # What is no event is passed over: if it was to be one, that one is missed, and its waiter reports it.
            with contextlib.suppress(ValueError, LookupError, TypeError):
                event = json.loads(line)
                if isinstance(event, dict):
                    self._take(event)

    async def _read_stderr(self) -> None:
        async for line in _lines(self._process.stderr):
            self._stderr.append(line.decode(errors="replace").rstrip())

    def _take(self, event: Document) -> None:
        match event.pop("event"):
            case "ready" if not self.ready.done():
                self.ready_at = asyncio.get_running_loop().time()
                self.turn_tai_ns = self.host.turns.tai_ns if self.host.turns else 0
                self.ready.set_result(Ready.model_validate(event))
            case "complete" if not self.complete.done():
                self.complete.set_result(None)
            case "done" if self.verb in UNTIL_STOPPED and not self._stopping:
                # What came after that it did not see; a signal ends it, too.
                what = f"`latlab-agent {self.verb}` ended before it was to"
                self._fail(LabError(what, where=self._where(), remedy=ENDED_BY_OTHERS))
            case "done" if not self.done.done():
                self.done.set_result(Totals.model_validate(event))
            case "progress":
                streams = {entry["stream"]: entry["packets"] for entry in event["streams"]}
                tai_ns, steal_ns = event["tai_ns"], event.get("steal_ns")
                found = {entry["stream"]: _seen(entry) for entry in event["streams"] if "missing" in entry}
                bound = event.get("bound")
                offset_ns = bound and (bound["lower_ns"], bound["upper_ns"])
                host, verb = self.host.name, self.verb
                self._listener(Packets(host, verb, streams, self.probe, 0, tai_ns, found, steal_ns, offset_ns))
            case "late":
                windows = tuple((one["from_tai_ns"], one["to_tai_ns"]) for one in event["windows"])
                self._listener(LatePackets(self.host.name, windows))
            case "window":
                self._listener(self._window(event))
            case "cores":
                self._cores = event["rows"]
            case "error":
                self._error = error = Failure.model_validate(event)
                where = ": ".join(filter(None, (self._where(), self.verb, error.where)))
                self._fail(LabError(error.what, where=where, remedy=self._remedy(error)))

    def _window(self, event: Document) -> TimerWindowEnded:
        told = {key: event[key] for key in ("from_tai_ns", "to_tai_ns", "n", "mean_ns", "stddev_ns")}
        told |= {key: event[key] for key in ("min_ns", "max_ns", "above", "threshold_ns", "overdue")}
        timer = self.known.said.timer
        return TimerWindowEnded(self.host.name, self.probe or "", **told, tick_ns=timer.tick_ns if timer else None)

    def _remedy(self, error: Failure) -> str:
        is_networks = error.what.startswith(("connect", "recv", "send"))
        return (self.rejection_remedy(error.errno) if is_networks else "") or error.remedy

    def rejection_remedy(self, number: int | None) -> str:
        """What to do where packets that it sent were rejected, by the errno; empty where they were not."""
        ports = " and ".join(self._ports)
        return rejection_remedy(number, ports) if ports else ""

    def _fail(self, error: LabError) -> None:
        for future in (self.ready, self.complete, self.done):
            if not future.done():
                future.set_exception(error)
                future.exception()  # retrieved here: there may be no waiter for this one

    def _where(self) -> str:
        return self.host.name + (f": probes.{self.probe}" if self.probe else "")

    def _last_words(self) -> str:
        return f": {'; '.join(self._stderr)}" if self._stderr else ""


def _seen(entry: Document) -> Seen:
    latest = entry["since_last"]
    return Seen(entry["missing"], latest and Latencies(**latest))


def _ports(spec: Any) -> Iterator[str]:
    """The ports that an agent with this spec sends to."""
    if isinstance(spec, Mapping):
        if isinstance(to := spec.get("destination"), str) and spec.get("kind") in ("udp", "tcp"):
            address, _, port = to.rpartition(":")
            yield f"{spec['kind'].upper()} port {port} of {address}"
        spec = list(spec.values())
    if isinstance(spec, list):
        for part in spec:
            yield from _ports(part)


def _title(role: str, probe: str | None) -> str:
    return " ".join(filter(None, ("agent", role, probe)))


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


def _result(future: asyncio.Future[T]) -> T | None:
    if not future.done() or future.cancelled() or future.exception():
        return None
    return future.result()
