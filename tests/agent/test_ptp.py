"""`latlab-agent ptp` records what a real ptp4l says, and that it says nothing, without disturbing it."""

from __future__ import annotations

import ctypes
import errno
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from latlab.analysis.ptp import STATES as NAMES
from latlab.analysis.ptp import clock_identity
from latlab.testbed.agent_binary import find_agent
from support.agent.bed import Bed, inside
from support.agent.process import Agent
from support.agent.ptp import Ptp4l, Told, once, read_ptp_series
from support.agent.streams import MS, new_run_id, recording
from support.machine import LIBC

pytestmark = pytest.mark.real

PERIOD_NS = 20 * MS
LONG_NS = 300 * MS
"""A period within which ptp4l answers on a busy machine, too."""
ENDLESS = 1_000_000
STATES = {name: number for number, name in NAMES.items()}
ENDINGS: dict[str, Callable[[Agent], None]] = {
    "its standard input closes": Agent.hang_up,
    "it is told to stop": lambda agent: agent.tell(stop=True),
    "SIGTERM": lambda agent: agent.signal(signal.SIGTERM),
    "SIGINT": lambda agent: agent.signal(signal.SIGINT),
}


class Clocks:
    """ptp4ls of one bed. Their sockets are in a folder whose path is short enough for one."""

    def __init__(self, bed: Bed, folder: Path) -> None:
        self.folder = folder
        self._bed = bed
        self._processes: list[Ptp4l] = []

    def start(self, namespace: str, **options: object) -> Ptp4l:
        """A ptp4l in `sensor` or `ecu`."""
        interface = {"sensor": "ecu", "ecu": "sensor"}[namespace]
        process = Ptp4l(self.folder, namespace, interface, **options)  # type: ignore[arg-type]
        self._processes.append(process)
        return process

    def pair(self, **options: object) -> tuple[Ptp4l, Ptp4l]:
        """A master in `sensor` and the one in `ecu` that follows it, once it has measured offset and delay."""
        pair = self.start("sensor", master=True, **options), self.start("ecu", **options)
        pair[1].until(lambda told: follows(told) and told["path_delay_ns"] is not None)
        return pair

    def observe(self, observed: Path, folder: Path, *, namespace: str = "ecu", **changes: Any) -> Agent:
        """An agent that records what the ptp4l at this socket says to `ptp.ptp.arrow` in the folder."""
        spec = {
            "run_id": new_run_id(),
            "socket": str(observed),
            "domain": 0,
            "transport_specific": 0,
            "period_ns": PERIOD_NS,
            "count": ENDLESS,
            "clock": None,
            "recording": str(folder / "ptp"),
            "realtime": {},
        }
        return self._bed.agent(namespace, "ptp", spec | changes)

    def end(self) -> None:
        """Nothing; all have ended."""
        for process in self._processes:
            process.kill()


@pytest.fixture
def clocks(bed: Bed) -> Iterator[Clocks]:
    with tempfile.TemporaryDirectory(prefix="ptp") as folder:
        made = Clocks(bed, Path(folder))
        try:
            yield made
        finally:
            made.end()


def follows(told: Told) -> bool:
    return told["state"] == "UNCALIBRATED" and told["offset_ns"] is not None


def test_offset_delay_and_grandmaster_of_a_clock_that_follows_a_master_are_recorded(
    clocks: Clocks, tmp_path: Path
) -> None:
    master, slave = clocks.pair(network_transport="UDPv4")
    before = frequency_ppt()
    agent = clocks.observe(slave.socket, tmp_path, count=10, clock="realtime")
    ready = agent.until("ready")
    assert ready["verb"] == "ptp"
    assert (ready["realtime"]["problems"], ready["clock"]) == ([], None)
    done = agent.until("done")
    assert agent.ended() == 0
    series = read_ptp_series(tmp_path / "ptp.ptp.arrow")
    assert series.height == done["answers"] + done["unanswered"] == done["recorded"] == 10 - done["missed"]
    assert done["ring_full"] == 0
    told = series.filter(state=STATES["UNCALIBRATED"])
    assert not told.is_empty()
    assert told["answered"].all()
    assert told["steps_removed"].to_list() == [1] * told.height
    assert told["path_delay_ns"].min() > 0  # type: ignore[operator]
    assert (done["offset_min_ns"], done["offset_max_ns"]) == (series["offset_ns"].min(), series["offset_ns"].max())
    (grandmaster,) = told["grandmaster"].unique()
    assert clock_identity(grandmaster) == master.until(lambda _: True)["grandmaster"]
    # Another may steer the machine's clock meanwhile; where none did, it is what the kernel says.
    assert series["frequency_ppt"].null_count() == 0
    if before == (after := frequency_ppt()):
        assert series["frequency_ppt"].unique().to_list() == [after]
    assert (series["tai_ns"].diff().drop_nulls() > 0).all()
    assert (series["monotonic_ns"].diff().drop_nulls() > 0).all()
    now = slave.until(follows)
    assert list(now) == [
        *("state", "port", "offset_ns", "ingress_ns", "path_delay_ns", "grandmaster", "gm_present", "steps_removed"),
        *("utc_offset_s", "utc_offset_valid", "time_traceable", "ptp_timescale", "ports"),
    ]
    assert (now["port"], now["ports"], now["gm_present"], now["steps_removed"]) == (1, 1, True, 1)
    assert (now["utc_offset_s"], now["utc_offset_valid"], now["time_traceable"]) == (37, False, False)


