"""A turn that never ends: of a machine in virtual time whose kernel hangs, or that waits for nothing.

A watch on the machine looks every other second of its own time (docs/reference/agent.md, Turns). As long as it does,
the machine's kernel is well, and whoever waits for something on it knows how long to. Where the machine's time stands
still nothing is executed, so its QEMU needs no CPU; where its kernel hangs, QEMU executes it and the watch does not
look.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from latlab.hosts.base import Lost

SAMPLE_S = 1.0
STILL_S = 60.0
"""How long QEMU must sleep to count as stalled: longer than any work of its own takes."""
HANG_CPU_S = 120.0
"""So much CPU time QEMU may need between two looks of the machine's watch: ten times what two seconds of a busy
machine's time take."""
TURN_S = 600.0
"""So long it may take on this machine's clock, however little of its CPUs QEMU gets."""
SHARE = 0.1
"""The part of the samples in which QEMU may have been awake, and of the time it may have needed: its own timers."""
BUSY_STATES = "RD"
"""Of proc_pid_stat(5): a thread that runs, wants to or waits for a disk."""


@dataclass(frozen=True)
class Activity:
    """What a process does: the CPU time it has needed, in seconds, and whether any thread of it is awake."""

    cpu_s: float
    awake: bool


async def never_ends(pid_file: Path, watched: Callable[[], int]) -> Lost:
    """Why the turn that begins now counts as one that never ends, once it does: its end cancels this.

    pid_file: where the machine's QEMU has its process id. Without one only the time that goes by counts.
    watched: the instant of the machine's own time at which its watch looked last.
    """
    loop = asyncio.get_running_loop()
    began = since = loop.time()
    before = first = alive = activity(pid_file)
    look = watched()
    samples = busy = 0
    while True:
        await asyncio.sleep(SAMPLE_S)
        now, seen = loop.time(), activity(pid_file)
        if watched() != look:
            look, began, alive = watched(), now, seen
        if now - began > TURN_S:
            return Lost(f"its clock has not advanced for {TURN_S:g} s: its kernel hangs")
        if seen and alive and seen.cpu_s - alive.cpu_s > HANG_CPU_S:
            return Lost(f"its clock has not advanced while QEMU executed it for {HANG_CPU_S:g} s: its kernel hangs")
        if seen is None or before is None or first is None:
            before = first = alive = seen
            samples, busy, since = 0, 0, now
            continue
        samples += 1
        busy += seen.awake or seen.cpu_s > before.cpu_s
        before = seen
        if now - since > STILL_S:
            if busy <= SHARE * samples and seen.cpu_s - first.cpu_s <= SHARE * (now - since):
                return Lost(f"its clock has not advanced for {STILL_S:g} s: it is idle, and no timer will wake it")
            first, samples, busy, since = seen, 0, 0, now


def activity(pid_file: Path) -> Activity | None:
    """What the process does whose id is in that file; None where there is no such process."""
    try:
        process = Path(f"/proc/{int(pid_file.read_text(encoding='utf-8'))}")
        fields = _after_name(process / "stat")
        states = [_after_name(thread / "stat")[0] for thread in (process / "task").iterdir()]
    except (OSError, ValueError, IndexError):
        return None
    # State is the third field of proc_pid_stat(5), utime the 14th, stime the 15th; the second may hold any character.
    ticks = int(fields[11]) + int(fields[12])
    return Activity(ticks / os.sysconf("SC_CLK_TCK"), any(state in BUSY_STATES for state in states))


def _after_name(stat: Path) -> list[str]:
    """The fields from the third on."""
    return stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
