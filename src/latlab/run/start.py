"""At which instant the streams of a cell start, by the clock of each host that is to start one then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from latlab.hosts import Host
from latlab.model.units import SECOND_NS
from latlab.run.agent import Agent

TICKS_NS: Final = 20_000_000
"""A multiple of the timer tick's period at 100, 250 and 1000 Hz."""

Ahead = Callable[[Host, Host], int | None]
"""How far the first host's CLOCK_TAI is ahead of the second's, ns; None: not known yet."""


@dataclass(frozen=True)
class Start:
    """An instant, by the CLOCK_TAI of `host`: tai_ns. now_tai_ns: what that read when it was chosen.

    cycle_ns: the least common multiple of the schedules' cycles, 0 without any. scheduled: the hosts that have one.
    """

    host: Host
    now_tai_ns: int
    tai_ns: int
    cycle_ns: int
    scheduled: Collection[str]
    ahead: Ahead

    def on(self, agent: Agent) -> int:
        """The same by the agent's host: exact where clocks have been compared, else to some milliseconds.

        There it is the first instant at which a cycle begins: clocks that PTP keeps have their cycles at once.
        """
        host = agent.host
        if host.shared_kernel == self.host.shared_kernel:
            return self.tai_ns
        ahead_ns = self.ahead(host, self.host)
        if ahead_ns is None:
            return in_step(self.tai_ns + now_tai_ns(agent) - self.now_tai_ns, self.cycle_ns)
        start = self.tai_ns + ahead_ns
        if host.name in self.scheduled and self.cycle_ns:
            return in_step(start - self.cycle_ns // 2, self.cycle_ns)
        return start


def choose_start(
    first: Agent, machine: Host | None, lead_ns: int, cycle_ns: int, scheduled: Collection[str], ahead: Ahead
) -> Start:
    """Choose the instant: `lead_ns` from now, when a cycle of every schedule begins.

    first: who talks first, by whose clock it is chosen. machine: the one that is in virtual time, by whose clock it is
    chosen there. That is rounded up to ticks, so that where the streams begin against the machine's own timers is the
    repetition's choice alone.
    """
    if machine and machine.turns:
        now = machine.turns.tai_ns
        return Start(machine, now, in_step(in_step(now, TICKS_NS) + lead_ns, cycle_ns), cycle_ns, scheduled, ahead)
    now = now_tai_ns(first)
    return Start(first.host, now, in_step(now + lead_ns, cycle_ns), cycle_ns, scheduled, ahead)


def now_tai_ns(agent: Agent) -> int:
    """The CLOCK_TAI of the agent's host now: what it read when it was ready, and the time that has passed since."""
    if turns := agent.host.turns:
        return agent.tai_ns + turns.tai_ns - agent.turn_tai_ns
    return agent.tai_ns + int((asyncio.get_running_loop().time() - agent.ready_at) * SECOND_NS)


def in_step(start_tai_ns: int, cycle_ns: int) -> int:
    """The first instant from then on at which a cycle begins; any is, without one."""
    return -(-start_tai_ns // cycle_ns) * cycle_ns if cycle_ns else start_tai_ns


def joined(offsets: Iterable[tuple[str, str, int]], start: str) -> dict[str, int]:
    """How far each clock is ahead of `start`'s, as far as a chain of offsets leads to it.

    offsets: of two clocks, by how much the second is ahead of the first, ns.
    """
    ahead, left = {start: 0}, list(offsets)
    while found := [one for one in left if (one[0] in ahead) != (one[1] in ahead)]:
        here, there, offset = found[0]
        if here in ahead:
            ahead[there] = ahead[here] + offset
        else:
            ahead[here] = ahead[there] - offset
    return ahead
