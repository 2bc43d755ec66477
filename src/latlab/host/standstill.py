"""Telling a turn that never ends: of a machine in virtual time whose kernel hangs, or that waits for nothing.

From outside its clock cannot be read while it runs. Where it stands still nothing is executed, so its QEMU needs no
CPU; where its kernel spins, QEMU does, and only the time that goes by here tells.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

SAMPLE_S = 1.0
STILL_S = 60.0
"""So long QEMU sleeps before that counts as standing still: longer than anything of its own takes."""
TURN_S = 600.0
"""So long a turn may take on this machine's clock: some seconds of a board that is busy with guests of its own."""
SHARE = 0.1
"""The part of the samples in which QEMU may have been awake, and of the time it may have needed: its own timers."""
BUSY_STATES = "RD"
"""Of proc_pid_stat(5): a thread that runs, wants to or waits for a disk."""


@dataclass(frozen=True)
class Activity:
    """What a process does: the CPU time it has needed, in seconds, and whether any thread of it is awake."""

    cpu_s: float
    awake: bool


async def never_ends(pid_file: Path) -> str:
    """Why the turn that begins now counts as one that never ends, once it does: whoever sees it end cancels this.

    pid_file: where the machine's QEMU has its process id. Without one only the time that goes by counts.
    """
    loop = asyncio.get_running_loop()
    began = since = loop.time()
    before = first = activity(pid_file)
    samples = busy = 0
    while True:
        await asyncio.sleep(SAMPLE_S)
        now, seen = loop.time(), activity(pid_file)
        if now - began > TURN_S:
            return f"its turn has taken {TURN_S:g} s and goes on: its kernel hangs, or a program that says nothing"
        if seen is None or before is None or first is None:
            before = first = seen
            samples, busy, since = 0, 0, now
            continue
        samples += 1
        busy += seen.awake or seen.cpu_s > before.cpu_s
        before = seen
        if now - since > STILL_S:
            if busy <= SHARE * samples and seen.cpu_s - first.cpu_s <= SHARE * (now - since):
                return f"its time has stood still for {STILL_S:g} s: it executes nothing, and nothing will wake it"
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
