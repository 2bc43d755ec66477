"""Traced listeners and timers: what woke them, what the interrupts interrupted, and the intervals on the path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from latlab.model.units import MILLISECOND_NS
from latlab.recordings.cell import FlightWindow, KeptAround, ThreadTime
from latlab.report import rows
from latlab.report.document import Table, bad_if
from latlab.report.testbed import label_text
from latlab.report.text import microseconds
from latlab.result.places import cell_title
from latlab.result.types import CameTo, Cell, Result, Trace

TITLE: Final = "How packets and timers woke their thread, warm-up left out"
HEADINGS: Final = (
    *("cell", "repeat", "stream", "n", "woke it", "thread was awake", "unknown", "interrupts arrived in"),
    *("softirq raised by", "path into the guest", "VM host's interrupt arrived in", "whole", "events", "lost"),
)
MISSING_TITLE: Final = "Incomplete breakdowns: the first missing stage and the reason, warm-up left out"
MISSING_HEADINGS: Final = ("cell", "repeat", "stream", "n", "of", "reason", "what it means")
INTERVAL_TITLE: Final = "From the interrupt to the thread, µs, warm-up left out"
INTERVAL_HEADINGS: Final = (
    *("cell", "repeat", "stream", "interval", "from", "to", "n", "min", "mean", "p50", "p99", "max"),
)
FLIGHT_TITLE: Final = "Flight recorder: kept parts of traces"
FLIGHT_HEADINGS: Final = (
    *("cell", "repeat", "host", "trigger", "packets judged", "late", "kept as typical", "not judged"),
    *("windows kept", "incomplete windows"),
)
AROUND_TITLE: Final = "Around late packets: the longest windows, all CPUs together, µs"
AROUND_HEADINGS: Final = (
    *("cell", "repeat", "host", "from, ms", "length", "events", "threads that ran", "threads ready and not running"),
    *("interrupts", "softirqs"),
)
_FIGURES: Final = ("min", "mean", "p50", "p99", "max")
_NAMED: Final = 3
"""The number of interrupted threads that are named, those with the most interrupts; all are in result.json."""


def trace_tables(result: Result) -> list[Table]:
    """The tables of all cells; none where nothing was traced. That of reasons only where a breakdown is not whole."""
    found, around = list(_traced(result)), list(_around(result))
    told = tuple(_row(*one) for one in found)
    intervals = tuple(row for place, trace, _ in found for row in _intervals(place, trace))
    missing = tuple(row for place, trace, _ in found for row in _missing(place, trace))
    flights = (*_flights(found), *((*place, one.trigger, *_judged(one), *_counts_of(one)) for place, one, _ in around))
    windows = [(*place, *_window(window, start)) for place, one, start in around for window in one.windows]
    label = label_text(result)
    tables = (
        (FLIGHT_HEADINGS, flights, range(4, len(FLIGHT_HEADINGS)), FLIGHT_TITLE),
        (AROUND_HEADINGS, windows, (3, 4, 5, 8, 9), AROUND_TITLE),
        (HEADINGS, told, range(3, 7), TITLE),
        (MISSING_HEADINGS, missing, range(3, 5), MISSING_TITLE),
    )
    shown = [Table(headings, of_it, right, f"{title} · {label}") for headings, of_it, right, title in tables if of_it]
    # Of whatever was traced, even where no interval is known.
    if found:
        right = range(6, len(INTERVAL_HEADINGS))
        shown.append(Table(INTERVAL_HEADINGS, intervals, right, f"{INTERVAL_TITLE} · {label}"))
    return shown


def _around(result: Result) -> Iterator[tuple[tuple[str, str, str], KeptAround, int]]:
    """((cell, repetition, host), what was kept there around late packets that were watched, when the cell began)."""
    for cell in rows.ordered_cells(result):
        place, start = (cell_title(cell), str(cell.repeat)), cell.start_tai_ns or 0
        for one in cell.imported.flights if cell.imported else ():
            yield (*place, one.host), one, start
        for flow in cell.flows:
            yield from (((*place, f"{one.host}, flow {flow.name}"), one, start) for one in flow.flights)


def _judged(one: KeptAround) -> tuple[str, ...]:
    """Of packets; blank where another kernel judged them."""
    if not (judged := one.judged):
        return ("",) * 4
    told = (str(count) for count in (judged.judged, judged.late, judged.typical))
    return (*told, bad_if(judged.unjudged, str(judged.unjudged)))


def _counts_of(one: KeptAround) -> tuple[str, str]:
    """Of windows."""
    return (
        (str(one.kept.windows), bad_if(one.kept.overran, str(one.kept.overran))) if one.kept else ("not reported",) * 2
    )


def _window(window: FlightWindow, start_tai_ns: int) -> tuple[str, ...]:
    return (
        f"{(window.from_tai_ns - start_tai_ns) / MILLISECOND_NS:.1f}",
        microseconds(window.to_tai_ns - window.from_tai_ns) or "",
        bad_if(not window.whole, str(window.events)),
        _times(window.ran),
        _times(window.waited),
        microseconds(window.interrupts_ns) or "",
        microseconds(window.softirqs_ns) or "",
    )


def _times(found: Iterable[ThreadTime]) -> str:
    return ", ".join(f"{one.comm or 'unknown'} {microseconds(one.ns)}" for one in found)


def whom_text(whom: CameTo) -> str:
    """What an interrupt interrupted: "idle", "thread stress-ng (guest user)"; what it is, its name where it has one,
    and where its vCPU was.
    """
    text = " ".join(filter(None, (whom.what, whom.comm)))
    return f"{text} ({whom.vcpu})" if whom.vcpu else text


def _traced(result: Result) -> Iterator[tuple[tuple[str, str, str], Trace, str]]:
    """((cell, repetition, stream), what the trace reports of it, and of the path into a guest), in summary's order."""
    for cell in rows.ordered_cells(result):
        for name, block in cell.streams.items():
            if trace := block.trace:
                yield (cell_title(cell), str(cell.repeat), name), trace, _entry(cell, trace)


