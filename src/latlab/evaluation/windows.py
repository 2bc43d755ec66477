"""User-defined windows: those of a scenario, and those requested after the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic_core import PydanticCustomError

from latlab.analysis.windows import Named
from latlab.model.errors import UsageError
from latlab.recordings.cell import RecordedCell
from latlab.scenario import Scenario, format_duration, parse_duration
from latlab.scenario.streams import launches_between

OPTION: Final = "--window"
_FORM: Final = "FROM..TO after the start of the streams, as 10s..60s, and perhaps a reason behind it: '10s..60s idle'"


def chosen_in(scenario: Scenario | None) -> tuple[Named, ...]:
    """The windows of a scenario; none without one."""
    windows = scenario.windows if scenario else ()
    return tuple(Named(one.from_, one.to, one.why, one.streams) for one in windows)


def chosen_later(texts: Sequence[str]) -> tuple[Named, ...]:
    """The windows that these texts name, `FROM..TO WHY`, in their order. UsageError: one is none, or two overlap."""
    found = [_chosen(text) for text in texts]
    for place, one in enumerate(found):
        for other in found[:place]:
            if one.from_ns < other.to_ns and other.from_ns < one.to_ns:
                raise UsageError(
                    f"{told(one)} overlaps {told(other)}", where=OPTION, remedy="give windows that do not overlap"
                )
    return tuple(found)


def refuse_wrong(later: Sequence[Named], cells: Sequence[RecordedCell]) -> None:
    """Check the windows. UsageError: there is no packet in one of them. cells: every cell.json of the run."""
    if not later:
        return
    measured = [cell for cell in cells if cell.start_tai_ns and cell.imported is None]
    if not measured:
        raise UsageError(
            "no cell has packets with launch times",
            where=OPTION,
            remedy="windows need packets that latlab measured itself",
        )
    for cell in measured:
        for one in later:
            _refuse(one, cell)


def told(one: Named) -> str:
    """A window as people write it: "10s..60s"."""
    return f"{format_duration(one.from_ns)}..{format_duration(one.to_ns)}"


def _chosen(text: str) -> Named:
    span, _, why = text.strip().partition(" ")
    begin, dots, end = span.partition("..")
    try:
        from_ns, to_ns = parse_duration(_zero(begin)), parse_duration(_zero(end))
    except PydanticCustomError as error:
        what = (error.context or {})["what"] if dots else f"{text!r} is not a window"
        raise UsageError(what, where=OPTION, remedy=f"give {_FORM}") from error
    if to_ns <= from_ns:
        raise UsageError(f"{span} ends before it begins", where=OPTION, remedy=f"give {_FORM}")
    return Named(from_ns, to_ns, why.strip(), after_the_fact=True)


def _zero(text: str) -> object:
    """A bare 0 is 0: zero needs no unit."""
    return 0 if text == "0" else text


def _refuse(one: Named, cell: RecordedCell) -> None:
    where, duration, warmup = f"{OPTION}, {cell.slug}", cell.duration_ns, cell.warmup_ns
    if one.to_ns > duration:
        lasted = format_duration(duration)
        raise UsageError(f"{told(one)} is beyond the run", where=where, remedy=f"its streams last for {lasted}")
    if one.to_ns <= warmup:
        lasted = format_duration(warmup)
        raise UsageError(f"{told(one)} is in the warm-up", where=where, remedy=f"that lasts for {lasted}")
    for stream in cell.streams:
        if stream.period_ns is None:
            continue  # a closed loop is no schedule
        offset, period = int(stream.offset_ns or 0), stream.period_ns
        if not launches_between(offset, period, max(one.from_ns, warmup), one.to_ns):
            raise UsageError(
                f"no packet of {stream.name} is launched in {told(one)}",
                where=where,
                remedy=f"give a longer window: its period is {format_duration(period)}",
            )
