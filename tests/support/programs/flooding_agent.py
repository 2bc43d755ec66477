#!/usr/bin/env python3
"""Speaks as `latlab-agent flood` does (docs/reference/agent.md) and sends real packets, a few thousand a second."""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import time


def say(**event: object) -> None:
    print(json.dumps(event), flush=True)


def told(seconds: float) -> dict[str, object] | None:
    """The next line on standard input; None when none comes in that time. A closed one says stop."""
    if not select.select([0], [], [], seconds)[0]:
        return None
    line = os.read(0, 4096)
    return json.loads(line.splitlines()[-1]) if line else {"stop": True}


def address(text: str) -> tuple[str, int]:
    host, port = text.rsplit(":", 1)
    return host, int(port)


spec = json.loads(os.read(0, 4096))
if spec["realtime"]["fifo"] == 99:
    say(event="error", what="SCHED_FIFO 99 is not permitted", where="flood", remedy="run with sudo", errno=1)
    sys.exit(1)
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
source = spec["role"] == "source"
sock.bind(address(spec["source"] if source else spec["listen"]))
say(
    event="ready",
    verb="flood",
    version="0.1.0",
    pid=os.getpid(),
    tai_ns=time.clock_gettime_ns(time.CLOCK_TAI),
)
if source:
    started = told(10.0)
    assert started and "start_tai_ns" in started, started
begun = time.monotonic()
packets = octets = 0
stopping = False
while not stopping:
    stopping = bool((told(0.0002) or {}).get("stop"))
    if source:
        octets += sock.sendto(bytes(spec["size"]), address(spec["destination"]))
        packets += 1
        if os.environ.get("DIE_AFTER") == str(packets):
            sys.exit("flood: the interface went away")
    else:
        while select.select([sock], [], [], 0)[0]:
            octets += len(sock.recv(65536))
            packets += 1
elapsed = time.monotonic() - begun
say(
    event="done",
    packets=packets,
    bytes=octets,
    elapsed_ns=int(elapsed * 1e9),
    packets_per_s=packets / elapsed,
    bits_per_s=8 * octets / elapsed,
    send_errors=0,
)
