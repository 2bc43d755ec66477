"""Gate schedules as text: entries, a bar of the cycle for each class, the streams' bounds, warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console

from latlab.analysis.gate_port import GatePort, Interference
from latlab.analysis.promise import Promise, lattice_of
from latlab.analysis.words import duration, plural
from latlab.evaluation.gates import Promised
from latlab.model.part import Keys
from latlab.report.columns import print_sentence, print_table
from latlab.report.document import Table
from latlab.report.gates import (
    ENTRY_HEADINGS,
    departs,
    departs_when,
    entry_rows,
    port_title,
    short,
)
from latlab.report.text import exact
from latlab.result.places import matrix_titles

BAR_COLUMNS = 80
"""Labels and bars together: what every terminal and every log has room for."""
_LABEL_MAX = 20
_FULL, _PART, _CLOSED, _LAUNCH = "█", "▒", "·", "▲"
ASSUMED = (
    "Departures, after launch, are guaranteed if the packet is alone in its class's queue and the port is free.",
    "Other traffic may add: blocking, a frame already on the wire; same class and other classes, a frame of each "
    "other stream there.",
)


def print_gates(
    found: Sequence[tuple[Sequence[str], Sequence[Promised]]], labels: Mapping[str, Keys], console: Console
) -> None:
    """Print the schedules of each group of cells. found: the cells' slugs, and their ports. labels: of every cell."""
    for cells, ports in found:
        if len(found) > 1:
            title = f"{plural(len(cells), 'cell')}, {matrix_titles(cells, labels)}"
            print_sentence(f"{title}:" if ports else f"{title}: no gate schedule", console)
        for one in ports:
            _print_port(one, console)
    for line in ASSUMED:
        print_sentence(line, console)


def bars(port: GatePort, columns: int = BAR_COLUMNS) -> Iterator[str]:
    """The cycle as lines of text: for each class its open time, and below where the launches of its streams are.

    A column is filled where the gate is open throughout, half where it is for a part of it.
    """
    names = [*(f"class {one}" for one in port.classes), *(f"  {flow.name}" for flow in port.flows)]
    label = min(_LABEL_MAX, max(map(len, names)))
    width = columns - label - 1
    end = f"{exact(port.schedule.cycle_ns)} µs"
    yield " " * (label + 1) + "0" + end.rjust(width - 1)
    for traffic_class in port.classes:
        yield f"{f'class {traffic_class}':{label}} {_bar(port, traffic_class, width)}"
        for flow in port.flows:
            if flow.traffic_class == traffic_class:
                lattice = lattice_of(port.schedule, flow)
                columns_hit = _columns_hit(lattice.first_ns, lattice.step_ns, port.schedule.cycle_ns, width)
                marks = "".join(_LAUNCH if hit else " " for hit in columns_hit)
                yield f"{_cut(f'  {flow.name}', label):{label}} {marks}".rstrip()


def _print_port(one: Promised, console: Console) -> None:
    port = one.port
    print_sentence(port_title(port), console)
    _say(console, "")
    print_table(_entries(port), console)
    _say(console, "")
    for line in bars(port):
        _say(console, line)
    if port.flows:
        _say(console, "")
        print_table(_promises(one), console)
        _say(console, "")
        for promised, meets in zip(one.promises, one.interference, strict=True):
            left = departure_windows(promised, port.flow(promised.stream).handover.early_ns)
            print_sentence(f"  {promised.stream}: {left}{f'; {others(meets)}' if promised.departs else ''}", console)
    else:
        _say(console, "\nNo stream leaves here.")
    for number, warned in enumerate(one.warnings):
        if not number:
            _say(console, "")
        print_sentence(f"  warning: {warned.where}: {warned.what} ({warned.remedy})", console)
    _say(console, "")


def _entries(port: GatePort) -> Table:
    return Table(ENTRY_HEADINGS, list(entry_rows(port)), range(len(ENTRY_HEADINGS) - 1))


def _promises(one: Promised) -> Table:
    headings = ("stream", "class", "frame", "on wire", "guard", "phases", "departs", "worst wait")
    rows = [
        (
            promised.stream,
            str(promised.traffic_class),
            f"{promised.frame.size} B",
            duration(promised.frame_ns),
            duration(promised.guard_ns),
            str(promised.phases),
            departs(promised),
            "" if promised.worst_wait_ns is None else short(promised.worst_wait_ns),
        )
        for promised in one.promises
    ]
    return Table(headings, rows, range(1, len(headings)))


def others(meets: Interference) -> str:
    """What other traffic may add to the wait of each of its packets, term by term, as a sentence's end."""
    terms = {
        "blocking": meets.blocking_ns,
        "same class": meets.same_class_ns,
        "other classes": meets.other_classes_ns,
    }
    told = [f"{name} {short(ns)}" for name, ns in terms.items() if ns]
    told += [f"{name} without bound" for name in meets.unbounded]
    return f"other traffic may add {', '.join(told)}" if told else "other traffic adds nothing"


def departure_windows(promised: Promise, early_ns: int = 0) -> str:
    """Which windows its packets leave in, as a sentence's end. early_ns: how much earlier they do."""
    if not promised.departs:
        return "no packet ever departs"
    used = [share for share in promised.windows if share.phases]
    if not promised.windows:
        return f"leaves {departs_when(promised)}"
    if used and used[0].window.end_ns is None:
        return "its gate never closes"
    parts = []
    for share in used:
        among = f" ({share.phases} of {promised.phases} phases)" if len(used) > 1 else ""
        parts.append(f"{exact(share.window.start_ns)} to {exact(share.window.end_ns or 0)} µs{among}")
    early = f", {exact(early_ns)} µs early" if early_ns else ""
    return f"leaves in the window{'s' if len(parts) > 1 else ''} {', '.join(parts)}{early}"


def _bar(port: GatePort, traffic_class: int, width: int) -> str:
    """Exact: columns are compared as whole multiples of 1/width of a nanosecond."""
    cycle_ns = port.schedule.cycle_ns
    open_parts = [0] * width
    for window in port.schedule.entry_windows(traffic_class):
        start, end = window.start_ns * width, (window.start_ns + (window.length_ns or 0)) * width
        for column in range(start // cycle_ns, min(width, -(-end // cycle_ns))):
            open_parts[column] += min(end, (column + 1) * cycle_ns) - max(start, column * cycle_ns)
    return "".join(_FULL if part == cycle_ns else _PART if part else _CLOSED for part in open_parts)


def _columns_hit(first_ns: int, step_ns: int, cycle_ns: int, width: int) -> list[bool]:
    """In which of the columns of the cycle a phase is."""
    hit = []
    for column in range(width):
        start, end = -(-column * cycle_ns // width), -(-(column + 1) * cycle_ns // width)
        hit.append(start + (first_ns - start) % step_ns < end)
    return hit


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
