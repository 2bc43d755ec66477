"""Gate schedules and departures as people and programs read them: titles, rows, and the document of `latlab gates`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from latlab.analysis.gate_port import GatePort, Interference
from latlab.analysis.promise import Promise
from latlab.analysis.words import duration
from latlab.evaluation.gates import Promised
from latlab.model.part import Document, Keys
from latlab.report import rows
from latlab.report.document import bad_if
from latlab.report.text import exact
from latlab.result.places import cell_title, matrix_titles
from latlab.result.types import Gates, Result, Statistics
from latlab.scenario import format_rate

ENTRY_HEADINGS = ("from [µs]", "to [µs]", "length [µs]", "open classes and their streams")
KEPT_BY = {
    "software": "the kernel implements the gates",
    "txtime-assist": "a child etf implements the gates, by launch times that the kernel computes",
    "offload": "the NIC implements the gates",
}


def titles_of(cells: Sequence[str], labels: Mapping[str, Keys]) -> str:
    """What a group of cells is called. labels: by slug, of the cells that there are: a run may not have come to all."""
    return matrix_titles([slug for slug in cells if slug in labels], labels)


def port_title(port: GatePort) -> str:
    """The port, its cycle, its speed, and who keeps its gates, in a line."""
    schedule = port.schedule
    begins = f"{exact(schedule.shift_ns)} µs after" if schedule.shift_ns else "at"
    return (
        f"{port.interface}: cycle of {exact(schedule.cycle_ns)} µs, beginning {begins} its multiples in TAI, "
        f"{format_rate(port.speed_bps)}; {port.mode}: {KEPT_BY[port.mode]}"
    )


def entry_rows(port: GatePort) -> Iterator[tuple[str, str, str, str]]:
    """A row of ENTRY_HEADINGS for each entry of the schedule."""
    for start, entry in zip(port.schedule.starts_ns, port.schedule.entries, strict=True):
        opened = " · ".join(_class_with_names(port, one) for one in entry.open) or "none"
        yield exact(start), exact(start + entry.length_ns), exact(entry.length_ns), opened


def _class_with_names(port: GatePort, traffic_class: int) -> str:
    names = [*streams_of(port, traffic_class), *load_titles(port, traffic_class)]
    return f"{traffic_class} ({', '.join(names)})" if names else str(traffic_class)


def as_document(one: Promised) -> Document:
    """A port as it stands in `--json` output: durations in ns, from and to in the cycle."""
    port, schedule = one.port, one.port.schedule
    return {
        "interface": port.interface,
        "mode": port.mode,
        "speed_bps": port.speed_bps,
        "cycle_ns": schedule.cycle_ns,
        "shift_ns": schedule.shift_ns,
        "txtime_delay_ns": port.delay_ns if port.mode == "txtime-assist" else None,
        "entries": [
            {
                "from_ns": start,
                "to_ns": start + entry.length_ns,
                "length_ns": entry.length_ns,
                "open": {
                    str(traffic_class): {
                        "streams": streams_of(port, traffic_class),
                        "loads": loads_of(port, traffic_class),
                    }
                    for traffic_class in entry.open
                },
            }
            for start, entry in zip(schedule.starts_ns, schedule.entries, strict=True)
        ],
        "streams": [
            _promise(port, promised, meets) for promised, meets in zip(one.promises, one.interference, strict=True)
        ],
        "loads": [
            {
                "name": load.name,
                "traffic_class": load.traffic_class,
                "frame_bytes": load.frame.size,
                "endless": load.endless,
            }
            for load in port.loads
        ],
        "warnings": [warned.as_dict() for warned in one.warnings],
    }


def streams_of(port: GatePort, traffic_class: int) -> list[str]:
    """The names of the streams in a class."""
    return [flow.name for flow in port.flows if flow.traffic_class == traffic_class]


def loads_of(port: GatePort, traffic_class: int) -> list[str]:
    """The names of the loads in a class."""
    return [load.name for load in port.loads if load.traffic_class == traffic_class]


def load_titles(port: GatePort, traffic_class: int) -> list[str]:
    """What the loads in a class are called."""
    return [load.title for load in port.loads if load.traffic_class == traffic_class]


def departs(promised: Promise) -> str:
    """When its packets depart after their launch, for people: "0 to 405 µs"; "never"."""
    if promised.earliest_ns is None or promised.latest_ns is None:
        return "never"
    return _from_to(promised.earliest_ns, promised.latest_ns)


def departs_when(promised: Promise) -> str:
    """The same in words: "at launch", "0 to 405 µs after launch", "100 µs to 1 µs before launch", "never"."""
    first, last = promised.earliest_ns, promised.latest_ns
    if first is None or last is None:
        return "never"
    if first == last == 0:
        return "at launch"
    return f"{_from_to(-first, -last)} before launch" if last <= 0 else f"{_from_to(first, last)} after launch"


def _from_to(first_ns: int, last_ns: int) -> str:
    first, last = short(first_ns), short(last_ns)
    return first if first == last else f"{first} to {last}"


def short(ns: int) -> str:
    """A duration for people; 0 needs no unit."""
    return duration(ns) if ns else "0"


def _promise(port: GatePort, promised: Promise, meets: Interference) -> Document:
    flow = port.flow(promised.stream)
    return {
        "name": promised.stream,
        "traffic_class": promised.traffic_class,
        "period_ns": flow.period_ns,
        "offset_ns": flow.offset_ns,
        "frame_bytes": promised.frame.size,
        "frame_ns": promised.frame_ns,
        "guard_ns": promised.guard_ns,
        "phases": promised.phases,
        "step_ns": promised.step_ns,
        "dropped_phases": promised.dropped,
        "earliest_ns": promised.earliest_ns,
        "latest_ns": promised.latest_ns,
        "least_wait_ns": promised.least_wait_ns,
        "worst_wait_ns": promised.worst_wait_ns,
        "windows": [
            {"from_ns": share.window.start_ns, "to_ns": share.window.end_ns, "phases": share.phases}
            for share in promised.windows
        ],
        "interference": asdict(meets) | {"total_ns": meets.total_ns},
    }


# When the gates let each stream's packets leave, and when they left: a row for each stream that has gates.


SLOTS_TITLE = "Gates: guaranteed and measured departures, after the launch"
SLOTS_HEADINGS = ("cell", "repeat", "stream", "class", "promised", "left", "missed their slot", "latency without those")


@dataclass(frozen=True)
class SlotRow:
    """One stream of one cell, in words. missed: empty where all left in their slots."""

    cell: str
    repeat: int
    stream: str
    traffic_class: int
    promised: str
    left: str
    missed: str
    in_slot: str

    @property
    def texts(self) -> Sequence[str]:
        """In the order of HEADINGS."""
        numbers = str(self.repeat), self.stream, str(self.traffic_class)
        missed = bad_if(self.missed, self.missed or "none")
        return (self.cell, *numbers, self.promised, self.left, missed, self.in_slot)


def slot_rows(result: Result) -> Iterator[SlotRow]:
    """A row for each stream that has gates, in the order of the summary."""
    for cell in rows.ordered_cells(result):
        for name, stream in cell.streams.items():
            gates = stream.gates
            if gates:
                yield SlotRow(
                    cell=cell_title(cell),
                    repeat=cell.repeat,
                    stream=name,
                    traffic_class=gates.traffic_class,
                    promised=_span(gates.promised.earliest_ns, gates.promised.latest_ns),
                    left=f"{_span(gates.least_ns, gates.most_ns)} ({gates.from_})" if gates.left else "unknown",
                    missed=_missed(gates),
                    in_slot=_in_slot(gates.in_slot),
                )


def _span(least_ns: int | None, most_ns: int | None) -> str:
    least, most = short(least_ns or 0), short(most_ns or 0)
    return least if least_ns == most_ns else f"{least} to {most}"


def _missed(gates: Gates) -> str:
    """`3 of 995, 1 to 4 windows late, packets 17 to 903`; those that left before their window opened, too."""
    words = []
    if gates.missed:
        late = sorted(gates.windows_late)
        windows = str(late[0]) if late[0] == late[-1] else f"{late[0]} to {late[-1]}"
        packets = f"packets {gates.first_missed} to {gates.last_missed}"
        if gates.missed == 1:
            packets = f"packet {gates.first_missed}"
        words.append(f"{gates.missed} of {gates.left}, {windows} window{'s' if late[-1] > 1 else ''} late, {packets}")
    if gates.early:
        words.append(f"{gates.early} left before their own window")
    return "; ".join(words)


def _in_slot(metrics: Mapping[str, Statistics]) -> str:
    """`mean 14.2 µs, max 19.1 µs` of latency."""
    latency = metrics.get("latency")
    if not latency or latency.mean is None:
        return ""
    return f"mean {short(round(latency.mean))}, max {short(latency.max or 0)}"
