"""What cells were measured on: bridges and guests, where clocks are known from, what could not be set or kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from latlab.analysis.evidence import listed as cpus_in_words
from latlab.analysis.words import left_out_text, percent
from latlab.model.facts import Facts, flatten
from latlab.model.labels import FUNCTIONAL
from latlab.model.timestamps import BY_KERNEL
from latlab.recordings.cell import Guest, RecordedCell
from latlab.report.losses import watched_row
from latlab.report.text import microseconds
from latlab.result.places import CellPlaces, listed
from latlab.result.types import Cell, CoreUse, Result, StampsTaken

EXACT_QEMU: Final = 10
"""The oldest QEMU of which whole runs in virtual time have been seen to repeat without any difference."""
ACCELERATIONS: Final = {"kvm": "KVM", "tcg": "software emulation (TCG)"}


def label_text(outcome: Result | Cell) -> str:
    """The label of a result or of one of its cells; where nothing was measured there is none, and that is said."""
    return outcome.label or "nothing measured"


def label_reasons(result: Result) -> list[str]:
    """What a label other than `measured` means here, a sentence for each thing; none where all were measured.

    And that the scenario was changed since.
    """
    return [*_virtual(result), *_functional(result), *_imported(result), *_flows(result), *_changed(result)]


def _changed(result: Result) -> list[str]:
    """That the scenario was edited after the measurement, and what rests on it."""
    if not result.scenario_changed:
        return []
    return [
        "scenario.yaml was changed after the measurement: limits (accept), thresholds of trust, windows and published "
        "figures are those of the changed file"
    ]


def _virtual(result: Result) -> list[str]:
    found = {(cell.instructions_per_ns, cell.qemu or "") for cell in result.cells}
    return [
        "virtual time: reproducible, compares configurations, says nothing about this machine's speed; "
        f"the clock counts instructions, {count:g} a nanosecond" + _repeats_by(qemu)
        for count, qemu in sorted(one for one in found if one[0])
    ] + _one_course(result)


def _one_course(result: Result) -> list[str]:
    """What a single repetition in virtual time does not show."""
    virtual = [cell for cell in result.cells if cell.instructions_per_ns]
    if not virtual or (max(cell.repeat for cell in virtual) > 1 and not result.repeats):
        return []
    return [
        "one repetition covers only one set of phases of streams, load and timer ticks: compare cells over several "
        "repetitions (repeat: 4)"
    ]


def _repeats_by(qemu: str) -> str:
    """What a QEMU of that version is known to repeat less well; nothing for one that repeats every nanosecond."""
    major = qemu.partition(".")[0]
    if major.isdigit() and int(major) < EXACT_QEMU:
        return f"; QEMU {qemu} repeats single packets to some microseconds only, QEMU {EXACT_QEMU} to the nanosecond"
    return ""


def _functional(result: Result) -> list[str]:
    cells = [cell for cell in result.cells if cell.label == FUNCTIONAL]
    if not cells:
        return []
    emulated = dict.fromkeys(guest.name for cell in cells for guest in cell.guests if guest.acceleration == "tcg")
    if not emulated:
        who = "a host is emulated in software (TCG): its"
    else:
        who = f"{listed(tuple(emulated), 'and')} {'are' if len(emulated) > 1 else 'is'} emulated in software (TCG): "
        who += "their" if len(emulated) > 1 else "its"
    some = len(cells) < sum(bool(cell.streams) for cell in result.cells)
    where = f"; in {listed(CellPlaces(result).told(cells))}" if some else ""
    return [f"{who} figures show that packets pass, not how fast a machine is{where}"]


def bridges(result: Result) -> list[tuple[str, ...]]:
    """(cells, bridge, host, uplink, guests, how it is made) of every bridge that cells were measured through."""
    return _rows(
        result,
        (
            (cell, (one.title, one.host, one.uplink or "none", ", ".join(one.guests), one.detail))
            for cell in result.cells
            for one in cell.bridges
        ),
    )


def guests(result: Result) -> list[tuple[str, ...]]:
    """(cells, guest, host, image, kernel, runs by, vCPUs, memory, started from) of every guest."""
    return _rows(result, ((cell, _guest(one)) for cell in result.cells for one in cell.guests))


def clocks(result: Result, documents: Mapping[str, RecordedCell]) -> list[tuple[str, ...]]:
    """(cells, from, to, known from, lower, upper bound in µs) of every pair of clocks that cells compared."""
    return _rows(
        result,
        (
            (cell, (one.from_, one.to, one.source or "", *map(microseconds, (one.lower_ns, one.upper_ns))))
            for cell in result.cells
            if cell.key in documents
            for one in documents[cell.key].clocks
        ),
    )


def stamps_taken(result: Result) -> list[tuple[str, ...]]:
    """(cells, agent, timestamps by eBPF, by the socket, to know) of every agent whose packets the kernel stamped."""
    return _rows(
        result,
        ((cell, (one.agent, *_taken(one))) for cell in result.cells for one in cell.stamps_by),
    )


def stamps_compared(result: Result) -> list[tuple[str, ...]]:
    """(cells, agent, timestamp, packets, least, median, largest) of eBPF's timestamps less the socket's, ns."""
    return _rows(
        result,
        (
            (cell, (one.agent, found.stamp, *map(str, (found.n, found.min_ns, found.p50_ns, found.max_ns))))
            for cell in result.cells
            for one in cell.stamps_by
            for found in one.compared
        ),
    )


def cores(result: Result) -> list[tuple[str, ...]]:
    """(cells, thread, CPUs it may run on, ran on) of every thread on a machine with several kinds of CPUs."""
    return _rows(
        result,
        (
            (cell, (one.thread, cpus_in_words(one.may), "; ".join(map(_ran_on, one.cores)) or "unknown"))
            for cell in result.cells
            for one in cell.cores
        ),
    )


def _ran_on(one: CoreUse) -> str:
    """As `Cortex-A53, capacity 446 (CPUs 0-3): 12%`."""
    capacity = None if one.capacity is None else f"capacity {one.capacity}"
    said = ", ".join(filter(None, (one.core, capacity))) or "unknown"
    share = "" if one.share is None else f": {percent(one.share)}"
    return f"{said} ({cpus_in_words(one.cpus)}){share}"


def kernels_watched(result: Result) -> list[tuple[str, ...]]:
    """(cells, watched on, is the kernel of, drops recorded, to know) of every kernel."""
    return _rows(result, ((cell, watched_row(one)) for cell in result.cells for one in cell.drops_watched or []))


def _taken(one: StampsTaken) -> tuple[str, str, str]:
    by = [
        ", ".join(stamp.name for stamp in BY_KERNEL if getattr(one, stamp.name) in (source, "both"))
        for source in ("ebpf", "socket")
    ]
    notes = [*one.missing]
    if one.clock not in (None, "CLOCK_TAI"):
        notes.append(f"by {one.clock}, converted")
    if one.lost:
        notes.append(f"{one.lost} lost: the ring was full")
    return (*by, "; ".join(notes))  # type: ignore[return-value]


def not_done(result: Result, documents: Mapping[str, RecordedCell]) -> list[tuple[str, ...]]:
    """(cells, host, what, command, what came back) of the optional steps that could not be done.

    documents: {`SLUG/rN`: cell.json}. In a cell that ran to its end no other step can have failed.
    """
    return _rows(
        result,
        (
            (cell, (step.host, step.title, step.command, step.why or step.actual or ""))
            for cell in result.cells
            for step in (documents[cell.key].steps if cell.key in documents else ())
            if not step.ok and cell.status == "ok"
        ),
    )


def not_kept(result: Result, documents: Mapping[str, RecordedCell]) -> list[tuple[str, ...]]:
    """(cells, host, what, command, expected, actual) of the settings that were others at a cell's end."""
    return _rows(
        result,
        (
            (cell, (one.host, one.title, one.command, one.expected or "", one.actual or ""))
            for cell in result.cells
            for one in (documents[cell.key].rechecks if cell.key in documents else ())
            if not one.ok
        ),
    )


