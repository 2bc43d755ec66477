"""A machine whose shell prints on its own is named as that, over a real sshd."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.command import Place
from support.machine import run

pytestmark = pytest.mark.real

WELCOME = "Welcome to board 7"
NOISY = f"""#!/bin/sh
echo '{WELCOME}'
exec sh -c "$SSH_ORIGINAL_COMMAND"
"""


@pytest.fixture
def board(place: Place) -> Iterator[dict[str, Any]]:
    """A host of a scenario: this machine, through an sshd that starts a shell which prints an additional line."""
    folder = place.folder
    run("ip", "link", "set", "lo", "up")
    Path("/run/sshd").mkdir(exist_ok=True)
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "host"))
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "user"))
    (folder / "noisy").write_text(NOISY)
    (folder / "noisy").chmod(0o755)
    (folder / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1:2222\nHostKey {folder}/host\nPidFile none\nStrictModes no\nUsePAM no\n"
        f"PermitRootLogin yes\nAuthorizedKeysFile {folder}/user.pub\nForceCommand {folder}/noisy\n"
    )
    key = (folder / "host.pub").read_text()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:2222 {key}")
    (folder / "ssh_config").write_text(
        f"UserKnownHostsFile {folder}/known_hosts\nIdentityFile {folder}/user\nIdentitiesOnly yes\n"
    )
    sshd = subprocess.Popen([str(shutil.which("sshd", path="/usr/sbin")), "-D", "-f", str(folder / "sshd_config")])
    try:
        wait_until_it_listens(sshd)
        yield {
            "kind": "ssh",
            "ssh": {"destination": "root@127.0.0.1", "port": 2222, "config": str(folder / "ssh_config")},
        }
    finally:
        sshd.terminate()
        sshd.wait()


def wait_until_it_listens(sshd: subprocess.Popen[bytes]) -> None:
    while sshd.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", 2222)).close()
            break
        except ConnectionRefusedError:
            time.sleep(0.02)


def test_a_shell_that_prints_by_itself_is_named_with_what_it_prints(place: Place, board: dict[str, Any]) -> None:
    probes = {"tick": {"probe": "timer", "on": "ecu", "period": "2ms"}}
    path = place.scenario(hosts={"ecu": board}, links=None, streams=None, loads=None, matrix=None, probes=probes)
    ended = place.latlab("run", path)
    assert ended.status == 3
    assert "ecu has a login shell that prints nothing: `ssh -T " in ended.out
    assert f"actual '{WELCOME}' (the shell there prints this when it starts: make its start-up files" in ended.out
