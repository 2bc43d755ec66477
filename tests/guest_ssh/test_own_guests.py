"""The user's own kernel and disk as guests: a whole run, and what is said when one cannot be reached."""

from __future__ import annotations

import contextlib
import hashlib
import signal
from pathlib import Path
from typing import Any

import pytest

from support.command import Place, cells_of, until_measuring
from support.guests.foreign import APPEND, PACKETS, System, counted, scenario


def guest(system: System, **parts: Any) -> dict[str, Any]:
    """The guest as a scenario has it."""
    origin = {"kernel": str(system.kernel), "initrd": str(system.initrd), "append": APPEND}
    return {"host": "ecu", "uplink": "eth0", "ssh": {"config": str(system.config)}, **origin, **parts}


def reason(place: Place) -> str:
    """Why the one cell failed."""
    (cell,) = cells_of(place.only_run()).values()
    assert cell["status"] == "failed"
    return " ".join(str(cell["reason"][key]) for key in ("where", "what", "remedy"))


def running(system: System) -> list[str]:
    """The command of every process that has to do with the system: QEMU, and each ssh into it."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return [command for command in found if str(system.config.parent) in command]


def test_a_kernel_of_one_s_own_is_measured_and_nothing_is_left(place: Place, system: System) -> None:
    before = place.trace()
    ended = place.latlab("run", scenario(place, guest(system)), "--json")
    assert ended.status == 0, ended.err
    assert counted(ended) == {name: (count, 0) for name, count in PACKETS.items()}
    assert place.trace() == before


def test_a_disk_of_one_s_own_is_measured_and_not_written_to(place: Place, system: System, disk: Path) -> None:
    def digest() -> str:
        with disk.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    before = digest()
    wanted = guest(system, kernel=None, initrd=None, append=None, disk=str(disk))
    ended = place.latlab("run", scenario(place, wanted), "--json")
    assert ended.status == 0, ended.err
    assert counted(ended) == {name: (count, 0) for name, count in PACKETS.items()}
    assert digest() == before


def test_a_guest_that_lets_nobody_in_is_reported_at_once_and_how_to_mend_it(place: Place, system: System) -> None:
    keyless = place.folder / "keyless"
    keyless.write_text(system.config.read_text().replace("IdentityFile", "#"))
    ended = place.latlab("run", scenario(place, guest(system, ssh={"config": str(keyless)})))
    assert ended.status == 3
    said = reason(place)
    assert said.startswith("vm1 ssh to vm1 failed: ")
    assert "Permission denied" in said and "add your public key to its authorized_keys" in said


def test_a_host_key_that_is_not_known_is_reported_with_the_name_it_is_wanted_under(
    place: Place, system: System
) -> None:
    stranger = place.folder / "stranger"
    stranger.write_text(system.config.read_text().replace("UserKnownHostsFile ", "UserKnownHostsFile /dev/null #"))
    ended = place.latlab("run", scenario(place, guest(system, ssh={"config": str(stranger)})))
    assert ended.status == 3
    said = reason(place)
    assert "Host key verification failed" in said and "known_hosts" in said and "HostKeyAlias=vm1" in said


def test_the_interface_that_has_the_card_is_named_when_the_scenario_names_another(place: Place, system: System) -> None:
    assert place.latlab("run", scenario(place, guest(system, interface="eth1"))).status == 3
    assert "expected 'eth1', actual 'eth0'" in reason(place)


def test_a_guest_that_does_not_boot_is_reported_with_its_last_words(place: Place, system: System) -> None:
    wanted = guest(system, append="console=ttyS0 panic=-1 rdinit=/no/such/init")
    assert place.latlab("run", scenario(place, wanted)).status == 3
    said = reason(place)
    assert "start vm1: `qemu-system-x86_64` ended with status" in said
    assert "the last lines of its console" in said and "Kernel panic" in said


def test_a_lab_that_is_killed_leaves_what_clean_takes_away(place: Place, system: System) -> None:
    before = place.trace()
    lab = place.start("run", scenario(place, guest(system), duration="60s"))
    lab.until("60 s")
    until_measuring(place, lab)
    assert running(system)
    lab.signal(signal.SIGKILL)
    lab.process.wait()
    place.latlab("clean")
    assert running(system) == []
    assert place.trace()["network"] == before["network"]


@pytest.mark.parametrize("key", ["kernel", "initrd"])
def test_a_file_that_is_not_there_makes_the_cell_unavailable(place: Place, system: System, key: str) -> None:
    ended = place.latlab("run", scenario(place, guest(system, **{key: "/no/such/file"})))
    assert ended.status == 3
    (cell,) = cells_of(place.only_run()).values()
    assert (cell["status"], cell["reason"]["where"]) == ("unavailable", f"guests.vm1.{key}")
    assert cell["reason"]["what"] == "there is no file /no/such/file"
