"""Timestamps of DDS samples by programs of an older kernel, which checks them before it runs them."""

from __future__ import annotations

from pathlib import Path

from latlab.recordings.arrow import read_recording
from latlab.testbed.probes.dds import Cyclone, DdsPlan, DdsSide, ping_spec, pong_spec
from support.emulated.hosts import ADDRESSES, MS, RUN_ID, Hosts

COUNT = 20


def test_samples_that_ip_cuts_are_stamped_where_they_leave_and_where_they_have_come(
    hosts: Hosts, tmp_path: Path
) -> None:
    asker = DdsSide(Cyclone("eth0", (ADDRESSES["ecu"],)), "/tmp/ping")
    answerer = DdsSide(Cyclone("eth0", (ADDRESSES["sensor"],)), "/tmp/pong")
    plan = DdsPlan(
        name="dds",
        run_id=RUN_ID,
        asker=asker,
        answerer=answerer,
        domain=0,
        up=1,
        down=2,
        size=8_000,
        period_ns=20 * MS,
        duration_ns=COUNT * 20 * MS,
        timeout_ns=5_000 * MS,
        stamps_by="ebpf",
    )
    with hosts.agent("ecu", "dds", {**pong_spec(plan)}) as pong:
        pong.hear("ready")
        with hosts.agent("sensor", "dds", {**ping_spec(plan)}) as ping:
            ready = ping.hear("ready")
            assert ready["stamps_by"]["missing"] == []
            ping.say({"start_tai_ns": ready["tai_ns"] + 500 * MS})
            done = ping.hear("done")
    assert (done["sent"], done["answered"], done["tx_sched"], done["tx_soft"]) == (COUNT,) * 4
    recorded = tmp_path / "ping.received.arrow"
    recorded.write_bytes(hosts.machine.get("/tmp/ping.received.arrow"))
    came = read_recording(recorded, "received", run_id=RUN_ID).table
    assert (came.height, came["rx_soft_real_ns"].null_count()) == (COUNT, 0)
