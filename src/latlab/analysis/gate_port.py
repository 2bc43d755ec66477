"""A port with a gate schedule: what leaves there, what it is guaranteed, and when packets left against that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import lcm
from typing import Final

import numpy as np
import polars as pl

from latlab.analysis.frames import FrameSize
from latlab.analysis.gates import Schedule, slots_late
from latlab.analysis.metrics import metric_values
from latlab.analysis.promise import (
    GatedStream,
    LaunchQueue,
    Mode,
    Promise,
    accepted_launches,
    openings_of,
    promise,
    survive,
)
from latlab.analysis.statistics import statistics
from latlab.model.metrics import METRICS_BY_NAME
from latlab.model.timestamps import LEFT
from latlab.result.types import Bound, Gates, Statistics

PACKETS_MAX = 200_000
"""So many departures are compared one by one."""


@dataclass(frozen=True)
class GateLoad:
    """A load as the schedule meets it: frames of a traffic class, none larger than this.

    endless: as many as it likes; else one at a time, far between, as a protocol's messages.
    """

    name: str
    traffic_class: int
    frame: FrameSize
    endless: bool = True

    @property
    def title(self) -> str:
        """What it is called in lists."""
        return f"load {self.name}" if self.endless else self.name


@dataclass(frozen=True)
class GatePort:
    """An interface with a gate schedule.

    speed_bps: of the port. largest: the largest frame of its link. delay_ns: txtime-delay, of txtime-assist. shared:
    traffic classes in which, besides the streams and loads, anything may be, as packets of other priorities are in
    them. beneath: what launches the packets of each class that has an etf.
    """

    interface: str
    mode: Mode
    schedule: Schedule
    speed_bps: int
    largest: FrameSize
    flows: tuple[GatedStream, ...] = ()
    loads: tuple[GateLoad, ...] = ()
    delay_ns: int = 0
    shared: frozenset[int] = frozenset()
    beneath: dict[int, LaunchQueue] = field(default_factory=dict)

    @property
    def classes(self) -> tuple[int, ...]:
        """The traffic classes that have a gate, a stream or a load."""
        gates = {one for entry in self.schedule.entries for one in entry.open}
        sent = {flow.traffic_class for flow in self.flows} | {load.traffic_class for load in self.loads}
        return tuple(sorted(gates | sent))

    def promises(self) -> tuple[Promise, ...]:
        """What each of its streams is guaranteed."""
        return tuple(promise(self.schedule, self.mode, self.speed_bps, flow) for flow in self.flows)

    def flow(self, name: str) -> GatedStream:
        """The stream of that name."""
        return next(flow for flow in self.flows if flow.name == name)

    def leaving_with(self, traffic_class: int) -> tuple[int, ...]:
        """The other classes whose frames may leave while this one's do: their gates are at some instant open together,
        or one of the two leaves at other instants than its gate has.
        """
        early_ns = self._early_ns(traffic_class)
        return tuple(
            one
            for one in self.classes
            if one != traffic_class
            and (early_ns is None or self._early_ns(one) != early_ns or self.schedule.open_at_once(one, traffic_class))
        )

    def _early_ns(self, traffic_class: int) -> int | None:
        """How long before its gate's windows a class leaves; None: whenever its packets are handed over."""
        if self.mode != "txtime-assist":
            return 0
        queue = self.beneath.get(traffic_class)
        if queue is None or queue.deadline:
            return None
        return 0 if queue.offload else queue.delta_ns


@dataclass(frozen=True)
class Interference:
    """What other traffic may add to a stream's wait, each term once for each of its packets. All durations in ns.

    blocking_ns: one largest frame of the link that is on the wire already: nothing pre-empts it. It is of a class that
    leaves at the same time, or of its own one where other priorities are in that. same_class_ns: one frame of each
    other stream of its class, in front of it in the queue. other_classes_ns: one frame of each stream of classes that
    leave at the same time, should the port prefer them: kernels from 6.3 on take the highest class first, older ones
    the lowest queue, NICs as they are built. unbounded: loads that may add any wait: of its own class or one that
    leaves at the same time.
    """

    blocking_ns: int
    same_class_ns: int
    other_classes_ns: int
    unbounded: tuple[str, ...]

    @property
    def total_ns(self) -> int | None:
        """All of it; None where a load has no bound."""
        return None if self.unbounded else self.blocking_ns + self.same_class_ns + self.other_classes_ns


def interference(port: GatePort, flow: GatedStream) -> Interference:
    """What the others on the port may add to the flow's wait, in the window in which it leaves.

    Where that makes the rest of the window too short for it, it waits for the next one besides.
    """
    beside = set(port.leaving_with(flow.traffic_class))
    others: list[GatedStream | GateLoad] = [one for one in port.flows if one.name != flow.name]
    others += [load for load in port.loads if not load.endless]
    endless = [load for load in port.loads if load.endless]
    return Interference(
        blocking_ns=port.largest.occupied_ns(port.speed_bps) if beside or flow.traffic_class in port.shared else 0,
        same_class_ns=_frames_ns(port, [one for one in others if one.traffic_class == flow.traffic_class]),
        other_classes_ns=_frames_ns(port, [one for one in others if one.traffic_class in beside]),
        unbounded=tuple(one.name for one in endless if one.traffic_class in beside | {flow.traffic_class}),
    )


def _frames_ns(port: GatePort, flows: Sequence[GatedStream | GateLoad]) -> int:
    return sum(one.frame.occupied_ns(port.speed_bps) for one in flows)


