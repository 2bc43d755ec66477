"""Where a kernel drops packets whose limits are the whole machine's, and cannot be changed on one that others use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from latlab.recordings.arrow import read_recording
from support.emulated.hosts import MS, RUN_ID, Hosts, Stream, launched
from support.emulated.machine import IP, Machine

BACKLOG = "/proc/sys/net/core/netdev_max_backlog"
AT_ONCE = 8


@contextmanager
def backlog_of(packets: int, machine: Machine) -> Iterator[None]:
    """Within, each CPU of the machine keeps so many packets that are to be received, and one more."""
    before = machine.run("cat", BACKLOG).strip()
    machine.run("sh", "-c", f"echo {packets} >{BACKLOG}")
    try:
        yield
    finally:
        machine.run("sh", "-c", f"echo {before} >{BACKLOG}")


def test_a_cpus_backlog_that_is_full(hosts: Hosts, tmp_path: Path) -> None:
    # fq hands on what has the same launch time in one go, before the softirq that receives it has its turn.
    hosts.tc("sensor", "qdisc replace dev eth0 root fq")
    launch = launched(200 * MS, clock="monotonic")
    # It holds back nothing of TC_PRIO_CONTROL (7).
    streams = [Stream(one, count=20, priority=0, launch_time=launch) for one in range(1, AT_ONCE + 1)]
    spec = {"run_id": RUN_ID, "recording": "/tmp/drops-ecu", "realtime": {}}
    with backlog_of(1, hosts.machine), hosts.agent("ecu", "drops", spec) as drops:
        assert drops.hear("ready")["drops"]["watched"]
        found = hosts.measure(*streams)
        drops.say({"stop": True})
        done = drops.hear("done")
    recorded = tmp_path / "drops-ecu.drops.arrow"
    recorded.write_bytes(hosts.machine.get("/tmp/drops-ecu.drops.arrow"))
    rows = read_recording(recorded, "drops", run_id=RUN_ID).table
    namespace = int(hosts.machine.run(IP, "netns", "exec", "ecu", "stat", "-Lc", "%i", "/proc/self/ns/net"))
    assert rows.select("reason", "device", "netns").unique().rows() == [("CPU_BACKLOG", "eth0", namespace)]
    # Two of each instant find room.
    assert done["drops"] == rows.height == found.lost.height >= found.total("sent") / AT_ONCE
    keys = ["stream", "sequence"]
    assert sorted(rows.select(keys).rows()) == sorted(found.lost.select(keys).rows())
