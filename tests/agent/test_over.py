"""A program run over a connection behaves as if it ran here; what happens when the connection or its command fails."""

from __future__ import annotations

import os
import random
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from latlab.testbed.agent_binary import find_agent
from support.agent.process import PATIENCE_S

SERVE = f"{shlex.quote(str(find_agent()))} serve -"
PIPED = f"cat | {SERVE} | cat"
"""Every byte comes and goes by pipes, as where a login shell is in between."""
TELL_PID = "echo $$ >&2; "
"""Before a command: its process id is the first line on standard error."""
MARK = b"\xf5latlab ports 1\n"
"""What opens a session."""
STARTED: list[subprocess.Popen[bytes]] = []


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Relays that a test leaves are killed, and with them what they run."""
    yield
    while STARTED:
        with STARTED.pop() as relay:
            relay.kill()


def start(*words: str, by: str = SERVE, patience: float = PATIENCE_S, **options: Any) -> subprocess.Popen[bytes]:
    """A relay of the program, in a new process group; its three streams are pipes by default."""
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    argv = [str(find_agent()), "over", "--patience", str(patience), "--by", by, *words]
    STARTED.append(subprocess.Popen(argv, start_new_session=True, **(pipes | options)))
    return STARTED[-1]


def run(*words: str, said: bytes = b"", **options: Any) -> subprocess.CompletedProcess[bytes]:
    """How the relay ended, and what it said; it has been said `said`."""
    relay = start(*words, **options)
    out, err = relay.communicate(said, timeout=PATIENCE_S)
    return subprocess.CompletedProcess(words, relay.returncode, out, err)


def line(stream: Any) -> str:
    """The next line."""
    return str(stream.readline().decode().strip())


def pids(stream: Any) -> list[int]:
    """Descriptors (pidfd) of the processes whose ids are the next line; each is readable once its process has ended."""
    return [os.pidfd_open(int(pid)) for pid in line(stream).split()]


def assert_all_end(watched: list[int]) -> None:
    """All of these processes end."""
    until = time.monotonic() + PATIENCE_S
    for descriptor in watched:
        ended, *_ = select.select([descriptor], [], [], max(0.0, until - time.monotonic()))
        os.close(descriptor)
        assert ended, "a process goes on"


@pytest.mark.parametrize("by", [SERVE, PIPED])
def test_ten_megabytes_come_through_both_ways_as_they_are(by: str) -> None:
    said = random.Random(1).randbytes(10_000_000) + MARK + bytes(range(256)) + MARK[:-1]
    done = run("cat", said=said, by=by)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == said


def test_words_reach_the_program_as_they_are() -> None:
    words = ["-n", "two words", "", "--by", "--", "$HOME", "ünïcode", "x" * 100_000]
    printed = run("sh", "-c", 'for word; do printf "%s\\n" "$word"; done', "sh", *words).stdout.decode()
    assert printed.split("\n")[:-1] == words


def test_output_and_errors_are_kept_apart() -> None:
    done = run("sh", "-c", "echo out; echo err >&2")
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")


def test_the_program_has_the_environment_and_the_directory_of_its_server(tmp_path: Path) -> None:
    by = f"cd {shlex.quote(str(tmp_path))}; SERVED=yes {SERVE}"
    assert run("sh", "-c", "echo $SERVED; pwd", by=by).stdout.decode().split() == ["yes", str(tmp_path)]


def test_output_comes_as_it_is_made() -> None:
    relay = start("sh", "-c", "echo first; read line; echo got $line")
    assert relay.stdin and line(relay.stdout) == "first"
    relay.stdin.write(b"second\n")
    relay.stdin.flush()
    assert line(relay.stdout) == "got second"
    relay.communicate(timeout=PATIENCE_S)
    assert relay.returncode == 0


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("true",), 0),
        (("sh", "-c", "exit 200"), 200),
        (("sh", "-c", "exit 255"), 255),
        (("sh", "-c", "kill -KILL $$"), 128 + signal.SIGKILL),
        (("no-such-program",), 127),
        (("/etc/passwd",), 126),
    ],
)
def test_the_exit_status_is_the_program_s(words: tuple[str, ...], status: int) -> None:
    assert run(*words).returncode == status


def test_what_cannot_be_run_is_said_in_a_line() -> None:
    assert run("no-such-program").stderr == b"latlab-agent: no-such-program: not found there\n"


@pytest.mark.parametrize("by", [SERVE, PIPED])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_for_the_relay_s_process_group_reaches_the_program_s(by: str, number: signal.Signals) -> None:
    relay = start("sh", "-c", "sh -c 'echo $$; exec sleep 600'; echo not reached", by=by)
    sleeping = pids(relay.stdout)
    os.killpg(relay.pid, number)
    out, err = relay.communicate(timeout=PATIENCE_S)
    assert (out, err, relay.returncode) == (b"", b"", 128 + number)
    assert_all_end(sleeping)


def test_a_signal_gets_through_while_input_is_not_read() -> None:
    with open("/dev/zero", "rb") as zeros:
        relay = start("sh", "-c", "echo ready; exec sleep 600", stdin=zeros)
    assert line(relay.stdout) == "ready"
    relay.terminate()
    relay.communicate(timeout=PATIENCE_S)
    assert relay.returncode == 128 + signal.SIGTERM


def test_a_program_whose_output_nobody_reads_any_more_is_reported() -> None:
    relay = start("cat", "/dev/zero")
    assert relay.stdout
    relay.stdout.read(1)
    relay.stdout.close()
    assert relay.wait(PATIENCE_S) == 128 + signal.SIGPIPE


def test_input_that_nobody_reads_does_not_hold_the_program_back() -> None:
    done = run("sh", "-c", "exec <&-; echo on", said=bytes(2_000_000))
    assert (done.returncode, done.stdout) == (0, b"on\n")


def test_program_and_command_start_with_no_signal_blocked() -> None:
    blocked = "grep SigBlk /proc/self/status"
    done = run("sh", "-c", blocked, by=f"{blocked} >&2; {SERVE}")
    assert done.stdout == done.stderr == b"SigBlk:\t0000000000000000\n"


@pytest.mark.parametrize("stubborn", [False, True])
def test_the_program_s_group_ends_with_its_relay(stubborn: bool) -> None:
    trap = "trap '' TERM HUP;" if stubborn else ""
    relay = start("sh", "-c", f"{trap} sleep 600 & echo $$ $!; wait")
    group = pids(relay.stdout)
    relay.kill()
    relay.communicate(timeout=PATIENCE_S)
    assert_all_end(group)


@pytest.mark.parametrize(
    "by",
    [f"exec {SERVE}", f"{SERVE}; :", PIPED],
    ids=["the command is the server", "the server goes on", "the pipes go on"],
)
def test_the_program_ends_and_the_relay_says_why_when_the_command_is_killed(by: str) -> None:
    relay = start("sh", "-c", "echo $$; exec sleep 600", by=TELL_PID + by)
    command, program = int(line(relay.stderr)), pids(relay.stdout)
    os.kill(command, signal.SIGKILL)
    _, err = relay.communicate(timeout=PATIENCE_S)
    assert relay.returncode == 255
    gone = "the connection is gone, and what ran there is ended there as soon as that side notices"
    assert err.decode() == f"latlab-agent: `{TELL_PID}{by}`: {gone}\n"
    assert_all_end(program)


def test_a_command_that_reads_nothing_ends_with_its_relay() -> None:
    relay = start("true", by=TELL_PID + "exec sleep 600")
    command = pids(relay.stderr)
    relay.kill()
    relay.communicate(timeout=PATIENCE_S)
    assert_all_end(command)


@pytest.mark.slow
def test_a_command_that_does_not_end_when_its_connection_closes_is_ended() -> None:
    by = f"{TELL_PID} trap '' TERM; {SERVE}; sleep 600 & echo $! >&2; wait"
    relay = start("sh", "-c", "echo done; exit 7", by=by)
    command = [*pids(relay.stderr), *pids(relay.stderr)]
    out, _ = relay.communicate(timeout=PATIENCE_S)
    assert (out, relay.returncode) == (b"done\n", 7)
    assert_all_end(command)


@pytest.mark.parametrize(
    ("by", "status", "relay_status"),
    [("exit 3", 3, 125), ("exit 255", 255, 255), ("exit 0", 0, 125), ("no-such-command", 127, 125)],
)
def test_a_command_that_ends_before_anything_answers_is_reported_after_its_own_words(
    by: str, status: int, relay_status: int
) -> None:
    done = run("true", by=f"echo its own words >&2; {by}")
    assert done.returncode == relay_status
    first, *_, last = done.stderr.decode().splitlines()
    assert first == "its own words"
    assert last == f"latlab-agent: `echo its own words >&2; {by}` ended with status {status} before it answered"


def test_a_command_that_never_answers_is_waited_for_no_longer_than_told() -> None:
    by = TELL_PID + "exec sleep 600"
    relay = start("true", by=by, patience=0.3)
    command = pids(relay.stderr)
    _, err = relay.communicate(timeout=PATIENCE_S)
    assert relay.returncode == 125
    assert err.decode() == f"latlab-agent: `{by}` does not answer within 0.3 s\n"
    assert_all_end(command)


def test_a_command_that_only_echoes_is_no_server() -> None:
    done = run("true", by="cat")
    assert (done.returncode, done.stdout) == (255, b"")


def test_a_signal_ends_the_relay_and_its_command_while_nothing_has_answered() -> None:
    relay = start("true", by=TELL_PID + "exec sleep 600")
    command = pids(relay.stderr)
    relay.terminate()
    assert (relay.communicate(timeout=PATIENCE_S)[1], relay.returncode) == (b"", 128 + signal.SIGTERM)
    assert_all_end(command)


def test_what_a_login_prints_first_is_no_part_of_the_output() -> None:
    banner = "printf 'Welcome to board1\\r\\n\\365latlab ports 1\\r\\n\\376\\020'; seq 100000;"
    done = run("echo", "output", by=f"{banner} exec {SERVE}")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"output\n", b"")


def test_what_others_print_while_the_program_runs_breaks_the_connection(tmp_path: Path) -> None:
    told = tmp_path / "told"
    os.mkfifo(told)
    by = f"{{ read line <{shlex.quote(str(told))}; echo spoilt; }} & exec {SERVE}"
    relay = start("sh", "-c", "echo $$; exec sleep 600", by=by)
    program = pids(relay.stdout)
    told.write_text("now\n")
    _, err = relay.communicate(timeout=PATIENCE_S)
    assert (relay.returncode, b"the connection is gone" in err) == (255, True)
    assert_all_end(program)
