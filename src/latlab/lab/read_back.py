"""Reading a step's outcome back."""

from __future__ import annotations

import asyncio
import time

from latlab.host import Host
from latlab.lab.step import Check

POLL_S = 0.01
SHORTEST_S = 30.0


async def read_back(host: Host, check: Check) -> str:
    """The actual value; the last one read when it never became the expected one in the time it has."""
    deadline = time.monotonic() + check.within_ms / 1000
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
        await asyncio.sleep(POLL_S)
