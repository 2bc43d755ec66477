"""Stands in for latlab-agent where what traces is to fail: TRACING_AGENT says how, REAL_AGENT is our agent.

`overrun`: it is given room for a page of events, and is stopped for a while once it has recorded some. `unprivileged`:
it may not trace. What does not trace is our agent itself.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import IO

UNPRIVILEGED = ("setpriv", "--bounding-set", "-sys_admin,-perfmon")
SOME_BYTES = 16_384
"""More than the head of a recording has."""
POLL_S = 0.02
STILL_S = 1.5


def main() -> int:
    """Runs our agent; its exit status."""
    agent, how = os.environ["REAL_AGENT"], os.environ["TRACING_AGENT"]
    if sys.argv[1] != "trace" or len(sys.argv) > 2:
        os.execv(agent, [agent, *sys.argv[1:]])
    if how == "unprivileged":
        os.execvp(UNPRIVILEGED[0], [*UNPRIVILEGED, agent, "trace"])
    # Unbuffered: the thread that hands them on may be in the middle of a read as this process ends.
    commands = io.FileIO(sys.stdin.fileno())
    spec = json.loads(commands.readline()) | {"buffer_kib": 4}
    child = subprocess.Popen([agent, "trace"], stdin=subprocess.PIPE, bufsize=0)
    assert child.stdin
    child.stdin.write(json.dumps(spec).encode() + b"\n")
    recording = Path(f"{spec['recording']}.trace.arrow")
    for what, given in ((hand_on, (commands, child.stdin)), (stand_still, (child.pid, recording))):
        threading.Thread(target=what, args=given, daemon=True).start()
    return child.wait()


def hand_on(commands: Iterable[bytes], to: IO[bytes]) -> None:
    """Nothing; all that is said has been handed on, and that no more comes."""
    with to:
        for line in commands:
            to.write(line)


def stand_still(pid: int, recording: Path) -> None:
    """Nothing; the process has been stopped for a while, with its streams under way."""
    while not recording.exists() or recording.stat().st_size < SOME_BYTES:
        time.sleep(POLL_S)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(STILL_S)
    os.kill(pid, signal.SIGCONT)


if __name__ == "__main__":
    sys.exit(main())
