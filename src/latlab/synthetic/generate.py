"""From a description to a run: packet table, clock records, and the truth about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.anomalies.context import Context
from latlab.analysis.frames import FrameSize
from latlab.analysis.gate_port import GatePort
from latlab.analysis.promise import GatedStream
from latlab.model.timestamps import RECORDED
from latlab.model.units import RATES
from latlab.recordings.packets import PACKET_COLUMNS
from latlab.synthetic.check import check
from latlab.synthetic.clocks import comparison, offset_ns, ptp_series, steps
from latlab.synthetic.description import Description, Duplicates, Losses, Throttling
from latlab.synthetic.truth import Truth, find_truth
from latlab.synthetic.way import Int64, Way, schedule_of, stage_delays, walk

STREAM = 1
SPEED_BPS = RATES["Gbit/s"]


@dataclass(frozen=True)
class Synthetic:
    """A run with known anomalies.

    packets: the packet table of docs/reference/run-folder.md, of one stream. ptp: the table `ptp` of the listener's
    port, or None. clocks: at_tai_ns, lower_ns, upper_ns: what our own comparison leaves of the offset that is still in
    the timestamps, or None. duplicated: copies that the listener counted. throttled: whether its kernel's log says so.
    """

    description: Description
    packets: pl.DataFrame
    truth: Truth
    ptp: pl.DataFrame | None
    clocks: pl.DataFrame | None
    duplicated: int
    throttled: bool

    @property
    def port(self) -> GatePort | None:
        """The port with the gates, as a scenario would describe it; None without gates."""
        gates = self.description.gates
        if gates is None:
            return None
        return GatePort("sensor.eth0", "software", schedule_of(gates), SPEED_BPS, FrameSize.largest(1500), (self.flow,))

    @property
    def flow(self) -> GatedStream:
        """The stream as a gate schedule meets it."""
        return GatedStream("control", 0, 0, self.description.period_ns, FrameSize.of(64, "udp"))

    def context(self) -> Context:
        """What is known of the run next to its packets, as `find_anomalies` takes it."""
        gates = self.description.gates
        known = gates is not None and gates.schedule_known
        return Context(
            period_ns=self.description.period_ns,
            port=self.port if known else None,
            flow=self.flow if known else None,
            cycle_ns=None if gates is None else gates.cycle_ns,
            ptp=self.ptp,
            clocks=self.clocks,
            steps=steps(self.description),
            rt_throttled=self.throttled,
            duplicated=self.duplicated,
        )


def generate(description: Description) -> Synthetic:
    """The run that a description describes; the same one gives the same. UsageError: it cannot be made."""
    check(description)
    ingredients = description.ingredients
    delays = stage_delays(description, np.random.default_rng([description.seed, 1]))
    clean = walk(description, delays, (), (description.seed, 2))
    way = walk(description, delays, ingredients, (description.seed, 2))
    lost = _lost(description, np.random.default_rng([description.seed, 3]))
    return Synthetic(
        description=description,
        packets=_table(description, way, lost),
        truth=find_truth(description, way, clean, lost),
        ptp=ptp_series(description, np.random.default_rng([description.seed, 4])),
        clocks=comparison(description),
        duplicated=sum(one.count for one in ingredients if isinstance(one, Duplicates)),
        throttled=any(isinstance(one, Throttling) for one in ingredients),
    )


def _lost(description: Description, rng: np.random.Generator) -> NDArray[np.bool_]:
    lost = np.zeros(description.packets, np.bool_)
    for one in description.ingredients:
        if isinstance(one, Losses):
            lost |= rng.random(description.packets) < one.share
            for first, packets in one.bursts:
                lost[first : first + packets] = True
    return lost


def _table(description: Description, way: Way, lost: NDArray[np.bool_]) -> pl.DataFrame:
    """The packet table, on the talker's clock except for the unknown part of the listener's."""
    n = description.packets
    lattice = max(description.noise.lattice_ns, 1)

    def sent(at: Int64) -> pl.Series:
        return pl.Series(at // lattice * lattice)

    def arrived(at: Int64) -> pl.Series:
        moved = at + offset_ns(description, at - description.start_tai_ns)
        return _unless(moved // lattice * lattice, lost)

    absent = pl.Series(np.zeros(n, np.int64)).scatter(np.arange(n), None)
    bound = description.clock_bound_ns
    order = way.arrival_order[~lost[way.arrival_order]]
    arrival = np.zeros(n, np.int64)
    arrival[order] = np.arange(len(order))
    columns: dict[str, Any] = {one.column: absent for one in RECORDED} | {
        "stream": pl.Series(np.full(n, STREAM, np.uint16)),
        "sequence": pl.Series(np.arange(n, dtype=np.uint64)),
        "launch_tai_ns": pl.Series(way.launch),
        "wake_due_tai_ns": pl.Series(way.launch),
        "wake_tai_ns": sent(way.wake),
        "submit_tai_ns": sent(way.submit),
        "tx_sched_tai_ns": sent(way.tx_sched),
        "tx_soft_tai_ns": sent(way.dequeued),
        "tx_hard_tai_ns": sent(way.tx_hard) if description.hardware else absent,
        "rx_hard_tai_ns": arrived(way.arrive) if description.hardware else absent,
        "rx_soft_tai_ns": arrived(way.rx_soft),
        "rx_user_tai_ns": arrived(way.rx_user),
        "clock_bound_ns": absent if bound is None else _unless(np.full(n, bound, np.int64), lost),
        "arrival": _unless(arrival, lost).cast(pl.UInt64),
        "send_error": pl.Series(np.zeros(n, np.int32)),
        "launch_error": pl.Series(np.zeros(n, np.uint8)),
        "late": pl.Series(np.zeros(n, np.uint8)),
        "unknown": pl.Series(np.zeros(n, np.uint8)),
        "warmup": pl.Series(np.arange(n) < description.warmup),
    }
    return pl.DataFrame({name: columns[name].alias(name) for name in PACKET_COLUMNS})


def _unless(values: Int64, lost: NDArray[np.bool_]) -> pl.Series:
    """The values, null where a packet was lost."""
    series = pl.Series(values)
    return series if not lost.any() else series.scatter(np.flatnonzero(lost), None)
