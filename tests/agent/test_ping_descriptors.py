"""Ping's and pong's measuring threads have separate descriptors, and share the process's where that is refused."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from support.agent.bed import Bed
from support.agent.process import Agent
from support.agent.rounds import Trips, ping_spec, pong_spec, stopped
from support.agent.streams import MS, new_run_id

pytestmark = pytest.mark.real

UNSHARE = {"x86_64": 272, "aarch64": 97}[platform.machine()]
# As in a container without CAP_SYS_ADMIN: a filter (seccomp(2)) has unshare(2) fail with EPERM, and allows all else.
REFUSING = f"""
import ctypes, os, struct, sys
code = [(0x20, 0, 0, 0), (0x15, 0, 1, {UNSHARE}), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
filter = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in code))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(filter)))
assert ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0 == ctypes.CDLL(None).prctl(22, 2, program)
os.execv(sys.argv[1], sys.argv[1:])
"""
WAYS = {"allowed": (), "refused": (sys.executable, "-c", REFUSING)}


def opened(agent: Agent, thread: int) -> set[str]:
    """What a thread of the agent has open."""
    place = Path(f"/proc/{agent.pid}/task/{thread}/fd")
    return {descriptor.readlink().as_posix() for descriptor in place.iterdir()}


@pytest.mark.parametrize("way", WAYS)
def test_a_thread_measures_whether_or_not_it_may_have_descriptors_of_its_own(
    bed: Bed, tmp_path: Path, way: str
) -> None:
    trips, run_id, before = Trips(kind="tcp", count=None, duration_ns=300 * MS), new_run_id(), WAYS[way]
    pong = bed.agent("ecu", "pong", pong_spec(run_id, tmp_path, trips), before=before)
    answers = pong.until("ready")["realtime"]["tid"]
    ping = bed.agent("sensor", "ping", ping_spec(run_id, tmp_path, trips), before=before)
    ping.until("ready")
    ping.begin()
    done = ping.until("done")
    assert ping.ended() == 0
    # The connection it took is open in the table of who took it.
    taken = opened(pong, answers) - opened(pong, pong.pid)
    assert bool(taken) == (way == "allowed"), taken
    assert stopped(pong)["answered"] == done["sent"] == done["answered"] > 0