def test_offset_and_delay_are_those_that_linuxptps_own_tool_shows(clocks: Clocks) -> None:
    # While its master is stopped, and is not yet given up, a slave measures nothing new.
    master = clocks.start("sensor", master=True)
    slave = clocks.start("ecu", announceReceiptTimeout=80)
    slave.until(lambda told: follows(told) and told["path_delay_ns"] is not None)
    master.signal(signal.SIGSTOP)
    time.sleep(0.3)
    before = json.loads(once(slave.socket).stdout)
    shown = slave.shown("CURRENT_DATA_SET", "TIME_STATUS_NP")
    assert json.loads(once(slave.socket).stdout) == before
    master.signal(signal.SIGCONT)
    assert before["offset_ns"] == int(shown["master_offset"])
    assert before["ingress_ns"] == int(shown["ingress_time"])
    assert abs(before["path_delay_ns"] - float(shown["meanPathDelay"])) <= 1
    assert before["steps_removed"] == int(shown["stepsRemoved"]) == 1


def test_while_no_delay_is_known_there_is_no_offset_though_syncs_come_in(clocks: Clocks, tmp_path: Path) -> None:
    clocks.start("sensor", master=True)
    # It asks for the delay at some moment of the next half an hour.
    slave = clocks.start("ecu", logMinDelayReqInterval=10)
    slave.until(lambda told: told["ingress_ns"] is not None)
    agent = clocks.observe(slave.socket, tmp_path, count=20)
    done = agent.until("done")
    told = read_ptp_series(tmp_path / "ptp.ptp.arrow").filter("answered")
    assert told["ingress_ns"].n_unique() > 1
    assert told["offset_ns"].is_null().all() and told["path_delay_ns"].is_null().all()
    assert (done["offset_min_ns"], done["offset_max_ns"]) == (None, None)
    assert slave.shown("TIME_STATUS_NP")["master_offset"] == "0"


def test_between_neighbours_that_measure_their_cable_the_delay_is_the_peers(clocks: Clocks, tmp_path: Path) -> None:
    master, slave = clocks.pair(network_transport="L2", delay_mechanism="P2P", transportSpecific="0x1")
    # A master has no offset, and knows its cable still.
    told = master.until(lambda told: told["state"] == "MASTER" and told["path_delay_ns"] is not None)
    assert (told["offset_ns"], told["gm_present"], told["steps_removed"]) == (None, False, 0)
    agent = clocks.observe(slave.socket, tmp_path, count=2, period_ns=LONG_NS, transport_specific=1)
    assert agent.until("done")["answers"] == 2
    assert agent.ended() == 0
    assert read_ptp_series(tmp_path / "ptp.ptp.arrow")["path_delay_ns"].min() > 0  # type: ignore[operator]


def test_a_master_that_dies_and_then_the_observed_itself_and_its_return_are_recorded(
    clocks: Clocks, tmp_path: Path
) -> None:
    master, slave = clocks.pair()
    agent = clocks.observe(slave.socket, tmp_path)
    agent.until("ready")
    time.sleep(0.2)
    master.kill()
    slave.until(lambda told: told["state"] == "LISTENING")
    time.sleep(0.2)
    slave.kill()
    time.sleep(0.2)
    clocks.start("ecu").until(lambda told: told["state"] == "LISTENING")
    time.sleep(0.2)
    agent.tell(stop=True)
    done = agent.until("done")
    assert agent.ended() == 0
    assert recording(tmp_path, "ptp.ptp").complete
    series = read_ptp_series(tmp_path / "ptp.ptp.arrow")
    seen = iter(series["state"])
    assert all(STATES[name] in seen for name in ("UNCALIBRATED", "LISTENING", "no answer", "LISTENING"))
    silent = series.filter(~series["answered"])
    assert (silent["state"] == 0).all()
    assert all(silent[name].is_null().all() for name in series.columns[4:])
    assert (done["answers"], done["unanswered"]) == (series.height - silent.height, silent.height)
    assert done["state_changes"] >= 1
    # What a clock without a master remembers of it is no offset.
    assert series.filter(state=STATES["LISTENING"])["offset_ns"].is_null().all()


