"""Hosts: commands run where they should, and what goes wrong is said with its remedy."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from latlab.hosts import Host, LocalMachine, NamespaceHost, host_from
from latlab.hosts.base import Completed, Process
from latlab.hosts.ssh import RemoteHost
from latlab.model.errors import LabError, UnreachedError

HERE = LocalMachine("ecu")


def test_a_command_gets_its_input_and_returns_its_outputs() -> None:
    done = asyncio.run(HERE.run(("sh", "-c", "cat; echo oops >&2"), input=b"hello"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello", "oops\n")


def test_a_failing_command_names_host_command_status_and_its_last_words() -> None:
    with pytest.raises(LabError) as caught:
        asyncio.run(HERE.run(("sh", "-c", "seq 9 >&2; exit 3")))
    assert caught.value.where == "ecu"
    assert "status 3: 5; 6; 7; 8; 9" in caught.value.what


def test_of_a_script_the_first_line_is_named() -> None:
    with pytest.raises(LabError) as caught:
        asyncio.run(HERE.run(("sh", "-c", "first=1\nexit 3")))
    assert caught.value.what == "`sh -c 'first=1 …` ended with status 3: nothing on stderr"


@pytest.mark.parametrize("destination", ["no.such.host.invalid", "bad host"])
def test_a_machine_whose_name_leads_nowhere_is_not_reached(destination: str) -> None:
    machine = RemoteHost("board1", destination)
    with pytest.raises(UnreachedError, match=r"^board1: ssh to .* failed: .* \(correct the name"):
        asyncio.run(machine.run(("sh", "-c", "true\ntrue")))


@pytest.mark.parametrize(
    ("host", "command"),
    [
        (RemoteHost("board1", "root@board1", 2022), "ssh -T -o BatchMode=yes -p 2022 root@board1 -- false"),
        (
            NamespaceHost("ecu", "lab", RemoteHost("board1", "board1", config="conf", control="/run/c")),
            "ssh -T -F conf -o BatchMode=yes -p 22 board1 -- 'ip netns exec lab false'",
        ),
    ],
)
def test_of_a_command_over_ssh_an_error_has_what_one_would_type(host: Host, command: str) -> None:
    # Such a machine answers nobody here: the fault is made of what its command came to.
    lost = host.unreached(Completed(("false",), 255, "", "Connection to board1 closed by remote host."))
    assert lost is not None
    (said,) = str(lost).splitlines()
    assert said.startswith("board1: ssh to ") and "Connection to board1 closed by remote host." in said
    assert "ServerAlive" not in said and "ControlMaster" not in said
    assert host.short_line(("false",)) == command


def test_an_exit_status_can_be_asked_for_instead() -> None:
    assert asyncio.run(HERE.run(("false",), check=False)).returncode == 1


def test_a_missing_tool_names_the_package_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(LabError, match=r"ecu: ethtool is missing \(`sudo apt install ethtool`"):
        asyncio.run(HERE.run(("ethtool", "-T", "eth0")))


@pytest.mark.parametrize(("by", "named"), [("hwstamp_ctl", True), ("ethtool", False)])
def test_a_tool_that_a_shell_elsewhere_does_not_find_is_named_with_its_package(
    by: str, named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / by
    there.write_text("#!/bin/sh\necho 'bash: line 1: hwstamp_ctl: command not found' >&2\nexit 127\n")
    there.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(LabError) as caught:
        asyncio.run(HERE.run((by, "-i", "eth1")))
    assert ("linuxptp" in caught.value.remedy) is named


def test_a_command_that_hangs_is_ended_with_its_children() -> None:
    with pytest.raises(LabError, match=r"did not end within 0\.2 s"):
        asyncio.run(HERE.run(("sh", "-c", "sleep 60 & sleep 60"), timeout_s=0.2))


def test_of_a_command_that_does_not_end_nothing_is_concluded() -> None:
    assert HERE.ask(("false",)) is None
    with pytest.raises(LabError, match=r"ecu: `sleep 60` did not end within 0\.2 s"):
        HERE.ask(("sleep", "60"), timeout_s=0.2)


def test_a_cancelled_command_is_gone() -> None:
    pids: list[int] = []

    class Watched(LocalMachine):
        async def spawn(self, argv: Sequence[str], **options: Any) -> Process:
            process = await super().spawn(argv, **options)
            assert isinstance(process, asyncio.subprocess.Process)
            pids.append(process.pid)
            return process

    async def session() -> None:
        task = asyncio.ensure_future(Watched("ecu").run(("sleep", "60")))
        while not pids:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(session())
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_a_ctrl_c_at_the_terminal_does_not_reach_what_was_started() -> None:
    async def session() -> None:
        process = await HERE.spawn(("sleep", "60"))
        assert isinstance(process, asyncio.subprocess.Process)
        assert os.getsid(process.pid) == os.getpgid(process.pid) == process.pid
        process.send_signal(signal.SIGKILL)
        await process.wait()

    asyncio.run(session())


@pytest.mark.parametrize("host", [HERE, NamespaceHost("sensor", "latlab-t1-sensor")], ids=lambda host: host.kind)
def test_a_host_is_the_same_after_its_description(host: Host) -> None:
    again = host_from(host.describe())
    assert (type(again), again.name, again.command(("true",))) == (type(host), host.name, host.command(("true",)))


@pytest.mark.parametrize(
    "description", [{"kind": "moon", "name": "x"}, {"kind": "local", "name": "x", "crater": 3}, {}]
)
def test_a_description_from_another_version_is_refused(description: dict[str, object]) -> None:
    with pytest.raises(LabError, match="known kinds: local, netns"):
        host_from(description)


def test_a_namespace_shares_its_machine_s_kernel_and_so_its_clock() -> None:
    assert NamespaceHost("sensor", "latlab-t1-sensor").shared_kernel == HERE.shared_kernel


def test_a_namespace_s_command_can_be_pasted() -> None:
    host = NamespaceHost("sensor", "latlab-t1-sensor")
    assert host.command_line(("echo", "a b")) == "ip netns exec latlab-t1-sensor echo 'a b'"
