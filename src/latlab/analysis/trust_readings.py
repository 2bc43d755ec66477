"""What checks of the trust table read out of a cell's evidence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from latlab.analysis.evidence import Evidence
from latlab.model.part import Facts
from latlab.recordings.cell import Totals
from latlab.result.types import Metric

SENDING: Final = ("talk", "ping", "pong")
RECEIVING: Final = ("listen", "ping", "pong")
MEASURING: Final = ("talk", "listen", "ping", "pong", "timer")
"""The verbs whose threads packets wait for."""


def totals(evidence: Evidence, *verbs: str) -> Iterator[tuple[str, Totals]]:
    """Each agent that ended on its own, and what it reported then; of these verbs, or of any."""
    for agent in evidence.cell.agents:
        if agent.done and (not verbs or agent.verb in verbs):
            yield agent.name, agent.done


def said_sent(evidence: Evidence) -> Iterator[tuple[str, str, int]]:
    """(agent, stream, packets sent or refused) by the agents' own counters; of a probe's agents, its legs."""
    names = {stream.stream: stream.name for stream in evidence.cell.streams}
    for agent in evidence.cell.agents:
        done = agent.done
        if not done or agent.verb not in SENDING:
            continue
        if agent.verb == "talk":
            for said in done.streams or ():
                if said.stream in names:
                    yield agent.name, names[said.stream], (said.sent or 0) + (said.send_errors or 0)
        else:
            sent, leg = (done.sent, "up") if agent.verb == "ping" else (done.answered, "down")
            yield agent.name, f"{agent.probe}.{leg}", (sent or 0) + (done.send_errors or 0)


def said_received(evidence: Evidence) -> Iterator[tuple[str, str, int]]:
    """(agent, stream, packets received, each once) by the agents' own counters; of a probe's agents, its legs."""
    names = {stream.stream: stream.name for stream in evidence.cell.streams}
    for agent in evidence.cell.agents:
        done = agent.done
        if not done or agent.verb not in RECEIVING:
            continue
        if agent.verb == "listen":
            for said in done.streams or ():
                if said.stream in names and said.received is not None:
                    yield agent.name, names[said.stream], said.received
        elif done.received is not None:
            leg = "down" if agent.verb == "ping" else "up"
            yield agent.name, f"{agent.probe}.{leg}", done.received


def said_of_some(evidence: Evidence) -> Iterator[tuple[str, str, str, int]]:
    """(agent, stream, which of its packets, how many by the agent's own counters), as the result's counts name them."""
    names = {stream.stream: stream.name for stream in evidence.cell.streams}
    for agent in evidence.cell.agents:
        if not agent.done or agent.verb not in (*SENDING, *RECEIVING):
            continue
        which = ("unsent_late", "launch_late", "launch_moved") if agent.verb == "talk" else ("reordered",)
        leg = f"{agent.probe}.{'up' if agent.verb == 'pong' else 'down'}"
        for said in agent.done.each:
            name = names.get(said.stream or 0) if agent.done.streams is not None else leg
            for one in which:
                if name is not None and (count := getattr(said, one)) is not None:
                    yield agent.name, name, one, count


def untagged(evidence: Evidence) -> Iterator[tuple[str, str, int]]:
    """(host, stream, frames that came in there without their VLAN tag) where there were any; of a probe, its leg."""
    names = {stream.stream: stream.name for stream in evidence.cell.streams}
    for agent in evidence.cell.agents:
        done = agent.done
        if not done or agent.verb not in RECEIVING:
            continue
        leg = f"{agent.probe}.{'up' if agent.verb == 'pong' else 'down'}"
        for said in done.each:
            if count := said.untagged:
                yield agent.host, names.get(said.stream or 0, leg), count


def metrics(evidence: Evidence, *names: str) -> Iterator[tuple[str, str, str, Metric]]:
    """(where, stream, metric, figures) of every stream that has one of these metrics."""
    for stream, measured in evidence.streams.items():
        for name in names:
            if name in measured.metrics:
                yield f"{stream}.{name}", stream, name, measured.metrics[name]


def counts_of(evidence: Evidence, stream: str) -> dict[str, int] | None:
    """What the result counts of a stream, 0 where that is not known; None: it has no such stream."""
    found = evidence.streams.get(stream)
    return None if found is None else defaultdict(int, {name: count or 0 for name, count in found.counts.items()})


def counters(evidence: Evidence, *path: str) -> Iterator[tuple[str, int, int]]:
    """(host, before, after) of a counter, for every host that has it both times."""
    for host, facts in evidence.facts_before.items():
        before, after = fact(facts, *path), fact(evidence.facts_after.get(host, {}), *path)
        if before is not None and after is not None:
            yield host, before, after


def fact(facts: Any, *path: str) -> Any:
    """The fact at a path of keys; None if an older agent or another kernel does not have it."""
    for key in path:
        facts = facts.get(key) if isinstance(facts, Mapping) else None
    return facts


def same_kernel(evidence: Evidence, host: str) -> frozenset[str]:
    """The hosts whose facts are of the same kernel as this one's, itself included."""
    boot = fact(evidence.facts_before.get(host, {}), "kernel", "boot_id")
    return frozenset(
        other
        for other, facts in evidence.facts_before.items()
        if other == host or (boot is not None and fact(facts, "kernel", "boot_id") == boot)
    )


@dataclass(frozen=True)
class Pinned:
    """A measured thread that may run on some of its machine's CPUs only.

    name: as `talk on sensor`, or `CPU 0/KVM` of a guest. priority: SCHED_FIFO's, 0 of an ordinary thread.
    """

    name: str
    cpus: frozenset[int]
    priority: int


def pinned(evidence: Evidence, host: str) -> list[Pinned]:
    """Talkers, listeners and virtual CPUs on the host's kernel that are bound to some of its CPUs."""
    facts = evidence.facts_before.get(host, {})
    online = frozenset(fact(facts, "cpu", "online") or ())
    alike = same_kernel(evidence, host)
    found = []
    for agent in evidence.cell.agents:
        realtime = agent.realtime
        if agent.host in alike and agent.verb in MEASURING and realtime.cpus:
            found.append(Pinned(agent.name, frozenset(realtime.cpus), realtime.priority or 0))
    for name, thread in vcpus(evidence, host):
        if thread.get("cpus"):
            found.append(Pinned(name, frozenset(thread["cpus"]), thread.get("priority") or 0))
    return [one for one in found if one.cpus < online]


def vcpus(evidence: Evidence, host: str) -> Iterator[tuple[str, Facts]]:
    """(name, thread) of the virtual CPUs that KVM runs on the host, by its facts; where the lab knows which are the
    guests', only theirs.
    """
    guests = [guest for guest in evidence.cell.guests if guest.host in same_kernel(evidence, host)]
    known = [guest.vcpu_threads for guest in guests]
    ids = {thread for threads in known for thread in (threads or {}).values()}
    for name, thread in (fact(evidence.facts_before.get(host, {}), "processes", "threads") or {}).items():
        if guests and name.endswith("/KVM") and (thread.get("id") in ids or not all(known)):
            yield name, thread


def elapsed_ns(evidence: Evidence, host: str) -> int | None:
    """The time between the host's facts before and after, ns; None without both."""
    found = (after - before for name, before, after in counters(evidence, "taken_tai_ns") if name == host)
    return next(found, None)


def listed(cpus: Iterable[int]) -> str:
    """CPUs as people write them: "CPU 3", "CPUs 0, 2-5"."""
    numbers = sorted(set(cpus))
    ranges: list[list[int]] = []
    for cpu in numbers:
        if ranges and cpu == ranges[-1][-1] + 1:
            ranges[-1].append(cpu)
        else:
            ranges.append([cpu])
    text = ", ".join(f"{one[0]}-{one[-1]}" if len(one) > 1 else str(one[0]) for one in ranges)
    return f"CPU{'s' if len(numbers) > 1 else ''} {text}"
