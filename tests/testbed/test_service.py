"""A service that ends is named by its program, not by what its command begins with."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from latlab.hosts import MACHINE, Host, LocalMachine, LostMachine
from latlab.model.errors import LabError, SnapshotError, StartError
from latlab.scenario import Scenario, parse
from latlab.testbed import apply, makers
from latlab.testbed.apply import TestBed
from latlab.testbed.bridges.base import Plug
from latlab.testbed.guests.qemu import with_descriptors
from latlab.testbed.guests.start import planned_site
from latlab.testbed.step import Argv, Check, Service, Step

ON_A_NODE = Plug(netdev=None, fds=((5, "/dev/null"),))


@pytest.mark.parametrize(
    "argv",
    [
        ("false",),
        ("/bin/false", "--for=nothing"),
        ("env", "FOLDER=/run/x", "false", "A=B"),
        with_descriptors(ON_A_NODE, ("false",)),
        ("env", "FOLDER=/run/x", *with_descriptors(ON_A_NODE, ("false",))),
        ("setpriv", "--pdeathsig", "KILL", "false"),
    ],
    ids=["itself", "with its folder", "by env", "by a shell", "by both", "by setpriv"],
)
def test_what_has_ended_is_called_by_its_own_name(argv: Argv, tmp_path: Path) -> None:
    async def session() -> None:
        async with TestBed("t1", {MACHINE: LocalMachine(MACHINE)}) as bed:
            await bed.apply([Service(MACHINE, "serve", argv, str(tmp_path / "log"), ready=Check(("true",), "ready"))])

    with pytest.raises(LabError, match="serve: `false` ended with status 1"):
        asyncio.run(session())


def test_what_does_not_get_ready_says_what_to_do_and_where_its_output_is(tmp_path: Path) -> None:
    log = tmp_path / "log"
    ready = Check(("echo", "SLAVE"), expected="locked", within_ms=100, remedy="see ptp4l's log")

    async def session() -> None:
        async with TestBed("t1", {MACHINE: LocalMachine(MACHINE)}) as bed:
            await bed.apply([Service(MACHINE, "run ptp4l", ("sleep", "100"), str(log), ready=ready)])

    with pytest.raises(LabError, match=r"run ptp4l: `echo SLAVE` expected 'locked' within 0\.1 s") as raised:
        asyncio.run(session())
    assert raised.value.remedy == f"see ptp4l's log; its whole output is in {log}"


def test_a_shell_that_cannot_become_it_is_called_by_its_name_and_says_so(tmp_path: Path) -> None:
    argv = with_descriptors(Plug(netdev=None, fds=((5, "/nowhere/tap"),)), ("qemu-system-x86_64",))

    async def session() -> None:
        async with TestBed("t1", {MACHINE: LocalMachine(MACHINE)}) as bed:
            await bed.apply([Service(MACHINE, "start vm1", argv, str(tmp_path / "log"), ready=Check(("true",), "x"))])

    with pytest.raises(
        LabError, match=r"start vm1: `qemu-system-x86_64` ended(.|\n)*qemu-system-x86_64: .*/nowhere/tap"
    ):
        asyncio.run(session())


@pytest.mark.parametrize(
    ("words", "removed"), [("echo refused; exit 1", True), ("kill -KILL $$", False)], ids=["refuses it", "is killed"]
)
def test_a_snapshot_is_removed_once_its_service_does_not_get_ready_from_it(
    tmp_path: Path, words: str, removed: bool
) -> None:
    snapshot = tmp_path / "snapshot"
    snapshot.touch()
    ready = Check(("true",), "ready", within_ms=9000)
    service = Service(
        MACHINE, "start board1", ("sh", "-c", words), str(tmp_path / "log"), ready=ready, incoming=snapshot
    )

    async def session() -> None:
        async with TestBed("t1", {MACHINE: LocalMachine(MACHINE)}) as bed:
            await bed.apply([service])

    with pytest.raises(SnapshotError if removed else LabError, match="start board1: `sh` ") as found:
        asyncio.run(session())
    assert snapshot.exists() != removed
    assert (str(snapshot) in found.value.what) == removed


def test_a_snapshot_from_which_a_service_starts_is_the_newest_again(tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot"
    snapshot.touch()
    os.utime(snapshot, (0, 0))
    ready = Check(("echo", "ready"), "ready")
    service = Service(MACHINE, "start vm1", ("sleep", "100"), str(tmp_path / "log"), ready=ready, incoming=snapshot)
    before = time.time() - 1

    async def session() -> None:
        async with TestBed("t1", {MACHINE: LocalMachine(MACHINE)}) as bed:
            await bed.apply([service])

    asyncio.run(session())
    assert snapshot.stat().st_mtime > before


def test_a_machine_that_hangs_as_it_boots_for_its_snapshot_may_be_started_again(tmp_path: Path) -> None:
    ready = Check(("true",), "ready", within_ms=200)
    argv = ("sleep", "100")
    passing, lasting = (
        Service(MACHINE, "boot board1", argv, str(tmp_path / "log"), ready=ready, passing=one) for one in (True, False)
    )

    async def session(service: Service) -> None:
        async with TestBed("t1", {MACHINE: LocalMachine(MACHINE)}) as bed:
            await bed.apply([service])

    with pytest.raises(StartError, match=r"boot board1: `true` expected 'ready' within 0\.2 s") as found:
        asyncio.run(session(passing))
    assert found.value.again == "starting again: boot board1 did not finish"
    with pytest.raises(LabError, match="boot board1") as other:
        asyncio.run(session(lasting))
    assert not isinstance(other.value, StartError)


@pytest.mark.parametrize("status", [0, 3], ids=["as it was to", "with a failure"])
def test_all_processes_are_searched_only_for_what_is_left_of_a_service_that_has_failed(
    tmp_path: Path, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[str] = []

    async def noted(host: Host, mark: str) -> bool:
        searched.append(mark)
        return False

    monkeypatch.setattr(apply, "end_process", noted)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    argv = ("sh", "-c", f'read word < "{pipe}"; exit {status}')
    ready = Check(("echo", "ready"), "ready")
    boot = Service(MACHINE, "boot vm1", argv, str(tmp_path / "log"), ready=ready, passing=True)

    async def session() -> None:
        async with TestBed("t1", {MACHINE: LocalMachine(MACHINE)}) as bed:
            await bed.apply([boot, Step(MACHINE, "keep its snapshot", ("sh", "-c", f'echo end > "{pipe}"'))])
            while not all(service.ended() for service in bed._services.values()):
                await asyncio.sleep(0.01)

    asyncio.run(session())
    assert len(searched) == (1 if status else 0)


def guest_behind(bridge: str) -> Scenario:
    """A guest of ours joined to a namespace's cable by this bridge."""
    found = parse(
        {
            "name": "one",
            "hosts": {"sensor": {"kind": "netns"}, "ecu": {"kind": "netns"}},
            "links": [{"ends": ["sensor.eth0", "ecu.eth0"]}],
            "guests": {"vm1": {"host": "ecu", "uplink": "eth0", "bridge": bridge}},
            "streams": {"down": {"talker": "sensor", "listener": "vm1", "period": "1ms", "size": "64B"}},
            "duration": "1s",
        }
    )
    assert found.scenario is not None, found.findings
    return found.scenario