def _guest(one: Guest) -> tuple[str, ...]:
    runs_by = ACCELERATIONS.get(one.acceleration or "", one.acceleration)
    words = (one.name, one.host, one.image, one.kernel, runs_by, one.vcpus)
    return tuple("" if word is None else str(word) for word in (*words, _memory(one.memory), one.started))


def _memory(size: int | str | None) -> str | None:
    """Bytes as MiB; what is written already stays as it is."""
    return f"{size / 2**20:.0f} MiB" if isinstance(size, int) else size


def _rows(result: Result, found: Iterator[tuple[Cell, tuple[str, ...]]]) -> list[tuple[str, ...]]:
    """Equal rows as one, behind the cells they stand in."""
    cells: dict[tuple[str, ...], list[Cell]] = {}
    for cell, values in found:
        cells.setdefault(values, []).append(cell)
    places = CellPlaces(result)
    return [("; ".join(places.told(where)), *values) for values, where in cells.items()]


def _imported(result: Result) -> Iterator[str]:
    """What is to be known of imported cells, a sentence each; what holds for several cells once."""
    said: dict[str, None] = {}
    for cell in result.cells:
        if found := cell.imported:
            by = "" if found.by_latlab else "imported: measured by "
            said[f"{by}{found.tool}, {found.version}; its latency: {found.latency}"] = None
            if found.clock_bound_ns is not None:
                said[f"given at the import: its clocks differ by {found.clock_bound_ns} ns at most"] = None
            said |= dict.fromkeys(f"note: {note}" for note in found.notes)
            said |= dict.fromkeys(f"left out: {left_out_text(one.count, one.what, one.why)}" for one in found.left_out)
    yield from said


