#!/usr/bin/env python3
"""Stands in for the agent's `ping` and `pong`, slowly and by the book: sockets, schedules and recordings are real.

`ASKING_AGENT` says how it misbehaves: `silent` (pong answers nobody), `deaf` (pong hears nobody), `gone` (ping ends as
one whose connection is refused). Every other verb is the real agent's.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2]))

HOW = os.environ.get("ASKING_AGENT", "")
HEADER = struct.Struct("!16sHQq")
TABLES = ("sent", "stamps", "received", "clocks")


def tai() -> int:
    return time.clock_gettime_ns(time.CLOCK_TAI)


def clocks() -> tuple[int, ...]:
    names = (time.CLOCK_TAI, time.CLOCK_REALTIME, time.CLOCK_MONOTONIC, time.CLOCK_MONOTONIC_RAW)
    return (*map(time.clock_gettime_ns, names), 1000)


def say(event: str, **more: Any) -> None:
    print(json.dumps({"event": event, **more}), flush=True)


def told(seconds: float) -> dict[str, Any] | None:
    ready, _, _ = select.select([0], [], [], seconds)
    line = sys.stdin.readline() if ready else ""
    return json.loads(line) if line.strip() else ({"stop": True} if ready else None)


class Side:
    """What both do: count, record, and end."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec, self.told = spec, spec["side"]
        self.rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}
        self.rows["clocks"].append(clocks())
        self.counts = dict.fromkeys(
            ("received", "send_errors", "repeated", "other_run", "empty_wakeups", "ring_full"), 0
        )

    def message(self, stream: int, sequence: int, launch: int) -> bytes:
        head = HEADER.pack(self.told["run_id"].encode(), stream, sequence, launch)
        return head.ljust(self.told["size"], b"\0")

    def parsed(self, data: bytes) -> tuple[int, int, int] | None:
        run, stream, sequence, launch = HEADER.unpack(data[: HEADER.size])
        if run.decode() != self.told["run_id"]:
            self.counts["other_run"] += 1
            return None
        return stream, sequence, launch

    def sent(self, stream: int, sequence: int, launch: int, wake: int, submit: int) -> None:
        self.rows["sent"].append((stream, sequence, launch, launch, wake, submit, 0, 0))

    def received(self, stream: int, sequence: int, launch: int, at: int) -> None:
        self.counts["received"] += 1
        soft = None if self.spec["transport"]["kind"] == "tcp" else at - 500 - self.tai_offset()
        self.rows["received"].append((stream, sequence, launch, None, soft, at))

    def tai_offset(self) -> int:
        seconds: int = round((self.rows["clocks"][0][0] - self.rows["clocks"][0][1]) / 10**9)
        return seconds * 10**9

    def end(self, **more: Any) -> None:
        from support.recordings import recording_bytes

        self.rows["clocks"].append(clocks())
        for name, rows in self.rows.items():
            data = recording_bytes(name, [rows], {"latlab.run_id": self.told["run_id"]})
            Path(f"{self.told['recording']}.{name}.arrow").write_bytes(data)
        say("done", **self.counts, **more)


def ready(verb: str) -> None:
    say("ready", verb=verb, version="stand-in", pid=os.getpid(), tai_ns=tai(), tai_offset_s=37, realtime={})


def ping(spec: dict[str, Any]) -> None:
    side, transport = Side(spec), spec["transport"]
    is_tcp = transport["kind"] == "tcp"
    host, port = transport["destination"].rsplit(":", 1)
    if HOW == "gone":
        say("error", what="connection refused", where=f"{host}:{port}", remedy="start pong first", errno=111)
        return
    asking = socket.socket(socket.AF_INET, socket.SOCK_STREAM if is_tcp else socket.SOCK_DGRAM)
    asking.connect((host, int(port)))
    if is_tcp:
        asking.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ready("ping")
    start = (told(30) or {})["start_tai_ns"]
    period, count = spec["period_ns"], spec["count"]
    end, sequence, waiting, launch = start + spec["duration_ns"], 0, 0, start + (spec["offset_ns"] if period else 0)
    last = 0
    while True:
        now = tai()
        over = sequence >= count if period else now >= end
        if over and (side.counts["received"] == sequence or now > last + spec["timeout_ns"]):
            break
        due = not over and now >= launch and (period or waiting == 0 or now > last + spec["timeout_ns"])
        if due:
            at = launch if period or waiting == 0 else last + spec["timeout_ns"]
            submit = tai()
            asking.send(side.message(side.told["up"], sequence, at))
            side.sent(side.told["up"], sequence, at, submit, submit)
            sequence, last, waiting = sequence + 1, submit, 1
            if period:
                launch = start + spec["offset_ns"] + sequence * period
            continue
        until = min(launch if period and not over else now + 10**6, now + 10**6)
        if select.select([asking], [], [], max(0, until - now) / 1e9)[0]:
            data = asking.recv(side.told["size"], socket.MSG_WAITALL if is_tcp else 0)
            came = tai()
            if (known := side.parsed(data)) is not None:
                stream, number, launched = known
                side.received(stream, number, launched, came)
                waiting = 0
                if not period:
                    launch = came
    answered = side.counts["received"]
    side.end(sent=sequence, answered=answered, unanswered=sequence - answered)


def pong(spec: dict[str, Any]) -> None:
    side, transport = Side(spec), spec["transport"]
    is_tcp = transport["kind"] == "tcp"
    host, port = transport["listen"].rsplit(":", 1)
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM if is_tcp else socket.SOCK_DGRAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((host, int(port)))
    if is_tcp:
        listening.listen()
    ready("pong")
    connection, answered = None if is_tcp else listening, 0
    while True:
        waited: list[Any] = [0, connection or listening]
        there, _, _ = select.select(waited, [], [], 1)
        if 0 in there:
            break
        if not there:
            continue
        if connection is None:
            connection, _ = listening.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            continue
        if is_tcp:
            data, peer = connection.recv(side.told["size"], socket.MSG_WAITALL), None
            if not data:
                connection = None
                continue
        else:
            data, peer = connection.recvfrom(65536)
        came = tai()
        known = None if HOW == "deaf" else side.parsed(data)
        if known is None:
            continue
        stream, sequence, launch = known
        side.received(stream, sequence, launch, came)
        if HOW == "silent":
            continue
        submit = tai()
        answer = side.message(side.told["down"], sequence, came)
        if peer is None:
            connection.sendall(answer)
        else:
            connection.sendto(answer, peer)
        answered += 1
        side.sent(side.told["down"], sequence, came, came, submit)
    side.end(answered=answered)


if __name__ == "__main__":
    verb = sys.argv[1]
    if verb not in ("ping", "pong"):
        os.execv(os.environ["REAL_AGENT"], [os.environ["REAL_AGENT"], *sys.argv[1:]])
    {"ping": ping, "pong": pong}[verb](json.loads(sys.stdin.readline()))
