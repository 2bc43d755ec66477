"""Ending what a dead lab left running, known by the mark in its environment, and never anything else."""

from __future__ import annotations

from latlab.hosts import Host
from latlab.model.errors import LabError

MARK = "LATLAB_PROCESS"
"""The variable in the environment of every process of a test bed, and so of its children; its value is random."""

TERM_POLLS = 100
KILL_POLLS = 200
POLL_S = 0.02

# An entry of an environment ends with a zero byte: the whole entry must be the mark, or it is another process's.
SIGNAL = """
found=$(grep -lszxF -e "$0" /proc/[0-9]*/environ)
[ $? -le 2 ] || exit 1
for at in $found; do pid=${at#/proc/}; pid=${pid%/environ}; kill -s "$1" "$pid" && echo "$pid"; done; :
"""
PASSING_POLLS = 250
"""How many times 20 ms a command has to finish on its own."""

LOOK = "0"  # the signal that is none


async def end_process(host: Host, mark: str) -> bool:
    """Whether any process carried the mark, on the host or on the path to it; all that did have ended.

    LabError when even SIGKILL fails, or a machine is not reached.
    """
    return any([await _end_on(machine, mark) for machine in host.ways])


async def settle_commands(host: Host, mark: str) -> None:
    """Wait until no process carries the mark, of the host's own or on the way to it; end those that take long.

    LabError as `end_process`.
    """
    for machine in host.ways:
        for _ in range(PASSING_POLLS):
            if not await _carried(machine, mark, LOOK):
                break
            await machine.pause(POLL_S)
        else:
            await _end_on(machine, mark)


async def _end_on(machine: Host, mark: str) -> bool:
    if not await _carried(machine, mark, LOOK):
        return False
    for signal, again, polls in (("TERM", LOOK, TERM_POLLS), ("KILL", "KILL", KILL_POLLS)):
        await _signal(machine, mark, signal)
        for _ in range(polls):
            if not await _carried(machine, mark, again):
                return True
            await machine.pause(POLL_S)
    left = ", ".join(await _signal(machine, mark, LOOK))
    raise LabError(f"process {left} did not end, even after SIGKILL", where=machine.name)


async def _carried(machine: Host, mark: str, signal: str) -> bool:
    """Whether any process carries the mark; it has been sent the signal."""
    if await _signal(machine, mark, signal):
        return True
    # One that is just becoming another program (execve) has no environment for an instant.
    await machine.pause(POLL_S)
    return bool(await _signal(machine, mark, signal))


async def _signal(machine: Host, mark: str, signal: str) -> list[str]:
    """The pids of the processes that carry the mark and have been sent the signal."""
    return (await machine.run(("sh", "-c", SIGNAL, f"{MARK}={mark}", signal))).stdout.split()