def nearest_departures_ns(port: GatePort, one: GatedStream, other: GatedStream) -> int | None:
    """The least time between departures of two streams, each guaranteed alone; None if either has none.

    Over all that comes about until both repeat; where that is too long to walk through, 0, which is the least there is.
    """
    cycle_ns = port.schedule.cycle_ns
    repeat_ns = lcm(one.period_ns, other.period_ns, cycle_ns)
    if repeat_ns // one.period_ns + repeat_ns // other.period_ns > PACKETS_MAX:
        return 0
    departures = []
    for flow in (one, other):
        _, openings = openings_of(port.schedule, port.mode, flow, port.speed_bps)
        if not openings:
            return None
        launches = (
            flow.offset_ns
            - port.schedule.shift_ns  # not its phase in a cycle: which launches of both meet hangs on both offsets
            + np.arange(repeat_ns // flow.period_ns, dtype=np.int64) * flow.period_ns
        )
        accepted = accepted_launches(port.schedule, flow, port.speed_bps)
        launches = launches[survive(accepted, np.mod(launches, cycle_ns))]
        if not len(launches):
            return None
        ready = launches + flow.handover.ready_ns
        departs = openings.departs(ready) if flow.handover.gated else ready
        departures.append(np.sort(np.mod(departs - flow.handover.early_ns, repeat_ns)))
    here, there = departures
    around = np.concatenate([there[-1:] - repeat_ns, there, there[:1] + repeat_ns])
    place = np.searchsorted(around, here)
    return int(np.minimum(around[place] - here, here - around[place - 1]).min())


# When packets left, compared with their gates' windows: those that missed their slot are a separate class.


APART: Final = ("latency", "latency_user")
"""The metrics that are also reported without the packets that missed their slot."""


@dataclass(frozen=True)
class Departures:
    """One stream's departures after its warm-up. All durations in ns.

    from_: the timestamp that says when a packet left; None where no packet has one, and nothing is known. left: packets
    that have it. missed: of these, left in a window of their class after their own, the first with room for them from
    their launch on; windows_late: by how many windows → how many packets; first_missed, last_missed: their sequences.
    early: left before their own window opened. least_ns, most_ns: departure − launch over all that left.
    """

    from_: str | None
    left: int
    missed: int
    early: int
    windows_late: Mapping[str, int]
    first_missed: int | None
    last_missed: int | None
    least_ns: int | None
    most_ns: int | None


def slots_of(rows: pl.DataFrame, port: GatePort, flow: GatedStream) -> tuple[Departures, pl.Series]:
    """A stream's slots, and of each row whether it missed its own. rows: the stream's, of the packet table."""
    missed = pl.Series("missed", np.zeros(rows.height, bool))
    beneath = port.beneath.get(flow.traffic_class)
    in_nic = port.mode == "offload" or (beneath is not None and beneath.offload)
    # A NIC that keeps the gates, or the launch times that stand for them, says when. Its clock is taken to be TAI.
    stamp = LEFT["card" if in_nic else "kernel"]
    if not _stamped(rows, stamp.column):
        return Departures(None, 0, 0, 0, {}, None, None, None, None), missed
    numbered = rows.with_row_index("row").filter(~pl.col("warmup") & pl.col(stamp.column).is_not_null())
    launch_ns = numbered["launch_tai_ns"].to_numpy()
    departure_ns = numbered[stamp.column].to_numpy()
    late = slots_late(
        departure_ns,
        launch_ns + flow.handover.ready_ns,
        port.schedule,
        flow.traffic_class,
        promise(port.schedule, port.mode, port.speed_bps, flow).guard_ns,
        flow.handover.early_ns,
    )
    is_late = late > 0
    missed = missed.scatter(numbered["row"].filter(pl.Series(is_late)), True)
    sequences = numbered["sequence"].to_numpy()[is_late]
    windows, counts = np.unique(late[is_late], return_counts=True)
    waited_ns = departure_ns - launch_ns
    found = Departures(
        from_=stamp.name,
        left=len(late),
        missed=int(is_late.sum()),
        early=int((late < 0).sum()),
        windows_late={str(window): int(count) for window, count in zip(windows, counts, strict=True)},
        first_missed=int(sequences[0]) if len(sequences) else None,
        last_missed=int(sequences[-1]) if len(sequences) else None,
        least_ns=int(waited_ns.min()) if len(late) else None,
        most_ns=int(waited_ns.max()) if len(late) else None,
    )
    return found, missed


def gates_of(rows: pl.DataFrame, port: GatePort, flow: GatedStream, period_ns: int) -> Gates | None:
    """The stream's `gates` in the result; None where no gate holds its packets, or no window has room."""
    promised = promise(port.schedule, port.mode, port.speed_bps, flow)
    if not flow.handover.gated or promised.earliest_ns is None or promised.latest_ns is None:
        return None
    slots, missed = slots_of(rows, port, flow)
    return Gates(
        **vars(slots),
        interface=port.interface,
        traffic_class=flow.traffic_class,
        promised=Bound(
            earliest_ns=promised.earliest_ns,
            latest_ns=promised.latest_ns,
            worst_wait_ns=promised.worst_wait_ns or 0,
            frame_ns=promised.frame_ns,
            guard_ns=promised.guard_ns,
        ),
        in_slot=_in_slot(rows.filter(~missed), period_ns) if slots.missed else {},
    )


def _in_slot(rows: pl.DataFrame, period_ns: int) -> dict[str, Statistics]:
    found = {}
    for name in APART:
        values = metric_values(rows, METRICS_BY_NAME[name], period_ns)
        if values is not None:
            found[name] = statistics(values.value_ns, values.sequence)
    return found


def _stamped(rows: pl.DataFrame, column: str) -> bool:
    return column in rows.columns and rows[column].null_count() < rows.height
