"""PTP in a run: streams wait for the lock, what ptp4l says is recorded, and what goes wrong with it is reported."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from latlab.analysis.words import duration
from support.command import Lab, Place, cells_of, read
from support.machine import alive

pytestmark = pytest.mark.real

ROLES = {"sensor.eth0": "master", "ecu.eth0": "slave"}
PTP: dict[str, Any] = {
    "clock": {"ptp": {"ports": ROLES, "limit": "10ms"}},
    "loads": None,
    "matrix": None,
    "warmup": "100ms",
}
"""A slave that turns no clock, on a machine however busy: both ends have its clock."""


def scenario(place: Place, duration: str, **parts: Any) -> Path:
    stream = {"talker": "sensor", "listener": "ecu", "period": "5ms", "size": "64B"}
    return place.scenario(**PTP | {"streams": {"control": stream}, "duration": duration} | parts)


def ptp4l(lab: Lab) -> dict[str, int]:
    """The pid of each ptp4l of this lab by its port: of all processes those that descend from it."""
    parents, found = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status = (entry / "stat").read_text()
                command = (entry / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue  # it has ended meanwhile
            parents[int(entry.name)] = int(status.rpartition(")")[2].split()[1])
            if command[0] == "ptp4l":
                sockets = [word for word in command if word.startswith("--uds_address=")]
                found[int(entry.name)] = "".join(sockets).rpartition("/")[2]

    def ours(pid: int) -> bool:
        return pid == lab.process.pid or (pid in parents and ours(parents[pid]))

    return {port: pid for pid, port in found.items() if ours(pid)}


def ptp_of(folder: Path) -> dict[str, Any]:
    (cell,) = read(folder / "result.json")["cells"]
    return {port["port"]: port for port in cell["ptp"]}


def reasons(folder: Path) -> dict[tuple[str, str], str]:
    """What was found, by the check and the place in the cell: a port."""
    found = read(folder / "result.json")["reasons"]
    return {(one["id"], one["where"].rpartition(": ")[2]): one["actual"] for one in found}


@pytest.mark.alone
def test_ptp_is_locked_before_streams_start_and_is_recorded_and_shown(place: Place) -> None:
    before = place.trace()
    ended = place.latlab("run", scenario(place, "2s"))
    assert ended.status == 0, ended.err + ended.out
    assert place.trace() == before
    folder = place.only_run()
    (cell,) = cells_of(folder).values()
    steps = {step["title"]: step for step in cell["steps"]}
    assert steps["run ptp4l at sensor.eth0, as master"]["actual"] == "MASTER"
    assert steps["run ptp4l at ecu.eth0, as slave"]["actual"] == "locked"
    assert steps["ecu.eth0 is locked before streams start"]["actual"] == "locked"
    ports = ptp_of(folder)
    master, slave = ports["sensor.eth0"], ports["ecu.eth0"]
    assert (list(master["states"]), master["unlocked"]) == (["MASTER"], [])
    assert (slave["unlocked"], slave["unanswered"]) == ([], 0)
    assert slave["readings"] >= 4
    assert slave["path_delay_ns"]["p50"] > 0
    # Both ends have one clock: by our own readings it is not off at all.
    assert (slave["checked"]["ours_p50_ns"], slave["checked"]["half_p50_ns"], slave["checked"]["apart"]) == (0, 0, 0)
    assert not {check for check, _ in reasons(folder) if "PTP" in check}
    assert "PTP: reports of ptp4l" in place.latlab("show", "ptp").out
    assert "ecu.eth0, slave, software timestamps" in (folder / "report.html").read_text()


def test_a_master_that_falls_silent_makes_the_cell_suspect_and_says_since_when(place: Place) -> None:
    before = place.trace()
    lab = place.start("run", "--verbose", scenario(place, "7s"))
    lab.until(": measuring")
    (master,) = (pid for port, pid in ptp4l(lab).items() if port == "sensor.eth0")
    os.kill(master, signal.SIGSTOP)
    ended = lab.ended()
    assert ended.status == 0, ended.err + ended.out
    assert place.trace() == before
    folder = place.only_run()
    (spell,) = ptp_of(folder)["ecu.eth0"]["unlocked"]
    assert (spell["why"], spell["to_ns"]) == ("no Sync was received", None)
    said = reasons(folder)
    since = duration(spell["from_ns"])
    assert said["ptp-locked", "ecu.eth0"] == f"no Sync was received: {since} after the first reading, until the end"
    of_master = said["ptp-locked", "sensor.eth0"]
    assert of_master.startswith("ptp4l did not answer: ") and of_master.endswith(", until the end")


def test_a_ptp4l_that_ends_midway_fails_its_cell_with_its_last_words(place: Place) -> None:
    before = place.trace()
    lab = place.start("run", "--verbose", scenario(place, "7s"))
    lab.until(": measuring")
    os.kill(ptp4l(lab)["ecu.eth0"], signal.SIGKILL)
    ended = lab.ended()
    assert ended.status == 3, ended.err + ended.out
    assert place.trace() == before
    (cell,) = cells_of(place.only_run()).values()
    assert (cell["status"], cell["reason"]["where"]) == ("failed", "ecu")
    assert cell["reason"]["what"].startswith("run ptp4l at ecu.eth0, as slave: `ptp4l` was ended by signal 9")


def test_a_killed_lab_leaves_no_ptp4l(place: Place) -> None:
    before = set(Path("/run/latlab").glob("*-ptp"))
    lab = place.start("run", "--verbose", scenario(place, "7s"))
    lab.until(": measuring")
    daemons = set(ptp4l(lab).values())
    assert len(daemons) == 2
    lab.signal(signal.SIGKILL)
    lab.ended()
    assert place.latlab("clean").status == 0
    place.wait_until_agents_are_gone()
    assert not any(map(alive, daemons))
    assert set(Path("/run/latlab").glob("*-ptp")) == before


def test_one_that_is_not_there_is_reported_before_anything_is_measured(place: Place) -> None:
    nobody = str(place.folder / "ptp4l")
    ptp = {"observed": {"ecu.eth0": nobody}, "wait": "1s"}
    before = place.trace()
    ended = place.latlab("run", scenario(place, "1s", clock={"ptp": ptp}))
    assert ended.status == 3
    assert place.trace() == before
    (cell,) = cells_of(place.only_run()).values()
    assert cell["reason"]["what"].startswith("the ptp4l that runs at ecu.eth0 is locked, or is the master: ")
    assert nobody in cell["reason"]["what"]