def _flows(result: Result) -> Iterator[str]:
    """What is to be known of the flows of a result, a sentence each; what holds for several cells once."""
    said: dict[str, None] = {}
    for cell in result.cells:
        for flow in cell.flows:
            said |= dict.fromkeys(f"flow {flow.name}: {note}" for note in flow.notes)
            left_out = (left_out_text(one.count, one.what, one.why) for one in flow.left_out)
            said |= dict.fromkeys(f"flow {flow.name}: left out: {text}" for text in left_out)
    yield from said


# What the machines said of themselves: what stayed the same, and what differed or changed, host by host.


ABSENT: Final = "absent"


@dataclass(frozen=True)
class Change:
    """One fact in one cell, before and after; `changed` is whether the cell itself saw it change."""

    cell: str
    before: str
    after: str

    @property
    def changed(self) -> bool:
        """Whether it was another before than after."""
        return self.before != self.after


@dataclass(frozen=True)
class HostFacts:
    """One host's facts by dotted path: `same` everywhere, and `varied` with what each cell found."""

    host: str
    same: tuple[tuple[str, str], ...]
    varied: tuple[tuple[str, tuple[Change, ...]], ...]

    @property
    def changed(self) -> int:
        """How many facts changed while a cell ran."""
        return sum(any(change.changed for change in changes) for _, changes in self.varied)


def compare_facts(cells: Sequence[tuple[str, Facts, Facts]]) -> tuple[HostFacts, ...]:
    """Each host's facts, from (cell's name, {host: facts} before, {host: facts} after) of every cell.

    A fact that one side does not have is written as absent there, not left out.
    """
    hosts = dict.fromkeys(host for _, before, after in cells for host in (*before, *after))
    return tuple(_host(host, cells) for host in hosts)


def _host(host: str, cells: Sequence[tuple[str, Facts, Facts]]) -> HostFacts:
    seen = [
        (name, flatten(before.get(host, {})), flatten(after.get(host, {})))
        for name, before, after in cells
        if host in before or host in after
    ]
    paths = dict.fromkeys(path for _, before, after in seen for path in (*before, *after))
    same, varied = [], []
    for path in paths:
        told = {facts.get(path, ABSENT) for _, before, after in seen for facts in (before, after)}
        if len(told) == 1:
            same.append((path, told.pop()))
        else:
            changes = (Change(name, old.get(path, ABSENT), new.get(path, ABSENT)) for name, old, new in seen)
            varied.append((path, tuple(changes)))
    return HostFacts(host, tuple(same), tuple(varied))
