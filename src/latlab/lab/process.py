"""Which process a pid means, and ending it without ever ending another one."""

from __future__ import annotations

import asyncio

from latlab.errors import LabError
from latlab.host import Host

TERM_POLLS = 100
KILL_POLLS = 200
POLL_S = 0.02


async def start_time(host: Host, pid: int) -> int | None:
    """When the process began, in clock ticks since boot (proc(5), stat, field 22); None when it is over.

    pid and start time together name a process: a reused pid has another start time.
    """
    done = await host.machine.run(("cat", f"/proc/{pid}/stat"), check=False)
    if done.returncode != 0:
        return None
    # The second field is the command's name in brackets and may itself hold spaces and brackets.
    fields = done.stdout.rpartition(")")[2].split()
    state, start = fields[0], int(fields[19])
    return None if state in "ZX" else start


async def end_process(host: Host, pid: int, started: int) -> bool:
    """Whether the process was still there; its whole group has then been told to end, and is gone.

    For processes that Host.spawn started, which lead a group of their own. LabError when even SIGKILL fails.
    """
    if await start_time(host, pid) != started:
        return False
    for signal, polls in (("-TERM", TERM_POLLS), ("-KILL", KILL_POLLS)):
        await host.machine.run(("kill", signal, "--", f"-{pid}"), check=False)
        for _ in range(polls):
            if await start_time(host, pid) != started:
                return True
            await asyncio.sleep(POLL_S)
    raise LabError(f"process {pid} did not end, not even by SIGKILL", where=host.name)
