"""The flight recorder of a cell: which windows of whose trace are kept.

A listener judges each packet when it has come, by what is known of the clocks at that time, and reports windows around
late ones on its own clock. Whoever traces its kernel, and the one below it, holds the latest events and gets these
windows on its own clock. The result judges the packets again, by all that is known of the clocks at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from latlab.recordings.cell import ClockEdge
from latlab.recordings.clock_offset import offset_between
from latlab.run.agent import Agent
from latlab.run.events import ClockBound, Event, Interval, LatePackets, Listener
from latlab.run.start import now_tai_ns
from latlab.scenario import Scenario

GUESSED_NS = 20_000_000
"""By so much two clocks that nothing has compared may differ from what their agents read when they were ready."""


class Flight:
    """Listens to the cell's agents, and passes on what they are to know of each other.

    listener: what gets clock readings, if the run is shown live.
    """

    def __init__(self, scenario: Scenario, listener: Listener, *, live: bool) -> None:
        self._scenario = scenario
        self._listener = listener
        self._live = live
        self._judging: dict[str, Agent] = {}
        self._keeping: dict[str, list[Agent]] = {}
        self._clocks: dict[tuple[str, str], ClockEdge] = {}

    def judges(self, agent: Agent) -> None:
        """Note the listener that judges the packets of its host."""
        self._judging[agent.host.name] = agent

    def keeps(self, host: str, agent: Agent) -> None:
        """Note who keeps windows around the late packets of a host."""
        self._keeping.setdefault(host, []).append(agent)

    def hear(self, event: Event) -> None:
        """Take an event: of late packets and clocks it is this, all others are passed on."""
        match event:
            case LatePackets():
                self._keep(event)
            case ClockBound(from_=here, to=there, lower_ns=lower, upper_ns=upper):
                self._clocks[here, there] = ClockEdge(from_=here, to=there, lower_ns=lower, upper_ns=upper)
                for host, agent in self._judging.items():
                    agent.know(self._known(host))
                if self._live:
                    self._listener(event)
            case _:
                self._listener(event)

    def _known(self, host: str) -> Iterator[tuple[int, int, int]]:
        """(stream, by how much the host's clock is ahead of its talker's, ± that) of each stream it listens to."""
        for name, stream in self._scenario.streams.items():
            if stream.listener == host and (known := self._ahead(host, stream.talker)):
                yield self._scenario.stream_number(name), *known

    def _ahead(self, host: str, other: str) -> tuple[int, int] | None:
        """By how much the host's clock is ahead of the other's, and ± that; None: nothing is known."""
        found = offset_between(list(self._clocks.values()), host, other, np.zeros(1, np.int64))
        if found is None or not found.known[0]:
            return None
        return int(found.estimate_ns[0]), int(found.half_ns[0])

    def _keep(self, late: LatePackets) -> None:
        judging = self._judging[late.host]
        for agent in self._keeping.get(late.host, ()):
            agent.keep(self._moved(late.windows, judging, agent))

    def _moved(self, windows: Iterable[Interval], judging: Agent, keeping: Agent) -> Iterator[Interval]:
        return moved(windows, judging, keeping, self._ahead(keeping.host.name, judging.host.name))


def moved(
    windows: Iterable[Interval], judging: Agent, keeping: Agent, known: tuple[int, int] | None = None
) -> Iterator[Interval]:
    """The windows on the clock of who keeps them, longer by what that is not known to. known: by how much it is ahead
    of the judge's, and ± that; None: nothing has compared the two.
    """
    if judging.host.shared_kernel == keeping.host.shared_kernel:
        ahead_ns, off_ns = 0, 0
    elif known:
        ahead_ns, off_ns = known
    else:
        ahead_ns, off_ns = now_tai_ns(keeping) - now_tai_ns(judging), GUESSED_NS
    for begin, end in windows:
        yield begin + ahead_ns - off_ns, end + ahead_ns + off_ns


class WatchFlight:
    """Listens to the agents that watch, and passes the windows of the one that judges on to those that trace.

    traces: by host, each ready before the first agent watches.
    """

    def __init__(self, listener: Listener) -> None:
        self.traces: dict[str, Agent] = {}
        self._listener = listener

    def hear(self, event: Event) -> None:
        """Take an event: of late packets it is this, all others are passed on."""
        if not isinstance(event, LatePackets):
            self._listener(event)
            return
        # Its kernel's clock is that of the agent that traces there.
        judging = self.traces[event.host]
        for agent in self.traces.values():
            agent.keep(moved(event.windows, judging, agent))
