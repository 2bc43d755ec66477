"""On which kind of core each measured thread ran, where a machine has several (big.LITTLE, hybrid processors)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from latlab.analysis.evidence import MEASURING, Broken, Evidence, checks, listed, same_kernel, speed_counts, vcpus
from latlab.analysis.words import percent
from latlab.model.facts import Facts, cpus_in, threads_in
from latlab.recordings.cell import RecordedAgent
from latlab.result.types import CoresUsed, CoreUse


@dataclass(frozen=True)
class CoreKind:
    """CPUs of a machine that are alike. core: its name, empty where the kernel does not say it.

    capacity: its speed, 1024 being that of the machine's fastest; None where the kernel does not state it.
    """

    core: str
    capacity: int | None
    cpus: frozenset[int]

    @property
    def name(self) -> str:
        """As `Cortex-A53 (CPUs 0-3)`."""
        return f"{self.core} ({listed(self.cpus)})" if self.core else f"{listed(self.cpus)}, capacity {self.capacity}"


@dataclass(frozen=True)
class MeasuredThread:
    """A measured thread whose machine has several kinds of CPUs.

    cpus: those it may run on. kinds: theirs, the slowest first. rows: what part of its rows it recorded on each CPU;
    empty of what records none. seen: where it ran last, before the streams and afterwards.
    """

    name: str
    host: str
    cpus: frozenset[int]
    kinds: Sequence[CoreKind]
    rows: Mapping[int, float]
    seen: frozenset[int] = frozenset()

    def part(self, kind: CoreKind) -> float:
        """What part of its rows it recorded on CPUs of that kind."""
        return sum(part for cpu, part in self.rows.items() if cpu in kind.cpus)

    @property
    def ran(self) -> list[CoreKind]:
        """The kinds on which it is known to have run, the slowest first."""
        return [kind for kind in self.kinds if kind.cpus & (self.seen | set(self.rows))]


def kinds_of(facts: Facts) -> list[CoreKind]:
    """The kinds of CPUs that a machine has, the slowest first; none where all are alike.

    Speed is the capacity where the kernel states it, else the highest frequency.
    """
    each = cpus_in(facts)
    alike: dict[tuple[str, int | None], list[str]] = {}
    for number, one in each.items():
        alike.setdefault((one.get("core_type") or "", one.get("capacity")), []).append(number)

    def speed(which: tuple[str, int | None]) -> int:
        return which[1] or max(each[number].get("maximum_khz") or 0 for number in alike[which])

    kinds = [CoreKind(*which, frozenset(map(int, alike[which]))) for which in sorted(alike, key=speed)]
    return kinds if len(kinds) > 1 else []


def threads_of(evidence: Evidence) -> Iterator[MeasuredThread]:
    """Every measured thread and virtual CPU on a machine with several kinds of CPUs."""
    seen: set[str] = set()
    for host, facts in evidence.facts_before.items():
        if host in seen or not (kinds := kinds_of(facts)):
            continue
        seen |= (alike := same_kernel(evidence, host))
        for agent in evidence.cell.agents:
            if agent.host in alike and agent.verb in MEASURING and agent.realtime.cpus:
                yield _agent(agent, kinds)
        later = threads_in(evidence.facts_after.get(host))
        for name, thread in vcpus(evidence, host):
            last = (one.get("last_cpu") for one in (thread, later.get(name, {})))
            cpus = frozenset(thread.get("cpus") or ())
            may = [kind for kind in kinds if kind.cpus & cpus]
            yield MeasuredThread(
                f"{host}, {name.partition(' ')[2]}",
                host,
                cpus,
                may,
                {},
                frozenset(cpu for cpu in last if cpu is not None),
            )


def _agent(agent: RecordedAgent, kinds: Sequence[CoreKind]) -> MeasuredThread:
    """An agent's thread; where its CPUs are of one kind, on that."""
    cpus = frozenset(agent.realtime.cpus or ())
    may = [kind for kind in kinds if kind.cpus & cpus]
    total = sum(agent.cores.values())
    rows = {cpu: count / total for cpu, count in agent.cores.items()}
    return MeasuredThread(agent.name, agent.host, cpus, may, rows, cpus if len(may) == 1 else frozenset())


def cores_used(evidence: Evidence) -> list[CoresUsed]:
    """Of every such thread, for the result: the kinds it ran on and, of an agent, how many of its rows it recorded on
    each.
    """
    return [
        CoresUsed(
            thread=one.name,
            host=one.host,
            may=sorted(one.cpus),
            cores=[
                CoreUse(
                    core=kind.core or None,
                    capacity=kind.capacity,
                    cpus=sorted(kind.cpus),
                    share=one.part(kind) if one.rows else None,
                )
                for kind in one.ran
            ],
        )
        for one in threads_of(evidence)
    ]


@checks("core-kinds")
def threads_stayed_on_one_kind_of_core(evidence: Evidence) -> Iterator[Broken]:
    """Measured threads that ran on CPUs of several kinds, and virtual CPUs that may: their figures mix two speeds."""
    for one in threads_of(evidence) if speed_counts(evidence) else ():
        if one.rows and len(one.ran) > 1:
            ran = ", ".join(f"{percent(one.part(kind))} of its records on {kind.name}" for kind in one.ran)
            yield Broken(one.name, "CPUs of one kind", ran)
        elif one.seen and len(one.kinds) > 1:
            kinds = " and ".join(kind.name for kind in one.kinds)
            moved = "; it was on both" if len(one.ran) > 1 else ""
            yield Broken(one.name, "CPUs of one kind", f"it may run on {kinds}{moved}")


@checks("smaller-core")
def threads_ran_on_the_larger_core(evidence: Evidence) -> Iterator[Broken]:
    """Measured threads that the scheduler left on slower CPUs, though they may run on faster ones."""
    for one in threads_of(evidence) if speed_counts(evidence) else ():
        fastest = one.kinds[-1] if one.kinds else None
        if fastest and one.rows and len(one.ran) == 1 and one.ran[0] != fastest:
            yield Broken(one.name, f"the fastest kind of CPU it may run on, {fastest.name}", one.ran[0].name)
