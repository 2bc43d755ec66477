"""When the gates let each stream's packets leave, and when they left: a row for each stream that has gates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from latlab.report import rows
from latlab.report.document import bad_if
from latlab.report.gates import short
from latlab.report.places import cell_title
from latlab.result.types import Gates, Result, Statistics

TITLE = "Gates: guaranteed and measured departures, after the launch"
HEADINGS = ("cell", "repeat", "stream", "class", "promised", "left", "missed their slot", "latency without those")


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
    """`avg 14.2 µs, max 19.1 µs` of latency."""
    latency = metrics.get("latency")
    if not latency or latency.mean is None:
        return ""
    return f"avg {short(round(latency.mean))}, max {short(latency.max or 0)}"
