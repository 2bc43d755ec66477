"""The agent as its lab sees it: a process that reads lines and prints events."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from latlab.testbed.agent_binary import find_agent

PATIENCE_S = 60.0
"""How long a test waits for what must come: only a broken agent takes so long."""
START_LEAD_NS = 30_000_000


class Agent:
    """`latlab-agent VERB`, told its spec. program: where it is; the lab's own if not given."""

    def __init__(self, prefix: tuple[str, ...], verb: str, spec: Any, program: str | None = None) -> None:
        self.verb = verb
        self.events: list[dict[str, Any]] = []
        """Every event it has said and the test has waited for."""
        self._said: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._process = subprocess.Popen(
            [*prefix, program or str(find_agent()), verb],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.pid = self._process.pid
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        self._write(spec if isinstance(spec, bytes) else json.dumps(spec).encode() + b"\n")

    def until(self, name: str) -> dict[str, Any]:
        """The next event of this name. The test fails if the agent ends before it, or says an error instead."""
        while (event := self._said.get(timeout=PATIENCE_S)) is not None:
            self._keep(event)
            if event["event"] == name:
                return event
            assert event["event"] != "error", event
        raise AssertionError(f"{self.verb} ended without {name}: {self.events} {self.stderr()}")

    def tell(self, **command: Any) -> None:
        """Nothing; the agent has been given the command."""
        self._write(json.dumps(command).encode() + b"\n")

    def begin(self) -> int:
        """The instant at which the streams start, CLOCK_TAI ns; the agent has been told it."""
        start = tai_ns() + START_LEAD_NS
        self.tell(start_tai_ns=start)
        return start

    def hang_up(self) -> None:
        """Nothing; its standard input is closed, as by the death of its lab."""
        assert self._process.stdin
        self._process.stdin.close()

    def signal(self, number: int) -> None:
        """Nothing; the agent, which the test knows to be alive, has been sent the signal."""
        self._process.send_signal(number)

    @property
    def said(self) -> list[str]:
        """What kind of events it has reported, but `progress`: one comes each second that it runs."""
        return [event["event"] for event in self.events if event["event"] != "progress"]

    def ended(self) -> int:
        """Its exit status, once it has ended; its whole output is in `events`."""
        self._thread.join(PATIENCE_S)
        while not self._said.empty():
            self._keep(self._said.get())
        return self._process.wait(PATIENCE_S)

    def kill(self) -> None:
        """Nothing; it has ended, if it had not already."""
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(BrokenPipeError):
            self.hang_up()

    def stderr(self) -> str:
        """What it wrote on standard error; it must be over."""
        assert self._process.stderr
        return self._process.stderr.read().decode()

    def threads(self) -> list[int]:
        """The ids of its threads."""
        return [int(entry) for entry in os.listdir(f"/proc/{self.pid}/task")]

    def hot_thread(self) -> int:
        """The id of its thread that runs under SCHED_FIFO; the test fails unless there is just one."""
        (hot,) = [tid for tid in self.threads() if os.sched_getscheduler(tid) == os.SCHED_FIFO]
        return hot

    def wait_until_stopped(self) -> None:
        """Nothing; after SIGSTOP, every thread of it is stopped."""
        while any(_state(self.pid, tid) != "T" for tid in self.threads()):
            time.sleep(0.001)

    def _keep(self, event: dict[str, Any] | None) -> None:
        if event is not None:
            self.events.append(event)

    def _write(self, line: bytes) -> None:
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line)
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._said.put(json.loads(line))
        self._said.put(None)


def tai_ns() -> int:
    """Now, on the clock of all instants."""
    return time.clock_gettime_ns(time.CLOCK_TAI)


def _state(pid: int, tid: int) -> str:
    return Path(f"/proc/{pid}/task/{tid}/stat").read_text().rpartition(")")[2].split()[0]
