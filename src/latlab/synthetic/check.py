"""Whether a description can be made: what is wrong with it, where, and what to write instead."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from latlab.model.errors import UsageError
from latlab.model.timestamps import STAGES
from latlab.model.units import HOUR_NS, SECOND_NS
from latlab.synthetic.description import (
    Description,
    Drift,
    Duplicates,
    Ingredient,
    LateWakes,
    Losses,
    MissedSlots,
    Noise,
    Oscillation,
    Periodic,
    PeriodicStalls,
    Reorders,
    Spikes,
    Step,
    Swing,
    Throttling,
)
from latlab.synthetic.way import GUARD_NS

LONGEST_NS: Final = 365 * 24 * HOUR_NS
"""As a scenario's; sums of a few are far from what an int64 holds."""
_LONGEST: Final = "365 days at most"
SPREAD_MOST_NS: Final = SECOND_NS
SIGMA_MOST: Final = 3.0
"""The farthest of 20 million packets, six sigma out, is e^18 medians late: two years for a median of a second."""
DEGREES: Final = (1.0, 1_000.0)
"""With fewer than one a packet of some million is later than an int64 holds."""
PPB_BELOW: Final = 1e9
DRAIN_OF_REORDERS_NS: Final = 2
"""A packet that is overtaken arrives half of it after the one that overtakes it."""
_EITHER_SIGN: Final = ("at_ns", "amplitude_ns", "shift_ns")
_OF_SHAPES: Final = {
    "sigma": ("lognormal",),
    "degrees": ("heavy",),
    "modes": ("modes",),
    "rho": ("gaussian", "lognormal", "modes", "exponential", "uniform"),
}
"""Fields of the noise that not every shape has."""


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
    found = [*_whole(description), *_noise(description.noise, description)]
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
    for name, what, remedy in _fields(one):
        yield DescriptionProblem((name,), what, remedy)
    if one.gates is not None:
        for name, what, remedy in _fields(one.gates):
            yield DescriptionProblem(("gates", name), what, remedy)
    if one.period_ns == 0:
        yield DescriptionProblem(("period_ns",), f"a period of {one.period_ns} ns", "give 1 or more")
    if one.packets * one.period_ns > LONGEST_NS:
        what = f"{one.packets} packets every {one.period_ns} ns"
        yield DescriptionProblem(("packets",), what, f"give fewer: a run lasts {_LONGEST}")
    if not 0 <= one.warmup < max(one.packets, 1):
        yield DescriptionProblem(("warmup",), f"{one.warmup} of {one.packets} packets", "give fewer than there are")
    if one.drain_ns >= max(one.period_ns, 1):
        what = f"{one.drain_ns} ns between packets every {one.period_ns} ns"
        yield DescriptionProblem(("drain_ns",), what, "give less than a period, else they never arrive in time")
    if len(one.least_ns) != len(STAGES) or not all(0 <= least <= LONGEST_NS for least in one.least_ns):
        yield DescriptionProblem(
            ("least_ns",), f"{one.least_ns}", f"give a delay, 0 or more, for each of {', '.join(STAGES)}"
        )
    if (gates := one.gates) is not None and not GUARD_NS <= gates.open_ns <= gates.cycle_ns:
        what = f"open for {gates.open_ns} of {gates.cycle_ns} ns"
        yield DescriptionProblem(("gates",), what, f"open them for {GUARD_NS} ns at least, and no more than a cycle")


def _noise(one: Noise, description: Description) -> Iterator[DescriptionProblem]:
    def wrong(name: str, what: str, remedy: str) -> DescriptionProblem:
        return DescriptionProblem(("noise", name), what, remedy)

    for said in _fields(one):
        yield wrong(*said)
    for name in ("spread_ns", "slow_ns", "lattice_ns"):
        if SPREAD_MOST_NS < (value := getattr(one, name)) <= LONGEST_NS:
            yield wrong(name, f"{value} ns", f"give {SPREAD_MOST_NS} ns or less")
    for name, shapes in _OF_SHAPES.items():
        if getattr(one, name) != getattr(Noise, name) and one.shape not in shapes:
            yield wrong(name, f"the shape {one.shape} has no {name}", f"leave it out, or shape: {' or '.join(shapes)}")
    if not 0 <= one.sigma <= SIGMA_MOST:
        yield wrong("sigma", f"a sigma of {one.sigma}", f"give 0 to {SIGMA_MOST}")
    if not DEGREES[0] <= one.degrees <= DEGREES[1]:
        yield wrong("degrees", f"{one.degrees} degrees of freedom", f"give {DEGREES[0]} to {DEGREES[1]}")
    if not 0 <= one.rho < 1:
        yield wrong("rho", f"a correlation of {one.rho}", "give 0 or more, and less than 1")
    elif one.rho and -1 / math.log(one.rho) > description.packets:
        what = f"a correlation of {one.rho} between packets lasts for longer than {description.packets} packets"
        yield wrong("rho", what, "give less, or more packets")
    span_ns = description.packets * description.period_ns
    if one.slow_correlation_ns > max(span_ns, 0):
        what = f"correlated over {one.slow_correlation_ns} ns of a run of {span_ns} ns"
        yield wrong("slow_correlation_ns", what, "give what the run lasts, or less")
    if one.slow_correlation_ns and not one.slow_ns:
        yield wrong("slow_correlation_ns", "nothing is slow", "give slow_ns, too")
    if one.shape == "modes" and not one.modes:
        yield wrong("modes", "there are none", "give a weight and an offset for each, or another shape")
    if not all(0 <= weight <= 1 for weight, _ in one.modes):
        yield wrong("modes", "a weight that is not a share", "give 0 to 1")
    elif math.fsum(weight for weight, _ in one.modes) > 1:
        yield wrong("modes", "the modes' weights add up to more than 1", "give shares of all packets")
    if not all(0 <= offset <= LONGEST_NS for _, offset in one.modes):
        yield wrong("modes", "an offset that is negative, or too long", f"give {_LONGEST}")


