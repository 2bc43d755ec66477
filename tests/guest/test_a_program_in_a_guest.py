"""A program in a guest behaves as if it ran here: words, streams, status, signals."""

from __future__ import annotations

import hashlib
import random
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.guests.booted import PATIENCE_S, PORTS, BootedGuest

MARK = b"\xf5latlab ports 1\n"
"""What opens a session on a port."""


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def test_words_reach_the_program_as_they_are(guest: BootedGuest) -> None:
    words = ["-n", "two words", "", "--patience", "--", "$HOME", "ünïcode", "x" * 100_000]
    printed = guest.told("sh", "-c", 'for word; do printf "%s\\n" "$word"; done', "sh", *words)
    assert printed.split("\n")[:-1] == words


def test_streams_are_passed_on_byte_by_byte(guest: BootedGuest) -> None:
    said = noise(3_000_000) + MARK + bytes(range(256)) + MARK[:-1]
    done = guest.run("cat", said=said)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == said


def test_output_and_errors_are_kept_apart(guest: BootedGuest) -> None:
    done = guest.run("sh", "-c", "echo out; echo err >&2")
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")


def test_fifty_megabytes_come_out_whole(guest: BootedGuest) -> None:
    size = 50 << 20
    printed = guest.run("dd", "if=/dev/zero", "bs=1M", "count=50").stdout
    assert hashlib.sha256(printed).digest() == hashlib.sha256(bytes(size)).digest()


def test_output_comes_as_it_is_made(guest: BootedGuest) -> None:
    relay = guest.start("sh", "-c", "echo first; read line; echo got $line")
    assert relay.stdin and relay.stdout
    assert relay.stdout.readline() == b"first\n"
    relay.stdin.write(b"second\n")
    relay.stdin.flush()
    assert relay.stdout.readline() == b"got second\n"
    assert relay.wait(PATIENCE_S) == 0


def test_a_reader_that_waits_makes_the_program_wait(guest: BootedGuest) -> None:
    relay = guest.start("sh", "-c", "head -c 20000000 /dev/zero; date +%s >/tmp/done-writing")
    time.sleep(1)
    assert guest.run("test", "-e", "/tmp/done-writing").returncode == 1
    out, _ = relay.communicate(timeout=PATIENCE_S)
    assert len(out) == 20_000_000
    guest.told("rm", "/tmp/done-writing")


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("true",), 0),
        (("sh", "-c", "exit 200"), 200),
        (("sh", "-c", "kill -KILL $$"), 128 + signal.SIGKILL),
        (("no-such-program",), 127),
        (("/no/such/program",), 127),
        (("/etc/latlab/modules",), 126),
    ],
)
def test_the_exit_status_is_the_program_s(guest: BootedGuest, words: tuple[str, ...], status: int) -> None:
    assert guest.run(*words).returncode == status


def test_what_cannot_be_run_is_said_in_a_line(guest: BootedGuest) -> None:
    assert guest.run("no-such-program").stderr == b"latlab-agent: no-such-program: not found in the guest\n"


def test_a_program_ends_though_what_it_started_goes_on_with_its_output(guest: BootedGuest) -> None:
    began = time.monotonic()
    left, said = guest.told("sh", "-c", "sleep 600 & echo $!; exec echo done").split()
    assert (said, time.monotonic() - began < PATIENCE_S / 2) == ("done", True)
    assert guest.running("sleep 600") == 1
    guest.told("kill", left)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_are_passed_on_to_the_whole_process_group(guest: BootedGuest, number: signal.Signals) -> None:
    relay = guest.start("sh", "-c", "sh -c 'echo ready; exec sleep 611'; echo not reached")
    assert relay.stdout and relay.stdout.readline() == b"ready\n"
    guest.wait_for(lambda: guest.running("sleep 611") == 1)
    relay.send_signal(number)
    out, _ = relay.communicate(timeout=PATIENCE_S)
    assert (out, relay.returncode) == (b"", 128 + number)
    assert guest.running("sleep 611") == 0


def test_a_signal_gets_through_while_input_is_not_read(guest: BootedGuest) -> None:
    relay = guest.start(
        "sh", "-c", "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done", stdin=subprocess.PIPE
    )
    assert relay.stdin and relay.stdout and relay.stdout.readline() == b"ready\n"
    with ThreadPoolExecutor() as pool:
        writing = pool.submit(relay.communicate, noise(5_000_000), PATIENCE_S)
        time.sleep(0.5)
        relay.send_signal(signal.SIGTERM)
        writing.result()
    assert relay.returncode == 9


def test_a_program_whose_output_nobody_reads_any_more_is_reported(guest: BootedGuest) -> None:
    relay = guest.start("cat", "/dev/zero")
    assert relay.stdout
    relay.stdout.read(1)
    relay.stdout.close()
    assert relay.wait(PATIENCE_S) == 128 + signal.SIGPIPE


def test_input_that_nobody_reads_does_not_hold_the_program_back(guest: BootedGuest) -> None:
    done = guest.run("sh", "-c", "exec <&-; sleep 0.3; echo on", said=noise(2_000_000))
    assert (done.returncode, done.stdout) == (0, b"on\n")


def test_output_that_cannot_be_written_is_an_error(guest: BootedGuest) -> None:
    with open("/dev/full", "wb") as full:
        relay = guest.start("echo", "lost", stdout=full)
        _, err = relay.communicate(timeout=PATIENCE_S)
    assert relay.returncode == 125
    assert err.startswith(b"latlab-agent: what the program says cannot be written: No space left")


def test_as_many_programs_run_at_once_as_there_are_ports_and_the_rest_in_turn(guest: BootedGuest) -> None:
    with ThreadPoolExecutor(12) as pool:
        done = list(pool.map(lambda n: guest.told("sh", "-c", f"sleep 0.2; echo {n}").strip(), range(3 * PORTS)))
    assert done == [str(n) for n in range(3 * PORTS)]


def test_many_programs_run_one_after_the_other(guest: BootedGuest) -> None:
    assert [guest.run("true").returncode for _ in range(300)] == [0] * 300
