"""Gate schedules of a run on its page: a lane for each traffic class, and what the cycle's entries open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from latlab.analysis.gate_port import Port
from latlab.analysis.promise import lattice_of
from latlab.recordings.run_folder import RunFolder
from latlab.report import rows
from latlab.report.gates import Scheduled, entry_rows, load_titles, port_title, promised_groups, scenario_ports
from latlab.report.places import cell_title
from latlab.report.result import read_scenario
from latlab.report.text import exact
from latlab.result.types import Result
from latlab.scenario import cells

TITLE: Final = "What was asked for, and read back before and after each cell"
LAUNCHES_MAX: Final = 32
"""More phases than these are told in words only."""


@dataclass(frozen=True)
class Lane:
    """One traffic class over the cycle, told in words. bars: (from, width), launches: from, in percent of the cycle."""

    name: str
    bars: tuple[tuple[float, float], ...]
    launches: tuple[float, ...]
    told: str


@dataclass(frozen=True)
class ScheduleDrawing:
    """One port's. cells: where it holds, empty in all of them. entries: rows for `gates.ENTRY_HEADINGS`."""

    title: str
    cells: str
    cycle: str
    lanes: tuple[Lane, ...]
    entries: tuple[tuple[str, ...], ...]


def run_schedules(folder: RunFolder) -> Scheduled:
    """Those of the run's scenario, cells with the same ones together; empty without any, or without a scenario."""
    loaded = read_scenario(folder.scenario_path)
    if loaded is None:
        return []
    every = cells(loaded)
    return promised_groups(every) if any(scenario_ports(cell.scenario) for cell in every) else []


def schedule_drawings(result: Result, found: Scheduled) -> Iterator[ScheduleDrawing]:
    """What the page draws, group by group, port by port."""
    titles = {cell.slug: cell_title(cell) for cell in rows.ordered_cells(result)}
    for slugs, ports in found:
        where = "" if len(found) == 1 else ", ".join(titles[slug] for slug in slugs if slug in titles)
        for one in ports:
            yield ScheduleDrawing(
                title=port_title(one.port),
                cells=where,
                cycle=f"{exact(one.port.schedule.cycle_ns)} µs",
                lanes=tuple(_lane(one.port, traffic_class) for traffic_class in one.port.classes),
                entries=tuple(entry_rows(one.port)),
            )


def _lane(port: Port, traffic_class: int) -> Lane:
    schedule, flows = port.schedule, [flow for flow in port.flows if flow.traffic_class == traffic_class]
    who = [*(flow.name for flow in flows), *load_titles(port, traffic_class)]
    bars = tuple(
        (_percent(window.start_ns, schedule.cycle_ns), _percent(window.length_ns or 0, schedule.cycle_ns))
        for window in schedule.entry_windows(traffic_class)
    )
    lattices = [lattice_of(schedule, flow) for flow in flows]
    phases = [schedule.cycle_ns // lattice.step_ns for lattice in lattices]
    launches = sorted(
        {
            _percent(at_ns, schedule.cycle_ns)
            for lattice, count in zip(lattices, phases, strict=True)
            if count <= LAUNCHES_MAX
            for at_ns in range(lattice.first_ns, schedule.cycle_ns, lattice.step_ns)
        }
    )
    return Lane(
        name=f"class {traffic_class}" + (f": {', '.join(who)}" if who else ""),
        bars=bars,
        launches=tuple(launches),
        told=_told(port, traffic_class, [flow.name for flow in flows], phases),
    )


def _told(port: Port, traffic_class: int, streams: Sequence[str], phases: Sequence[int]) -> str:
    windows = port.schedule.windows(traffic_class)
    if port.schedule.is_always_open(traffic_class):
        opened = "its gate never closes"
    else:
        spans = (f"{exact(one.start_ns)} to {exact(one.end_ns or 0)}" for one in windows)
        opened = f"open {', '.join(spans)} µs" if windows else "its gate never opens"
    launched = [
        f"{name} is launched at {count} phase{'s' if count > 1 else ''} of the cycle"
        for name, count in zip(streams, phases, strict=True)
    ]
    return "; ".join((opened, *launched))


def _percent(ns: int, cycle_ns: int) -> float:
    return round(100 * ns / cycle_ns, 3)
