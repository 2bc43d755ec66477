"""Why a board in virtual time gave up its turn: real-time threads keep its ordinary threads from the CPU.

The board says so itself (docs/reference/agent.md, Turns). What its threads are is known from the names that QEMU and
the kernel give them.
"""

from __future__ import annotations

import json
import re

from latlab.hosts.base import Lost
from latlab.model.facts import Facts

NS = 1e-9
SMALL = 0.05
"""The part of the time that a thread must have run to be named next to the one that ran longest."""
VCPU = re.compile(r"CPU \d+/")
KINDS = (
    (VCPU, "vcpus", "a vCPU of {}"),
    (re.compile("vhost-"), "vhost", "the vhost thread of {}"),
    (re.compile(""), "emulator", "an emulator thread of {}"),
)
"""How the name of a thread of a virtual machine begins, the tuning that sets how it is scheduled, what it is."""


def starved(board: str, said: bytes) -> Lost:
    """The board's own report in words, and what to change."""
    try:
        report = json.loads(said)
        cpus, window_ns, threads = report["cpus"], report["window_ns"], report["threads"]
        held = [one for one in threads if one is threads[0] or one["ran_ns"] >= SMALL * window_ns]
        shares = [
            f"{_thread(one)}, for {100 * one['ran_ns'] / window_ns:.0f} % of {window_ns * NS:g} s" for one in held
        ]
        which = f"CPU {cpus[0]} is" if len(cpus) == 1 else f"CPUs {', '.join(map(str, cpus))} are"
        why = f"its ordinary threads starve: {which} occupied by {', and by '.join(shares)}"
        return Lost(why, _remedy(board, held[0]))
    except (ValueError, LookupError, TypeError):
        return Lost(f"its ordinary threads starve: {said.decode(errors='replace')}")


def _thread(thread: Facts) -> str:
    """As "CPU 0/KVM (a vCPU of vm1, thread 269) at SCHED_FIFO 1"."""
    whose = _kind(thread)
    what = f"{whose[1].format(thread['machine'])}, " if whose else ""
    return f"{thread['name']} ({what}thread {thread['tid']}) at {thread['policy']} {thread['priority']}"


def _kind(thread: Facts) -> tuple[str, str] | None:
    """The key of the guest's tuning and what the thread is; None of one that is no virtual machine's."""
    if not thread["machine"]:
        return None
    return next((key, what) for begins, key, what in KINDS if begins.match(thread["name"]))


def _remedy(board: str, thread: Facts) -> str:
    more = f"another CPU (`cpus` of {board}) for it alone"
    if kind := _kind(thread):
        place = f"tuning: guests: {thread['machine']}: {kind[0]}"
        return f"leave out `fifo` in {place}; or {more}, by `cpus` with `fifo`"
    return f"run {thread['name']} as an ordinary thread; or {more}"
