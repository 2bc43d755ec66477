"""`latlab watch` in a guest that a lab has started: reached through its ports while the lab uses others."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from latlab.hosts import GuestHost
from latlab.model.errors import UsageError
from latlab.run import watch
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.guests.running import running_guest
from support.agent.bed import Bed
from support.agent.watch import COUNT, FLOW, PORT, cell_of, payload, reasons, send, transit, watching

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not Path("/sys/kernel/btf/vmlinux").exists(),
        reason="this kernel has no BTF, so no BPF program sees its packets",
    ),
]

PORTS = 8
ENDS_APART_S = 2.0
"""Two agents do not end at the same moment: packets count as long as both watch."""


class Ports:
    """The ports of a guest, in a folder: what is run by them is run in a namespace, which stands for the guest."""

    def __init__(self, folder: Path, namespace: str) -> None:
        folder.mkdir(parents=True)
        (folder / "pid").write_text(f"{os.getpid()}\n")
        self._command = ("ip", "netns", "exec", namespace, str(find_agent()), "serve", "-")
        self._sockets: list[socket.socket] = []
        for number in range(1, PORTS + 1):
            port = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            port.bind(str(folder / f"port{number}.sock"))
            port.listen()
            self._sockets.append(port)
            threading.Thread(target=self._serve, args=(port,), daemon=True).start()

    def _serve(self, port: socket.socket) -> None:
        while True:
            try:
                connection, _ = port.accept()
            except OSError:
                return
            with connection:
                subprocess.run(self._command, stdin=connection.fileno(), stdout=connection.fileno(), check=False)

    def close(self) -> None:
        """No more are served."""
        for port in self._sockets:
            port.shutdown(socket.SHUT_RDWR)
            port.close()


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of labs' state, and journals of the test's own."""
    monkeypatch.setenv("LATLAB_STATE", str(tmp_path / "journals"))
    monkeypatch.setattr(GuestHost, "agent", str(find_agent()))
    folder = tmp_path / "state"
    monkeypatch.setattr(watch, "running_guest", partial(running_guest, state=folder))
    return folder


@pytest.fixture
def guest(bed: Bed, state: Path) -> Iterator[Ports]:
    """A guest `vm1` of a lab."""
    ports = Ports(state / "ab12" / "vm1", "ecu")
    yield ports
    ports.close()


def test_packets_are_followed_into_a_guest_that_a_lab_has_started(bed: Bed, tmp_path: Path, guest: Ports) -> None:
    with bed.udp("sensor", "10.78.0.1") as talker, bed.udp("ecu", "10.78.0.2", PORT):

        def act() -> None:
            send(talker, ("10.78.0.2", PORT))
            time.sleep(ENDS_APART_S)

        at = ("ns:sensor/ecu:out", "guest:vm1/sensor:in")
        folder = watching(tmp_path, act, at, flow=FLOW, clock_bound_ns=1_000_000)
    cell = cell_of(folder)
    figures = transit(cell, "ns-sensor-ecu-out-to-guest-vm1-sensor-in")
    assert (figures["n"], figures["lost"], figures["uncertainty_ns"]) == (COUNT, 0, 1_000_000)
    assert (cell["verdict"], reasons(folder)) == ("trusted", {})


def test_packets_are_followed_from_a_program_to_a_program_in_a_guest(bed: Bed, tmp_path: Path, guest: Ports) -> None:
    with bed.udp("sensor", "10.78.0.1") as talker, bed.udp("ecu", "10.78.0.2", PORT) as listener:

        def act() -> None:
            for number in range(COUNT):
                talker.sendto(payload(number), ("10.78.0.2", PORT))
                listener.recv(100)
            time.sleep(ENDS_APART_S)

        at = ("ns:sensor/socket:out", "guest:vm1/sensor:in", "guest:vm1/socket:in")
        folder = watching(tmp_path, act, at, clock_bound_ns=1_000_000)
    cell = cell_of(folder)
    for name in ("ns-sensor-socket-out-to-guest-vm1-socket-in", "guest-vm1-sensor-in-to-guest-vm1-socket-in"):
        assert (transit(cell, name)["n"], transit(cell, name)["lost"]) == (COUNT, 0)
    assert (cell["verdict"], reasons(folder)) == ("trusted", {})


def test_a_guest_that_does_not_run_is_one_error_with_those_that_do(tmp_path: Path, state: Path, guest: Ports) -> None:
    with pytest.raises(UsageError) as refused:
        watching(tmp_path, lambda: None, ("guest:vm2/eth0",))
    assert refused.value.where == "guest:vm2/eth0"
    assert refused.value.what.startswith("no lab has a guest 'vm2' now; there is vm1")
    # What a lab that was killed has left is no guest.
    (state / "ab12" / "vm1" / "pid").write_text(f"{2**22 + 1}\n")
    with pytest.raises(UsageError, match="no lab has a guest 'vm1' now"):
        watching(tmp_path, lambda: None, ("guest:vm1/eth0",))
    assert not list(tmp_path.glob("runs/*"))


def test_of_two_guests_of_one_name_none_is_guessed(tmp_path: Path, state: Path, guest: Ports) -> None:
    other = Ports(state / "cd34" / "vm1", "ecu")
    with pytest.raises(UsageError, match="2 labs have a guest 'vm1' now"):
        watching(tmp_path, lambda: None, ("guest:vm1/eth0",))
    other.close()
