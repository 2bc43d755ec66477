"""What programs send and receive, as points of `watch`, on a kernel that lets programs be at its functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from latlab.recordings.arrow import read_recording
from latlab.scenario.watched import parse_flow
from support.emulated.hosts import RUN_ID, Hosts, Stream, Transport, ethernet, udp
from support.emulated.machine import IP

UDP: dict[str, Any] = {"is": {"protocol": 17, "destination_port": [5557, 5557]}}
ETHERNET: dict[str, Any] = {"is": {"ether_type": 0x88B5}}


@pytest.mark.parametrize(
    ("transport", "flow"),
    [
        (udp(), UDP),
        (ethernet(vlan=5, pcp=6), ETHERNET),
        (udp(), "pcap: udp dst port 5557 and ip[8] > 1"),
        (ethernet(vlan=5, pcp=6), "pcap: ether[14:2] = 0xc005 and ether[16:2] = 0x88b5"),
    ],
    ids=["udp", "raw", "udp-by-a-filter", "raw-by-a-filter"],
)
def test_calls_are_seen_between_the_programs_own_timestamps_and_the_kernels(
    hosts: Hosts, tmp_path: Path, transport: Transport, flow: str | dict[str, Any]
) -> None:
    if isinstance(flow, str):
        flow = parse_flow(flow)
    inodes = [
        int(hosts.machine.run(IP, "netns", "exec", host, "stat", "-Lc", "%i", "/proc/self/ns/net"))
        for host in ("sensor", "ecu")
    ]
    points = [{"netns": inode, "ifindex": 0} for inode in inodes]
    spec = {"run_id": RUN_ID, "recording": "/tmp/watch", "realtime": {}, "points": points, "flow": flow}
    with hosts.agent("ecu", "watch", spec) as watch:
        assert "missing" not in watch.hear("ready")["watch"]
        found = hosts.measure(Stream(transport=transport))
        watch.say({"stop": True})
        done = watch.hear("done")
    count = found.total("sent")
    assert [(point["out"], point["in"]) for point in done["points"]] == [(count, 0), (0, count)]
    recorded = tmp_path / "watch.watched.arrow"
    recorded.write_bytes(hosts.machine.get("/tmp/watch.watched.arrow"))
    rows = read_recording(recorded, "watched", run_id=RUN_ID).table.sort("tai_ns")
    packets = found.packets.sort("sequence")
    sent, received = (rows.filter(pl.col("point") == point)["tai_ns"] for point in range(2))
    assert ((packets["submit_tai_ns"] <= sent) & (sent <= packets["tx_sched_tai_ns"])).all()
    assert ((packets["rx_soft_tai_ns"] <= received) & (received <= packets["rx_user_tai_ns"])).all()
