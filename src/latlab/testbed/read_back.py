"""Reading a step's outcome back."""

from __future__ import annotations

import time

from latlab.hosts import Host
from latlab.testbed.step import Check

POLL_S = 0.01
VIRTUAL_POLL_S = 0.1
"""Of a machine in virtual time, whose pauses cost nothing and whose answers do."""
SHORTEST_S = 30.0


async def read_back(host: Host, check: Check) -> str:
    """The actual value; the last one read when it never became the expected one in the time it has."""
    deadline = time.monotonic() + host.patience * check.within_ms / 1000
    while True:
        done = await host.run(check.argv, check=False, timeout_s=max(SHORTEST_S, check.within_ms / 1000))
        try:
            actual = (
                check.read(done.stdout) if done.returncode == 0 else f"status {done.returncode}: {done.stderr.strip()}"
            )
        except (ValueError, LookupError, TypeError):
            actual = f"unreadable: {done.stdout.strip()[:200]}"
        if actual == check.expected or time.monotonic() >= deadline:
            return actual
        # By the host's own clock: a machine in virtual time runs as long as anything waits for something on it, and
        # must not be asked again at an instant of this machine's.
        await host.pause(VIRTUAL_POLL_S if host.turns else POLL_S)