def test_a_ptp4l_that_stands_still_is_silent_and_answers_when_it_goes_on(clocks: Clocks, tmp_path: Path) -> None:
    clock = clocks.start("ecu")
    agent = clocks.observe(clock.socket, tmp_path)
    agent.until("ready")
    clock.signal(signal.SIGSTOP)
    agent.until("progress")
    clock.signal(signal.SIGCONT)
    clock.until(lambda _: True)
    time.sleep(0.2)
    agent.hang_up()
    done = agent.until("done")
    answered = read_ptp_series(tmp_path / "ptp.ptp.arrow")["answered"]
    seen = iter(answered)
    assert all(expected in seen for expected in (False, True))
    assert done["unanswered"] == answered.len() - answered.sum() > 10


def test_a_ptp4l_that_stands_still_from_the_start_took_the_questions_and_does_not_answer(
    clocks: Clocks, tmp_path: Path
) -> None:
    clock = clocks.start("ecu")
    clock.until(lambda _: True)
    clock.signal(signal.SIGSTOP)
    agent = clocks.observe(clock.socket, tmp_path)
    assert agent.ended() == 1
    (error,) = agent.events
    assert (error["where"], error["errno"]) == (str(clock.socket), None)
    assert error["what"] == "ptp4l does not answer: it took the questions, and gave no answer within 2 s"
    # What it was asked before is in its queue, which is full now.
    for _ in range(2):
        found = once(clock.socket)
        assert found.returncode == 1
        assert "it took the questions, and gave no answer within 1 s" in found.stderr
    clock.signal(signal.SIGCONT)
    clock.until(lambda _: True)
    assert files(clocks) == []


def test_a_signal_ends_a_single_question_in_words(clocks: Clocks) -> None:
    clock = clocks.start("ecu")
    clock.until(lambda _: True)
    clock.signal(signal.SIGSTOP)
    asking = subprocess.Popen(
        [str(find_agent()), "ptp", "--once", str(clock.socket)], stderr=subprocess.PIPE, text=True
    )
    time.sleep(0.2)
    asking.terminate()
    _, said = asking.communicate()
    assert asking.returncode == 1
    assert "stopped before ptp4l had answered" in said and said.count("\n") == 1


def test_periods_that_an_agent_held_up_did_not_ask_in_are_counted(clocks: Clocks, tmp_path: Path) -> None:
    count = 60
    agent = clocks.observe(clocks.start("ecu").socket, tmp_path, count=count)
    agent.until("ready")
    # The first period begins a moment after that is said, and the others are counted from it.
    time.sleep(10 * PERIOD_NS / 1e9)
    agent.signal(signal.SIGSTOP)
    agent.wait_until_stopped()
    time.sleep(10 * PERIOD_NS / 1e9)
    agent.signal(signal.SIGCONT)
    done = agent.until("done")
    assert done["missed"] >= 8
    assert done["answers"] + done["unanswered"] + done["missed"] == count
    series = read_ptp_series(tmp_path / "ptp.ptp.arrow")
    assert series.height == done["recorded"] == count - done["missed"]
    # Nothing was put off: the last period ended when it would have.
    assert series["monotonic_ns"][-1] - series["monotonic_ns"][0] < count * PERIOD_NS


@pytest.mark.parametrize("end", ENDINGS.values(), ids=ENDINGS)
def test_it_ends_as_every_agent_does(clocks: Clocks, tmp_path: Path, end: Callable[[Agent], None]) -> None:
    agent = clocks.observe(clocks.start("ecu").socket, tmp_path, period_ns=3_600_000 * MS)
    agent.until("ready")
    end(agent)
    assert agent.ended() == 0
    assert agent.said == ["ready", "done"]
    assert recording(tmp_path, "ptp.ptp").complete


def test_after_sigkill_the_recording_reads_up_to_its_last_whole_batch(clocks: Clocks, tmp_path: Path) -> None:
    agent = clocks.observe(clocks.start("ecu").socket, tmp_path)
    agent.until("ready")
    while (series := read_ptp_series(tmp_path / "ptp.ptp.arrow")).is_empty():
        time.sleep(0.02)
    agent.signal(signal.SIGKILL)
    assert agent.ended() == -signal.SIGKILL
    assert not recording(tmp_path, "ptp.ptp").complete
    assert read_ptp_series(tmp_path / "ptp.ptp.arrow").height >= series.height > 0
    assert files(clocks) == []


