#!/usr/bin/env python3
"""Stands in for the agent and misbehaves as its spec says: `{"do": ["ready", "garbage", …]}`."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable

READY = {"event": "ready", "verb": "talk", "version": "0.1.0", "pid": os.getpid(), "tai_ns": 1000, "realtime": {}}
DONE = {"event": "done", "streams": [], "ring_full": 0, "recorded": 0}
ERROR = {"event": "error", "what": "no such interface", "where": "eth9", "remedy": "name another", "errno": 19}
STREAMS = [{"stream": 1, "packets": 30}, {"stream": 2, "packets": 4}]
LATEST = {"n": 3, "p50_ns": 10, "p99_ns": 20, "max_ns": 30}
SEEN = [STREAMS[0] | {"missing": 2, "since_last": LATEST}, STREAMS[1] | {"missing": 0, "since_last": None}]
LIVE = {"event": "progress", "tai_ns": 1, "steal_ns": 50, "streams": SEEN, "bound": {"lower_ns": -1, "upper_ns": 2}}
GARBAGE = (
    *("no JSON at all", "[]", "3", "null", '"ready"', "{}"),
    *('{"event": 7}', '{"event": "ready"', '{"event": "new"}'),
)
SHAPELESS = (
    {"event": "progress"},
    {"event": "progress", "streams": 3},
    {"event": "progress", "streams": [3]},
    LIVE | {"streams": [STREAMS[0] | {"missing": 2}]},
    LIVE | {"streams": [STREAMS[0] | {"missing": 2, "since_last": {"n": 3}}]},
    LIVE | {"bound": 7},
    {"event": "error"},
)


def say(*lines: object) -> None:
    for line in lines:
        sys.stdout.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
    sys.stdout.flush()


def told_to_stop() -> None:
    for line in sys.stdin:
        if "stop" in line:
            return


def ignore_everything() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(3600)


DEEDS: dict[str, Callable[[], object]] = {
    "ready": lambda: say(READY),
    "done": lambda: say(DONE),
    "error": lambda: say(ERROR),
    "complete": lambda: say({"event": "complete", "tai_ns": 1}),
    "progress": lambda: say({"event": "progress", "tai_ns": 1, "streams": STREAMS}),
    "live progress": lambda: say(LIVE),
    "garbage": lambda: say(*GARBAGE),
    "shapeless": lambda: say(*SHAPELESS),
    "long line": lambda: say("x" * (1 << 25)),
    "half a line": lambda: os.write(1, json.dumps(DONE).encode()[:-9]),
    "bytes": lambda: os.write(1, b"\xff\xfe\n"),
    "last words": lambda: os.write(2, b"thread panicked\nat talk.rs:1\n"),
    "mute": lambda: os.close(1),
    "wait": told_to_stop,
    "exit 3": lambda: os._exit(3),
    "die": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "hang": ignore_everything,
    "close stdin": lambda: os.close(0),
}

for deed in json.loads(sys.stdin.readline())["do"]:
    DEEDS[deed]()