def _fields(one: Any) -> Iterator[tuple[str, str, str]]:
    """(field, what is wrong, what to do) of each duration, number and word of a dataclass that is none."""
    hints = get_type_hints(type(one))
    for name in (field.name for field in fields(one)):
        value = getattr(one, name)
        if name.endswith("_ns") and isinstance(value, int) and name != "start_tai_ns":
            least = -LONGEST_NS if name in _EITHER_SIGN else 0
            if not least <= value <= LONGEST_NS:
                sign = "" if least == 0 else ", of either sign"
                yield name, f"{name} is {value}", f"give {_LONGEST}{sign}"
        elif get_origin(hints[name]) is Literal and value not in get_args(hints[name]):
            yield name, f"{name} is {value!r}", f"give one of {', '.join(get_args(hints[name]))}"


def _ingredient(one: Ingredient, description: Description) -> Iterator[tuple[str, str]]:
    """(what is wrong, what to do) of one ingredient."""
    for _, what, remedy in _fields(one):
        yield what, remedy
    yield from _extent(one, description)
    yield from _packets_named(one, description)
    if isinstance(one, Losses) and not 0 <= one.share <= 1:
        yield f"a share of {one.share}", "give 0 to 1"
    if isinstance(one, Periodic) and bool(one.every_ns) == bool(one.every_packets):
        yield "an interval in both units, or in neither", "give every_ns or every_packets"
    if isinstance(one, Periodic) and one.every_packets < 0:
        yield f"every {one.every_packets} packets", "give 1 or more"
    if isinstance(one, Periodic | PeriodicStalls) and not 0 <= one.scatter <= 1:
        yield f"a scatter of {one.scatter}", "give 0 to 1, the share by which it varies"
    if isinstance(one, Duplicates) and one.count < 0:
        yield f"{one.count} copies", "give 0 or more"
    if isinstance(one, MissedSlots) and one.cycles < 1:
        yield f"{one.cycles} cycles later", "give 1 or more"
    if isinstance(one, MissedSlots) and description.gates is None:
        yield "there are no gates", "add gates to the description"
    if isinstance(one, Swing | Step) and one.ptp and not description.ptp:
        yield "ptp: nothing observes a ptp4l", "add ptp to the description, or leave it out here"
    if isinstance(one, Drift) and not abs(one.ppb) < PPB_BELOW:
        yield f"{one.ppb} ppb", f"give less than {PPB_BELOW:.0f}, of either sign: clocks run forwards"


def _extent(one: Ingredient, description: Description) -> Iterator[tuple[str, str]]:
    """What is wrong with when it begins, how long it takes and how often it comes."""
    begins = getattr(one, "at_ns", getattr(one, "first_ns", 0))
    span_ns = description.packets * description.period_ns
    if begins >= span_ns > 0:
        yield f"it begins {begins} ns after the first packet, the run lasts {span_ns} ns", "let it begin earlier"
    for name in ("length_ns", "decay_ns", "gap_ns"):
        if getattr(one, name, None) == 0:
            yield f"{name} is 0", "give 1 or more"
    every = one.every_ns or description.period_ns if isinstance(one, Periodic) else None
    if isinstance(one, PeriodicStalls):
        every = one.every_ns
    if isinstance(one, Throttling):
        every = one.period_ns
    if every is not None and every < description.period_ns:
        yield f"every {every} ns, packets every {description.period_ns} ns", "give a period of the packets or more"
    if isinstance(one, Oscillation) and one.every_ns <= 2 * description.period_ns:
        what = f"every {one.every_ns} ns, packets every {description.period_ns} ns"
        yield what, "give more than two periods of the packets: they do not show a shorter one"


def _packets_named(one: Ingredient, description: Description) -> Iterator[tuple[str, str]]:
    """What is wrong with packets that it names."""
    if isinstance(one, Spikes | LateWakes | MissedSlots | Reorders):
        outside = [number for number in one.sequences if not 0 <= number < description.packets]
        if outside:
            yield f"packet {outside[0]} of {description.packets}", "name packets that the run has"
    if isinstance(one, Losses):
        if any(first < 0 or first + packets > description.packets for first, packets in one.bursts):
            yield "a burst that is not within the run", "name packets that the run has"
        if any(packets < 1 for _, packets in one.bursts):
            yield "a burst of no packet", "give 1 or more"
    if isinstance(one, Reorders):
        if one.places < 1:
            yield f"overtaken by {one.places} packets", "give 1 or more"
        last = description.packets - one.places
        late = [number for number in one.sequences if last <= number < description.packets]
        if late:
            what = f"packet {late[0]} of {description.packets} is overtaken by {one.places}"
            yield what, "name packets that as many follow"
        if description.drain_ns < DRAIN_OF_REORDERS_NS:
            what = f"packets pass {description.drain_ns} ns apart: none is between two of them"
            yield what, f"give a drain_ns of {DRAIN_OF_REORDERS_NS} or more"