def _flights(found: Iterable[tuple[tuple[str, str, str], Trace, str]]) -> Iterator[tuple[str, ...]]:
    """A row for each host of a cell with a flight recorder."""
    seen = set()
    for (cell, repeat, _), trace, _entry in found:
        place, one = (cell, repeat, trace.host), trace.flight
        if one is None or place in seen:
            continue
        seen.add(place)
        yield (
            *place,
            one.trigger,
            *(str(count) for count in (one.judged, one.late, one.typical)),
            bad_if(one.unjudged, str(one.unjudged)),
            str(one.windows),
            bad_if(one.overran, str(one.overran)),
        )


def _entry(cell: Cell, trace: Trace) -> str:
    """Of how many packets the path of their interrupts into the guest is known; blank where there is no guest."""
    if entry := trace.entry:
        off = entry.uncertainty_ns
        if not entry.told:
            return "not known"
        came_to = _counted([(one.what or "", one.n or 0) for one in entry.interrupted])
        return f"of {entry.told}, to ±{microseconds(off)} µs" + (f"; to {came_to}" if came_to else "")
    guest = next((one for one in cell.guests if one.name == trace.host), None)
    if guest is None:
        return ""
    return "emulated, without KVM" if guest.acceleration == "tcg" else "not requested"


def _row(place: tuple[str, str, str], trace: Trace, entry: str) -> tuple[str, ...]:
    woken, awake = str(trace.told), str(trace.awake)
    if trace.shared:
        woken += f", {trace.shared} of them together with an earlier one"
    whom = _counted([(whom_text(one), one.n or 0) for one in trace.interrupted])
    asked = _counted([(one.comm or "unknown", one.n or 0) for one in trace.raised_by])
    events, lost = ("not reported" if one is None else str(one) for one in (trace.events, trace.lost))
    return (
        *place,
        str(trace.n),
        woken,
        awake,
        bad_if(trace.untold, str(trace.untold)),
        whom or "none known",
        asked,
        entry,
        _ran(trace),
        f"{trace.whole} of {trace.n}" if trace.whole is not None else "",
        events,
        bad_if(lost != "0", lost),
    )


def _ran(trace: Trace) -> str:
    """What the VM host's interrupts interrupted, of a guest's; blank where that is not known."""
    return _counted([(whom_text(one), one.n or 0) for one in trace.entry.ran]) if trace.entry else ""


def _missing(place: tuple[str, str, str], trace: Trace) -> Iterator[tuple[str, ...]]:
    for one in trace.missing:
        yield (*place, str(one.n), str(trace.n), one.id, one.reason)


def _counted(found: list[tuple[str, int]]) -> str:
    """The first of them, each with its count, and how many the others are: "idle 812, thread dd 3, others 2"."""
    parts = [f"{name} {count}" for name, count in found[:_NAMED]]
    others = sum(count for _, count in found[_NAMED:])
    return ", ".join([*parts, *([f"others {others}"] if others else [])])


def _intervals(place: tuple[str, str, str], trace: Trace) -> Iterator[tuple[str, ...]]:
    for one in trace.intervals:
        # One over a stop that is not known is called by its ends, which stand behind it anyway.
        name = "" if "→" in one.name else one.name
        yield (*place, name, one.from_, one.to, str(one.n), *(microseconds(getattr(one, key)) for key in _FIGURES))
