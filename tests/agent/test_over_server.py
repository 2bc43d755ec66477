"""`serve -`: the server of one connection, which is its standard input and output, and how it ends."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from typing import IO

import pytest

from latlab.testbed.agent_binary import find_agent
from support.agent.process import PATIENCE_S
from support.machine import alive

MARK = b"\xf5latlab ports 1\n"
WORDS, RUN, EXIT, DATA_OUT, DATA_ERR = 1, 2, 4, 17, 18
ARGV = [str(find_agent()), "serve", "-"]
ENDS = {"its input ends": None} | {number.name: number for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
SLEEPER = "sleep 600 & echo $$ $!; wait"
"""A program of two processes that prints their ids."""


class Served:
    """A server, and what speaks to it: it takes from `to` and gives to `come`."""

    def __init__(self, process: subprocess.Popen[bytes], to: IO[bytes], come: IO[bytes]) -> None:
        self.process = process
        self.to = to
        self.come = come
        self._sessions = 0

    def open(self, *words: str) -> None:
        """Nothing; the server has answered and been told to run the words."""
        self._sessions += 1
        opening = MARK + struct.pack("<QB", self._sessions, 0xFD)
        self._say(opening)
        assert self.come.read(len(opening)) == opening
        said = b"".join(word.encode() + b"\0" for word in words)
        self._say(_frame(WORDS, said) + _frame(RUN, b""))

    def heard(self) -> tuple[int, bytes]:
        """The next frame: its kind and its payload. The test fails if anything else comes."""
        fence, kind, length, other = struct.unpack("<BBHB", self.come.read(5))
        assert (fence, other) == (0xFE, 0xFD)
        payload = self.come.read(length)
        assert self.come.read(1) == b"\xfd"
        return kind, payload

    def pids(self) -> list[int]:
        """The process ids that its program has printed."""
        kind, printed = self.heard()
        assert kind == DATA_OUT
        return [int(pid) for pid in printed.split()]

    def close(self) -> None:
        """Nothing; the connection is closed."""
        self.to.close()
        self.come.close()

    def _say(self, said: bytes) -> None:
        self.to.write(said)
        self.to.flush()


def _frame(kind: int, payload: bytes) -> bytes:
    return struct.pack("<BBHB", 0xFE, kind, len(payload), 0xFD) + payload + b"\xfd"


@pytest.fixture(params=["pipes", "one socket", "two sockets"])
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    """A server on a connection of each kind."""
    if request.param == "pipes":
        process = subprocess.Popen(ARGV, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin and process.stdout
        server = Served(process, process.stdin, process.stdout)
    else:
        to, stdin = socket.socketpair()
        come, stdout = (to, stdin) if request.param == "one socket" else socket.socketpair()
        process = subprocess.Popen(ARGV, stdin=stdin.fileno(), stdout=stdout.fileno())
        server = Served(process, to.makefile("wb"), come.makefile("rb"))
        for end in (to, stdin, come, stdout):
            end.close()
    with process:
        try:
            yield server
        finally:
            process.kill()
            server.close()


@pytest.mark.parametrize("by", ENDS.values(), ids=ENDS)
def test_the_program_and_its_group_are_gone_when_the_server_is(served: Served, by: signal.Signals | None) -> None:
    served.open("sh", "-c", SLEEPER)
    group = served.pids()
    if by is None:
        served.close()
    else:
        served.process.send_signal(by)
    assert served.process.wait(PATIENCE_S) == 0
    assert [alive(pid) for pid in group] == [False, False]


def test_a_program_that_does_not_want_to_end_is_killed_first(served: Served) -> None:
    served.open("sh", "-c", f"trap '' TERM HUP; {SLEEPER}")
    group = served.pids()
    served.close()
    assert served.process.wait(PATIENCE_S) == 0
    assert [alive(pid) for pid in group] == [False, False]


def test_a_server_without_a_program_ends_with_its_connection(served: Served) -> None:
    served.close()
    assert served.process.wait(PATIENCE_S) == 0


def test_one_connection_serves_one_program_after_the_other_and_says_nothing_else(served: Served) -> None:
    for n in range(3):
        served.open("sh", "-c", f"echo {n}; echo error >&2; exit {n}")
        heard = dict(iter(served.heard, (EXIT, bytes([n]))))
        assert (heard[DATA_OUT], heard[DATA_ERR]) == (f"{n}\n".encode(), b"error\n")
    served.to.close()
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(PATIENCE_S) == 0
    assert served.come.read() == b""


def test_a_new_session_ends_the_program_of_the_one_before(served: Served) -> None:
    served.open("sh", "-c", SLEEPER)
    group = served.pids()
    served.open("true")
    assert [alive(pid) for pid in group] == [False, False]


def test_a_silent_program_ends_when_nobody_could_hear_it_any_more() -> None:
    with subprocess.Popen(ARGV, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        served = Served(process, process.stdin, process.stdout)
        served.open("sh", "-c", SLEEPER)
        group = served.pids()
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 0
        assert [alive(pid) for pid in group] == [False, False]


def test_a_terminal_is_no_connection() -> None:
    ours, theirs = os.openpty()
    done = subprocess.run(ARGV, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, timeout=PATIENCE_S, check=False)
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 1
    assert done.stderr.decode().startswith("latlab-agent: serve: standard input and output cannot")


def test_what_is_no_connection_is_an_error() -> None:
    done = subprocess.run(ARGV, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"standard input and output cannot be served" in done.stderr