def test_a_stranger_cannot_write_to_the_agents_socket(clocks: Clocks, tmp_path: Path) -> None:
    agent = clocks.observe(clocks.start("ecu").socket, tmp_path, count=4, period_ns=LONG_NS)
    (address,) = agent.until("ready")["local"]
    assert address.startswith("@")
    with inside("ecu"):
        stranger = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    refused = 0
    with stranger:
        for _ in range(50):
            try:
                stranger.sendto(b"\x0d\x02" + bytes(70), b"\0" + address[1:].encode())
                pytest.fail("the agent's socket took it")
            except PermissionError:
                refused += 1
            except ConnectionRefusedError:  # the agent is at its end
                break
    assert refused > 0
    done = agent.until("done")
    assert (done["answers"], done["unanswered"]) == (4, 0)


def test_a_ptp4l_of_another_namespace_is_observed_and_no_file_of_an_agents_stays(
    clocks: Clocks, tmp_path: Path
) -> None:
    clock = clocks.start("ecu")
    clock.until(lambda _: True)
    killed = clocks.observe(clock.socket, tmp_path, namespace="sensor")
    (left_behind,) = killed.until("ready")["local"]
    assert Path(left_behind).parent == clocks.folder
    killed.signal(signal.SIGKILL)
    killed.ended()
    assert files(clocks) == [Path(left_behind).name]
    agent = clocks.observe(clock.socket, tmp_path, namespace="sensor", count=2, period_ns=LONG_NS)
    assert agent.until("done")["answers"] == 2
    assert agent.ended() == 0
    assert files(clocks) == []


def test_that_nobody_answers_is_reported_with_the_socket_and_what_to_do(clocks: Clocks, tmp_path: Path) -> None:
    nobody = clocks.folder / "nobody.sock"
    elsewhere = clocks.start("ecu", domainNumber=24).socket
    while not elsewhere.exists():
        time.sleep(0.01)
    agents = {path: clocks.observe(path, tmp_path) for path in (nobody, elsewhere)}
    found = once(nobody)
    assert (found.returncode, found.stdout, found.stderr.count("\n")) == (1, "", 1)
    assert str(nobody) in found.stderr
    errors = {}
    for path, agent in agents.items():
        assert agent.ended() == 1
        (errors[path],) = agent.events
    assert [error["event"] for error in errors.values()] == ["error", "error"]
    assert [error["where"] for error in errors.values()] == [str(nobody), str(elsewhere)]
    assert [error["errno"] for error in errors.values()] == [errno.ENOENT, None]
    for error in errors.values():
        assert all(part in error["remedy"] for part in ("ptp4l runs here", "uds_address", "domainNumber is 0"))
    assert "does not answer" in errors[elsewhere]["what"]
    assert json.loads(once(elsewhere, "--domain", "24").stdout)["ports"] == 1
    assert files(clocks) == []


def test_a_clock_that_cannot_be_read_is_reported_and_its_frequency_is_unknown(clocks: Clocks, tmp_path: Path) -> None:
    agent = clocks.observe(clocks.start("ecu").socket, tmp_path, count=2, clock="/dev/null")
    ready = agent.until("ready")
    assert ready["clock"]["where"] == "/dev/null" and "ethtool -T" in ready["clock"]["remedy"]
    assert ready["realtime"]["problems"] == []
    agent.until("done")
    assert read_ptp_series(tmp_path / "ptp.ptp.arrow")["frequency_ppt"].is_null().all()


def test_the_frequency_of_a_ptp_clock_is_what_its_driver_was_told(clocks: Clocks, tmp_path: Path) -> None:
    devices = sorted(Path("/sys/class/ptp").glob("ptp*"))
    if not devices:
        pytest.skip("this machine has no PTP clock (/dev/ptp*)")
    name, socket_path = devices[0].name, clocks.start("ecu").socket
    largest_ppb = int((devices[0] / "max_adjustment").read_text())
    agent = clocks.observe(socket_path, tmp_path, count=2, clock=f"/dev/{name}")
    assert agent.until("ready")["clock"] is None
    agent.until("done")
    told = read_ptp_series(tmp_path / "ptp.ptp.arrow")["frequency_ppt"]
    assert told.null_count() == 0
    assert told.abs().max() <= 1_000 * largest_ppb  # type: ignore[operator]


def frequency_ppt() -> int:
    """How the system's clock is steered, as adjtimex(2) says it: ppm with 16 bits of fraction, as parts per 10^12."""
    timex = ctypes.create_string_buffer(512)
    assert LIBC.adjtimex(timex) >= 0
    return (int.from_bytes(timex.raw[16:24], sys.byteorder, signed=True) * 1_000_000 + (1 << 15)) >> 16


def files(clocks: Clocks) -> list[str]:
    """The agents' sockets in the clocks' folder, by name."""
    return sorted(path.name for path in clocks.folder.glob("latlab-*"))
