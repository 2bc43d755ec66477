"""Taking turns with a machine in virtual time: what it hears, when it runs, and what becomes of its processes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from latlab.hosts import MACHINE, LocalMachine, LostMachine, NamespaceHost, TurnsHost, signal_group, turns
from latlab.hosts.turns import PID
from latlab.model.errors import LabError
from latlab.testbed.apply import TestBed
from latlab.testbed.step import Check, Service
from support.hosts import EXIT, INPUT, INPUT_END, MORE, OUT, START, OwnMachine, Record


def echo(heard: list[Record]) -> list[Record]:
    """Each program started says its words and ends; what comes to its input is said, too."""
    said: list[Record] = []
    for program, kind, payload in heard:
        if kind in (START, INPUT):
            said.append((program, OUT, payload))
        if kind == INPUT_END:
            said.append((program, EXIT, b"\0"))
    return said


def test_a_command_is_heard_in_one_turn_and_ends_in_it(tmp_path: Path) -> None:
    async def work() -> None:
        with OwnMachine(tmp_path, echo) as machine:
            host = TurnsHost("board1", str(tmp_path))
            done = await host.run(("cat", "-"), input=b"text")
            assert (done.returncode, done.stdout) == (0, "cat\0-\0text")
            assert [[kind for _, kind, _ in turn] for turn in machine.heard] == [[START, INPUT, INPUT_END]]
            assert host.turns.tai_ns == 1_000

    asyncio.run(work())


def test_nothing_runs_while_nobody_waits_and_all_that_was_asked_is_heard_in_its_order(tmp_path: Path) -> None:
    async def work() -> None:
        with OwnMachine(tmp_path, echo) as machine:
            host = TurnsHost("board1", str(tmp_path))
            inner = NamespaceHost("ecu", "ns", machine=host)
            one = await host.spawn(("one",))
            two = await inner.spawn(("two",))
            await asyncio.sleep(0.1)
            assert machine.heard == []
            for process in (one, two):
                assert process.stdin
                process.stdin.close()
            await asyncio.gather(one.wait(), two.wait())
            (turn,) = machine.heard
            assert [payload for _, kind, payload in turn if kind == START] == [b"one\0", b"ip\0netns\0exec\0ns\0two\0"]

    asyncio.run(work())


def test_what_is_too_much_for_one_turn_is_heard_in_several(tmp_path: Path) -> None:
    sent = bytes(range(256)) * 8192

    def swallow(heard: list[Record]) -> list[Record]:
        return [(program, EXIT, b"\0") for program, kind, _ in heard if kind == INPUT_END]

    async def work() -> None:
        with OwnMachine(tmp_path, swallow) as machine:
            await TurnsHost("board1", str(tmp_path)).run(("cat",), input=sent)
            assert b"".join(body for turn in machine.heard for _, kind, body in turn if kind == INPUT) == sent
            assert [turn[-1][1] for turn in machine.heard] == [MORE] * (len(machine.heard) - 1) + [INPUT_END]

    asyncio.run(work())


def test_a_command_that_fails_is_an_error_with_its_words(tmp_path: Path) -> None:
    def fail(heard: list[Record]) -> list[Record]:
        return [
            said for program, kind, _ in heard if kind == START for said in ((program, 7, b"no\n"), (program, 8, b"\2"))
        ]

    async def work() -> None:
        with OwnMachine(tmp_path, fail), pytest.raises(LabError, match="board1: false` ended with status 2: no"):
            await TurnsHost("board1", str(tmp_path)).run(("false",))

    asyncio.run(work())


def test_processes_of_a_machine_that_dies_are_gone_with_it(tmp_path: Path) -> None:
    def die(heard: list[Record]) -> list[Record]:
        machine.die()
        return []

    async def work() -> None:
        process = await TurnsHost("board1", str(tmp_path)).spawn(("sleep", "9"))
        assert await asyncio.wait_for(process.wait(), 10) == -9

    with OwnMachine(tmp_path, die) as machine:
        asyncio.run(work())


def test_a_process_that_is_killed_is_gone_at_once_and_the_machine_hears_of_it_in_its_turn(tmp_path: Path) -> None:
    async def work() -> None:
        with OwnMachine(tmp_path, echo) as machine:
            host = TurnsHost("board1", str(tmp_path))
            process = await host.spawn(("one",))
            signal_group(process, 9)
            assert process.returncode == -9 and machine.heard == []
            await host.run(("two",))
            assert (1, 4, b"\x09") in machine.heard[0]

    asyncio.run(work())


def test_one_who_cannot_wait_is_answered_too_and_the_next_turn_is_as_ever(tmp_path: Path) -> None:
    async def work() -> None:
        with OwnMachine(tmp_path, echo) as machine:
            host = TurnsHost("board1", str(tmp_path))
            await host.run(("one",))
            assert host.ask(("two",)) == "two\0"
            assert (await host.run(("three",))).stdout == "three\0"
            assert len(machine.heard) == 3

    asyncio.run(work())


def test_a_machine_that_goes_on_from_where_another_was_kept_hears_nothing_of_what_that_one_has_heard(
    tmp_path: Path,
) -> None:
    async def set_up(host: TurnsHost) -> list[str]:
        first = (await host.run(("one",), input=b"text")).stdout
        return [first, host.ask(("two",)) or ""]

    async def keep() -> list[turns.Turn]:
        with OwnMachine(tmp_path, echo):
            host = TurnsHost("board1", str(tmp_path))
            host.turns.keeping = True
            assert await set_up(host) == ["one\0text", "two\0"]
            return host.turns.kept

    async def go_on(kept: list[turns.Turn]) -> None:
        with OwnMachine(there, echo) as machine:
            host = TurnsHost("board1", str(there))
            host.turns.go_on_after(kept)
            assert await set_up(host) == ["one\0text", "two\0"]
            assert machine.heard == [] and host.turns.tai_ns == kept[-1].halted_tai_ns
            assert (await host.run(("three",))).stdout == "three\0"
            assert [payload for _, kind, payload in machine.heard[0] if kind == START] == [b"three\0"]

    there = tmp_path / "next"
    there.mkdir()
    kept = asyncio.run(keep())
    assert len(kept) == 2
    asyncio.run(go_on(kept))


def test_a_machine_is_lost_whose_lab_says_anything_else_than_was_said_before(tmp_path: Path) -> None:
    async def work() -> None:
        with OwnMachine(tmp_path, echo) as machine:
            host = TurnsHost("board1", str(tmp_path))
            host.turns.go_on_after([turns.Turn(b"something else", 1000, b"")])
            assert (await host.run(("one",), check=False)).returncode == -9
            assert host.turns.differs and host.lost and machine.heard == []

    asyncio.run(work())


@pytest.mark.parametrize("cpus", range(2, 9))
def test_no_cpu_waits_longer_for_the_others_however_many_they_are(cpus: int) -> None:
    # Each executes for its share of the time until the timer is due.
    waits_us = turns.fine_us(cpus) / cpus * (cpus - 1)
    assert 0.8 * turns.WAIT_US < waits_us <= turns.WAIT_US


def test_a_service_is_looked_at_after_each_turn_and_its_machine_goes_no_further(tmp_path: Path) -> None:
    log = tmp_path / "log"

    def says(heard: list[Record]) -> list[Record]:
        return [(1, OUT, b"ready\n" if len(machine.heard) == 3 else b"not yet\n")]

    ready = Check(("sh", "-c", f"sleep 0.1; grep -c ^ready {log}"), "1", within_ms=10_000, at=MACHINE)

    async def work() -> None:
        hosts = {MACHINE: LocalMachine(MACHINE), "board1": TurnsHost("board1", str(tmp_path))}
        async with TestBed("t1", hosts) as bed:
            await bed.apply([Service("board1", "serve", ("serve",), str(log), ready=ready)])
            assert log.read_text() == "not yet\n" * 2 + "ready\n"
            machine.die()

    with OwnMachine(tmp_path, says) as machine:
        asyncio.run(work())
        assert len(machine.heard) == 3


def test_a_service_that_ends_before_it_is_ready_is_waited_for_no_longer(tmp_path: Path) -> None:
    log = tmp_path / "log"

    def ends(heard: list[Record]) -> list[Record]:
        return [(1, OUT, b"no\n"), (1, EXIT, b"\3")]

    async def work() -> None:
        hosts = {MACHINE: LocalMachine(MACHINE), "board1": TurnsHost("board1", str(tmp_path))}
        ready = Check(("grep", "-c", "^ready", str(log)), "1", within_ms=10_000, at=MACHINE)
        async with TestBed("t1", hosts) as bed:
            await bed.apply([Service("board1", "serve", ("serve",), str(log), ready=ready)])

    with OwnMachine(tmp_path, ends), pytest.raises(LabError, match="serve: `serve` ended with status 3"):
        asyncio.run(work())


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[OwnMachine]:
    """A machine that never ends its turn, as long as the test lasts."""
    over = threading.Event()

    def never(heard: list[Record]) -> None:
        over.wait()

    with OwnMachine(tmp_path, never) as machine:
        yield machine
        over.set()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("still_s", "turn_s", "hang_cpu_s", "program", "why"),
    [
        (2.0, 60.0, 60.0, ("sleep", "60"), "has not advanced"),
        (60.0, 2.0, 60.0, ("yes",), "its clock has not advanced for 2 s"),
        (60.0, 60.0, 1.0, ("yes",), "its clock has not advanced while QEMU executed it for 1 s"),
    ],
    ids=["its time stands still", "it goes on for ever", "it is executed for ever"],
)
def test_a_turn_that_never_ends_is_the_machines_last(
    tmp_path: Path,
    endless: OwnMachine,
    monkeypatch: pytest.MonkeyPatch,
    still_s: float,
    turn_s: float,
    hang_cpu_s: float,
    program: tuple[str, ...],
    why: str,
) -> None:
    monkeypatch.setattr(turns, "SAMPLE_S", 0.1)
    monkeypatch.setattr(turns, "STILL_S", still_s)
    monkeypatch.setattr(turns, "TURN_S", turn_s)
    monkeypatch.setattr(turns, "HANG_CPU_S", hang_cpu_s)

    async def work() -> None:
        host = TurnsHost("board1", str(tmp_path))
        process = await host.spawn(("one",))
        assert await asyncio.wait_for(process.wait(), 30) == -9
        assert (lost := await host.silence()) and why in lost.why
        # Nothing waits for it again.
        assert await asyncio.wait_for((await host.spawn(("two",))).wait(), 5) == -9

    with subprocess.Popen(program, stdout=subprocess.DEVNULL) as qemu:
        (tmp_path / PID).write_text(f"{qemu.pid}\n")
        try:
            asyncio.run(work())
        finally:
            qemu.kill()


def test_a_machine_that_stops_in_the_middle_of_its_turn_is_lost(tmp_path: Path) -> None:
    async def work() -> None:
        with OwnMachine(tmp_path, lambda heard: None):
            host = TurnsHost("board1", str(tmp_path))
            process = await host.spawn(("one",))
            assert await asyncio.wait_for(process.wait(), 10) == -9
            assert await host.silence() == LostMachine("it stopped during its turn: QEMU reports that it is paused")

    asyncio.run(work())


VCPU: dict[str, Any] = {
    "tid": 269,
    "pid": 260,
    "name": "CPU 0/KVM",
    "machine": "vm1",
    "policy": "SCHED_FIFO",
    "priority": 1,
    "cpu": 0,
    "ran_ns": 1_980_000_000,
}
VHOST = VCPU | {"tid": 270, "name": "vhost-260", "priority": 2, "ran_ns": 400_000_000}
LOOP = VCPU | {"tid": 9, "pid": 9, "name": "sh", "machine": None, "priority": 50}


@pytest.mark.parametrize(
    ("cpus", "threads", "why", "remedy"),
    [
        (
            [0],
            [VCPU, VCPU | {"tid": 12, "name": "ktimers/0", "machine": None, "ran_ns": 1_000_000}],
            "its ordinary threads starve: CPU 0 is occupied by CPU 0/KVM (a vCPU of vm1, thread 269) at SCHED_FIFO 1, "
            "for 99 % of 2 s",
            "leave out `fifo` in tuning: guests: vm1: vcpus; or another CPU (`cpus` of board1) for it alone, by `cpus` "
            "with `fifo`",
        ),
        (
            [0, 1],
            [LOOP, VHOST],
            "its ordinary threads starve: CPUs 0, 1 are occupied by sh (thread 9) at SCHED_FIFO 50, for 99 % of 2 s, "
            "and by vhost-260 (the vhost thread of vm1, thread 270) at SCHED_FIFO 2, for 20 % of 2 s",
            "run sh as an ordinary thread; or another CPU (`cpus` of board1) for it alone",
        ),
    ],
    ids=["a guest's vCPU", "another program"],
)
def test_a_machine_whose_ordinary_threads_starve_says_who_has_the_cpu_and_what_to_change(
    tmp_path: Path, cpus: list[int], threads: list[dict[str, Any]], why: str, remedy: str
) -> None:
    report = {"cpus": cpus, "window_ns": 2_000_000_000, "threads": threads}

    def starve(heard: list[Record]) -> None:
        machine.say_it_starves(json.dumps(report).encode())

    async def work() -> None:
        host = TurnsHost("board1", str(tmp_path))
        process = await host.spawn(("one",))
        assert await asyncio.wait_for(process.wait(), 10) == -9
        assert await host.silence() == LostMachine(why, remedy)

    with OwnMachine(tmp_path, starve) as machine:
        asyncio.run(work())


@pytest.mark.slow
def test_a_turn_may_take_long_as_long_as_the_machines_watch_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "SAMPLE_S", 0.05)
    monkeypatch.setattr(turns, "TURN_S", 1.0)

    def turn(heard: list[Record]) -> list[Record]:
        for second in range(15):
            machine.look(second)
            time.sleep(0.2)
        return echo(heard)

    async def work() -> None:
        assert (await TurnsHost("board1", str(tmp_path)).run(("one",))).stdout == "one\0"

    with OwnMachine(tmp_path, turn) as machine:
        asyncio.run(work())


@pytest.mark.slow
def test_one_who_has_waited_in_vain_learns_whether_the_machine_is_lost(
    tmp_path: Path, endless: OwnMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "_LAST_CHANCE_S", 0.5)

    async def work() -> None:
        host = TurnsHost("board1", str(tmp_path))
        assert await host.silence() is None
        assert host.ask(("one",), timeout_s=0.1) is None
        assert await host.silence()
        process = await host.spawn(("two",))
        assert await asyncio.wait_for(process.wait(), 10) == -9

    asyncio.run(work())


@pytest.mark.slow
def test_a_turn_that_ends_late_is_heard_all_the_same(tmp_path: Path) -> None:
    late = threading.Event()

    def turn(heard: list[Record]) -> list[Record]:
        late.wait(10)
        return echo(heard)

    async def work() -> None:
        with OwnMachine(tmp_path, turn) as machine:
            host = TurnsHost("board1", str(tmp_path))
            late.set()
            await host.run(("one",))
            late.clear()
            assert host.ask(("two",), timeout_s=0.1) is None
            late.set()
            assert await host.silence() is None
            assert (await host.run(("three",))).stdout == "three\0"
            assert len(machine.heard) == 3

    asyncio.run(work())
