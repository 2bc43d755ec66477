"""When packets left, compared with their gates' windows: those that missed their slot are a separate class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from latlab.analysis.gate_port import Port
from latlab.analysis.gates import slots_late
from latlab.analysis.metrics import metric_values
from latlab.analysis.promise import Flow, promise
from latlab.analysis.statistics import statistics
from latlab.model.metrics import METRICS_BY_NAME
from latlab.result.types import Bound, Gates, Statistics

IN_KERNEL: Final = "tx_soft"
IN_NIC: Final = "tx_hard"
"""The timestamps taken behind the gates: by the driver, which has a packet once the kernel's gate has let it through;
by the NIC, where that keeps the gates, or the launch times that stand for them. Its clock is taken to be TAI."""

APART: Final = ("latency", "latency_user")
"""The metrics that are also reported without the packets that missed their slot."""


@dataclass(frozen=True)
class Slots:
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


def slots_of(rows: pl.DataFrame, port: Port, flow: Flow) -> tuple[Slots, pl.Series]:
    """A stream's slots, and of each row whether it missed its own. rows: the stream's, of the packet table."""
    missed = pl.Series("missed", np.zeros(rows.height, bool))
    beneath = port.beneath.get(flow.traffic_class)
    in_nic = port.mode == "offload" or (beneath is not None and beneath.offload)
    column = IN_NIC if in_nic else IN_KERNEL
    if not _stamped(rows, column):
        return Slots(None, 0, 0, 0, {}, None, None, None, None), missed
    numbered = rows.with_row_index("row").filter(~pl.col("warmup") & pl.col(f"{column}_tai_ns").is_not_null())
    launch_ns = numbered["launch_tai_ns"].to_numpy()
    departure_ns = numbered[f"{column}_tai_ns"].to_numpy()
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
    found = Slots(
        from_=column,
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


def gates_of(rows: pl.DataFrame, port: Port, flow: Flow, period_ns: int) -> Gates | None:
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


def _stamped(rows: pl.DataFrame, name: str) -> bool:
    column = f"{name}_tai_ns"
    return column in rows.columns and rows[column].null_count() < rows.height
