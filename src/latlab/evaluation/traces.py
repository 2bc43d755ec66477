"""What the traces of a cell show: how packets and timers woke their thread, and the intervals on the path."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.interrupt_way import EMULATED, NOT_TRACED
from latlab.analysis.reception import Instants, VmHost, receptions, timer_wakings
from latlab.recordings.cell import JudgedPackets, RecordedCell
from latlab.recordings.clock_offset import offset_between
from latlab.recordings.run_folder import CellFolder
from latlab.recordings.traces import Traced, read_timer_traces, read_traces
from latlab.result.types import Breakdown, FlightRecord, Trace, TracedOn


def traces_of(folder: CellFolder, cell: RecordedCell) -> dict[str, Trace]:
    """Of each stream or timer whose thread was traced. LabError: a recording is not of this run."""
    names = {stream.stream: stream.name for stream in cell.streams}
    traces = {}
    for traced, found in _told(folder, cell):
        where = _traced_on(traced, cell).document()
        for number, one in found.items():
            if number in names:
                traces[names[number]] = Trace.model_validate({**where, **one.document()})
    return traces


def _told(folder: CellFolder, cell: RecordedCell) -> Iterator[tuple[Traced, dict[int, Breakdown]]]:
    """What was traced, with the breakdowns of its streams or its timer."""
    for one in read_traces(folder, cell):
        found = (one.received, one.trace, one.tasks, one.thread, _vm_host(one, cell), _not_entered(one, cell))
        yield one, receptions(*found)
    for timer in read_timer_traces(folder, cell):
        asked = (timer.instants, timer.trace, timer.tasks, timer.thread, _vm_host(timer, cell))
        yield timer, timer_wakings(*asked, _not_entered(timer, cell))


def _traced_on(traced: Traced, cell: RecordedCell) -> TracedOn:
    """Where it was traced; `flight` is set where a flight recorder came to its end."""
    done, kept = traced.done, traced.kept
    where = TracedOn(host=traced.host, events=done.events if done else None, lost=done.lost if done else None)
    if not kept or not cell.trigger:
        return where
    judged = traced.judged or JudgedPackets(judged=0, late=0, typical=0, unjudged=0)
    flight = FlightRecord(
        trigger=cell.trigger,
        judged=judged.judged,
        late=judged.late,
        typical=judged.typical,
        unjudged=judged.unjudged,
        windows=kept.windows,
        overran=kept.overran,
    )
    return where.model_copy(update={"flight": flight})


def _vm_host(traced: Traced, cell: RecordedCell) -> VmHost | None:
    """What the VM host of a traced guest recorded, with how its clock is related to the guest's."""
    name, entries = traced.vm_host, traced.entries
    if name is None or entries is None:
        return None

    def ahead(at_ns: Instants) -> tuple[Instants, Instants, NDArray[np.bool_]]:
        found = offset_between(cell.clocks, traced.host, name, at_ns)
        if found is None:
            return np.zeros_like(at_ns), np.zeros_like(at_ns), np.zeros(len(at_ns), np.bool_)
        return found.estimate_ns, found.half_ns, found.known

    return VmHost(entries, ahead, traced.entry_tasks)


def _not_entered(traced: Traced, cell: RecordedCell) -> str | None:
    """Why the VM host's trace of a traced guest has nothing; None if it does, and for a host."""
    guest = next((one for one in cell.guests if one.name == traced.host), None)
    if guest is None or traced.vm_host is not None:
        return None
    return EMULATED if guest.acceleration == "tcg" else NOT_TRACED