@pytest.mark.parametrize(
    ("bridge", "programs"),
    [
        ("tap", ["qemu-system"]),
        ("macvtap", ["qemu-system"]),
        ("xdp", ["latlab-agent", "qemu-system"]),
        ("ovs", ["ovsdb-server", "ovs-vswitchd", "qemu-system"]),
        ("ovs-afxdp", ["ovsdb-server", "ovs-vswitchd", "qemu-system"]),
    ],
)
def test_every_service_of_a_bridge_and_its_guest_has_its_program_s_name(bridge: str, programs: list[str]) -> None:
    scenario = guest_behind(bridge)
    steps = makers.test_bed_steps(scenario, planned_site(scenario))
    found = [step.program for step in steps if isinstance(step, Service)]
    assert len(found) == len(programs)
    # QEMU's name ends in an architecture, and the switch's may in the package that it is of.
    assert all(name.startswith(program) for name, program in zip(found, programs, strict=True)), found


def test_what_ended_with_a_machine_that_is_lost_is_no_cause_of_its_own(tmp_path: Path) -> None:
    class Board(LocalMachine):
        lost = LostMachine("its ordinary threads starve", "leave out `fifo`")

    hosts = {MACHINE: LocalMachine(MACHINE), "board1": Board("board1"), "vm1": LocalMachine("vm1")}
    runs = Service(MACHINE, "start board1", ("sleep", "60"), str(tmp_path / "board1"), carries="board1")
    ends = Service("board1", "start vm1", ("false",), str(tmp_path / "vm1"), carries="vm1")

    async def session() -> LabError:
        async with TestBed("t1", hosts) as bed:
            await bed.apply([runs, ends])
            while bed.failure() is None:
                await asyncio.sleep(0.01)
            return await bed.cause_of(LabError("it ended", where="board1, vm1"))

    assert str(asyncio.run(session())) == "board1: its ordinary threads starve (leave out `fifo`)"
