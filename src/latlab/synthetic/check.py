"""Whether a description can be made: what is wrong with it, where, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from latlab.model.errors import UsageError
from latlab.model.timestamps import STAGES
from latlab.synthetic.description import (
    Description,
    Ingredient,
    LateWakes,
    Losses,
    MissedSlots,
    Noise,
    Periodic,
    PeriodicStalls,
    Reorders,
    Spikes,
    Throttling,
)
from latlab.synthetic.way import GUARD_NS


@dataclass(frozen=True)
class DescriptionProblem:
    """What is wrong with a description, and what to write instead. path: fields' names, and the ingredient's number."""

    path: tuple[str | int, ...]
    what: str
    remedy: str


def check(description: Description) -> None:
    """Check the description. UsageError: it is impossible; each of its parts says what is wrong with it."""
    found = [UsageError(one.what, where=_where(one, description), remedy=one.remedy) for one in problems(description)]
    if len(found) == 1:
        raise found[0]
    if found:
        raise UsageError("the description is impossible", parts=found)


def problems(description: Description) -> list[DescriptionProblem]:
    """All that is wrong with it."""
    found = [*_whole(description), *_noise(description.noise)]
    for number, one in enumerate(description.ingredients):
        found += [DescriptionProblem(("ingredients", number), *said) for said in _ingredient(one, description)]
    return found


def _where(one: DescriptionProblem, description: Description) -> str:
    if isinstance(one.path[-1], int):
        return f"ingredients[{one.path[-1]}], {type(description.ingredients[one.path[-1]]).__name__}"
    return ".".join(map(str, one.path))


def _whole(one: Description) -> Iterator[DescriptionProblem]:
    if one.packets < 1:
        yield DescriptionProblem(("packets",), f"{one.packets} packets", "give 1 or more")
    if one.period_ns < 1:
        yield DescriptionProblem(("period_ns",), f"a period of {one.period_ns} ns", "give 1 or more")
    if not 0 <= one.warmup <= one.packets:
        yield DescriptionProblem(("warmup",), f"{one.warmup} of {one.packets} packets", "give no more than there are")
    if not 0 <= one.drain_ns < max(one.period_ns, 1):
        what = f"{one.drain_ns} ns between packets every {one.period_ns} ns"
        yield DescriptionProblem(("drain_ns",), what, "give less than a period, else they never arrive in time")
    if one.clock_bound_ns is not None and one.clock_bound_ns < 0:
        yield DescriptionProblem(("clock_bound_ns",), f"{one.clock_bound_ns} ns", "give 0 or more, or None")
    if len(one.least_ns) != len(STAGES) or min(one.least_ns, default=0) < 0:
        yield DescriptionProblem(
            ("least_ns",), f"{one.least_ns}", f"give a delay, 0 or more, for each of {', '.join(STAGES)}"
        )
    if (gates := one.gates) is not None and not GUARD_NS <= gates.open_ns <= gates.cycle_ns:
        what = f"open for {gates.open_ns} of {gates.cycle_ns} ns"
        yield DescriptionProblem(("gates",), what, f"open them for {GUARD_NS} ns at least, and no more than a cycle")


def _noise(one: Noise) -> Iterator[DescriptionProblem]:
    if min(one.spread_ns, one.slow_ns, one.slow_correlation_ns, one.lattice_ns) < 0:
        yield DescriptionProblem(("noise",), "a negative duration", "give 0 or more")
    if sum(weight for weight, _ in one.modes) > 1:
        yield DescriptionProblem(("noise",), "the modes' weights add up to more than 1", "give shares of all packets")


def _ingredient(one: Ingredient, description: Description) -> Iterator[tuple[str, str]]:
    """(what is wrong, what to do) of one ingredient."""
    if isinstance(one, Spikes | LateWakes | MissedSlots | Reorders):
        outside = [number for number in one.sequences if not 0 <= number < description.packets]
        if outside:
            yield f"packet {outside[0]} of {description.packets}", "name packets that the run has"
    if isinstance(one, Losses):
        if any(first < 0 or first + packets > description.packets for first, packets in one.bursts):
            yield "a burst that is not within the run", "name packets that the run has"
        if not 0 <= one.share <= 1:
            yield f"a share of {one.share}", "give 0 to 1"
    if isinstance(one, Periodic) and bool(one.every_ns) == bool(one.every_packets):
        yield "an interval in both units, or in neither", "give every_ns or every_packets"
    every = one.every_ns or description.period_ns if isinstance(one, Periodic) else None
    if isinstance(one, PeriodicStalls):
        every = one.every_ns
    if isinstance(one, Throttling):
        every = one.period_ns
    if every is not None and every < description.period_ns:
        yield f"every {every} ns, packets every {description.period_ns} ns", "give a period of the packets or more"
    if isinstance(one, MissedSlots) and description.gates is None:
        yield "there are no gates", "add gates to the description"
