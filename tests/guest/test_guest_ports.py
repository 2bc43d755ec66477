"""What happens when a relay, a port or a guest fails; and what a guest is like once it serves."""

from __future__ import annotations

import fcntl
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from latlab.testbed.images import Image
from support.guests.booted import NAME, PATIENCE_S, PORTS, BootedGuest, boot, qemu, relay


@contextmanager
def only_port(guest: BootedGuest, number: int) -> Iterator[None]:
    """All ports but that one are taken."""
    with ExitStack() as locks:
        for other in set(range(1, PORTS + 1)) - {number}:
            lock = locks.enter_context((guest.directory / f"port{other}.lock").open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def test_the_guest_is_prepared(guest: BootedGuest) -> None:
    mounted = {line.split()[1] for line in guest.told("cat", "/proc/mounts").splitlines()}
    assert mounted >= {"/proc", "/sys", "/dev", "/dev/pts", "/run", "/tmp", "/sys/kernel/tracing", "/sys/fs/bpf"}
    assert guest.told("hostname").strip() == NAME
    assert guest.told("sh", "-c", "echo $PATH $HOME").split() == ["/usr/sbin:/usr/bin:/sbin:/bin", "/"]
    assert "UP" in guest.told("ip", "link", "show", "lo").split("<")[1].split(">")[0].split(",")
    assert f"latlab-agent: init: serving {PORTS} ports" in guest.console()


def test_orphans_are_reaped(guest: BootedGuest) -> None:
    guest.told("sh", "-c", "(sleep 0.3 & sleep 0.2 &)")
    guest.wait_for(lambda: guest.running("sleep 0.3") == 0)
    assert "Z" not in guest.told("sh", "-c", "sed -n 's/^State:.//p' /proc/[0-9]*/status 2>/dev/null; :")


def test_a_killed_server_is_replaced(guest: BootedGuest) -> None:
    with only_port(guest, PORTS):
        done = guest.run("sh", "-c", "kill -KILL $PPID")
        assert (done.returncode, b"guest" in done.stderr) == (125, True)
        assert guest.told("echo", "back") == "back\n"


@pytest.mark.parametrize("stubborn", [False, True])
def test_the_program_s_group_ends_with_its_relay(guest: BootedGuest, stubborn: bool) -> None:
    trap = "trap '' TERM HUP;" if stubborn else ""
    program = guest.start("sh", "-c", f"{trap} (sleep 622; :) & echo ready; while :; do sleep 1; done")
    assert program.stdout and program.stdout.readline() == b"ready\n"
    guest.wait_for(lambda: guest.running("sleep 622") == 1)
    program.kill()
    program.wait()
    guest.wait_for(lambda: guest.running("sleep 622") == 0)


def test_a_relay_killed_in_the_middle_of_its_words_leaves_the_port_usable(guest: BootedGuest) -> None:
    with only_port(guest, 1):
        for delay in (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2) * 5:
            with open("/dev/zero", "rb") as zeros:
                program = guest.start("sh", "-c", "cat /dev/zero & cat >/dev/null", stdin=zeros)
            time.sleep(delay)
            program.kill()
            assert guest.told("echo", "next") == "next\n"
            program.communicate()


def test_bytes_of_a_stranger_do_not_spoil_a_port(guest: BootedGuest) -> None:
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(guest.directory / "port1.sock"))
        stranger.sendall(b"\xf5latlab ports 1\n" + bytes(5))
    with only_port(guest, 1):
        assert guest.told("echo", "next") == "next\n"


def test_a_directory_that_is_not_there_is_an_error_at_once(tmp_path: Path) -> None:
    began = time.monotonic()
    done = subprocess.run(relay(tmp_path / "none", "true"), capture_output=True, text=True, check=False)
    assert (done.returncode, time.monotonic() - began < PATIENCE_S / 2) == (125, True)
    assert "none: No such file or directory" in done.stderr


def test_sockets_nobody_listens_at_are_an_error_at_once(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(tmp_path / "port1.sock"))
    began = time.monotonic()
    done = subprocess.run(relay(tmp_path, "true"), capture_output=True, text=True, check=False)
    assert (done.returncode, time.monotonic() - began < PATIENCE_S / 2) == (125, True)
    assert done.stderr.endswith("does not run; start it\n")


def test_a_guest_that_does_not_answer_is_waited_for_no_longer_than_told(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "port1.sock"))
        silent.listen()
        done = subprocess.run(relay(tmp_path, "true", patience=0.5), capture_output=True, text=True, check=False)
    assert done.returncode == 125
    assert done.stderr == f"latlab-agent: the guest at {tmp_path} does not answer within 0.5 s\n"


def test_a_guest_whose_ports_are_all_taken_is_an_error(guest: BootedGuest) -> None:
    with only_port(guest, 0):
        done = guest.run("true", patience=0.3)
    assert done.returncode == 125
    assert done.stderr.startswith(f"latlab-agent: every port of the guest at {guest.directory} is in use".encode())


def test_a_program_waits_for_its_guest_to_boot(image: Image, tmp_path: Path) -> None:
    waiting = subprocess.Popen(relay(tmp_path, "echo", "booted"), stdout=subprocess.PIPE)
    time.sleep(0.3)
    with qemu(image, tmp_path):
        assert waiting.communicate(timeout=2 * PATIENCE_S)[0] == b"booted\n"


def test_a_guest_that_dies_is_said_to_be_gone(own_guest: BootedGuest) -> None:
    program = own_guest.start("sh", "-c", "echo ready; exec sleep 600")
    assert program.stdout and program.stdout.readline() == b"ready\n"
    own_guest.process.kill()
    _, err = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 125
    assert err.startswith(f"latlab-agent: the guest at {own_guest.directory} is gone".encode())


def test_a_restored_guest_answers_at_its_new_sockets(own_guest: BootedGuest, image: Image, tmp_path: Path) -> None:
    own_guest.told("sh", "-c", "echo kept >/tmp/file")
    state = tmp_path / "state"
    own_guest.monitor("migrate", uri=f"exec:cat >{state}")
    own_guest.wait_for(lambda: own_guest.monitor("query-migrate").get("status") == "completed")
    elsewhere = tmp_path / "restored"
    elsewhere.mkdir()
    for _ in range(2):
        with boot(image, elsewhere, "-incoming", f"exec:cat {state}") as restored:
            assert restored.told("cat", "/tmp/file") == "kept\n"
