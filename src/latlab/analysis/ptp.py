"""What a port of PTP's was while a cell was measured: its offset, whether it was locked, whether its claim holds."""

from __future__ import annotations

from collections import Counter
from typing import Final, Literal

import numpy as np
import polars as pl

from latlab.model.units import SECOND_NS
from latlab.recordings.cell import RecordedPort
from latlab.result.types import PtpCheck, PtpPort, Spread, Unlocked

STATES: Final = {
    0: "no answer",
    1: "INITIALIZING",
    2: "FAULTY",
    3: "DISABLED",
    4: "LISTENING",
    5: "PRE_MASTER",
    6: "MASTER",
    7: "PASSIVE",
    8: "UNCALIBRATED",
    9: "SLAVE",
}
"""IEEE 1588-2019, table 20; 0 is ours."""
MASTER, UNCALIBRATED, SLAVE = 6, 8, 9

SYNC_INTERVAL_NS: Final = SECOND_NS
"""The longest that any profile here has between two Syncs: assumed for a ptp4l that latlab did not start."""
INTERVALS: Final = 3
"""A slave that received no Sync for so many intervals is in holdover, regardless of its port's state."""
STALE_LEAST_NS: Final = SECOND_NS
"""Four of the intervals at which it is asked."""

NO_ANSWER, NO_SYNC = "ptp4l did not answer", "no Sync was received"
FAR, NO_OFFSET, OTHER_STATE = "the offset was beyond its limit", "the offset was unknown", "its port was"

Acts = Literal["master", "slave"]


def ptp_port(port: RecordedPort, recorded: pl.DataFrame, window_ns: tuple[int, int] | None = None) -> PtpPort:
    """A port's part of the result (docs/reference/result.md), of the readings within the time of the streams.

    port: its entry in cell.json's `ptp`. recorded: the table `ptp` from before the streams on, which shows what the
    port was to begin with and when it received its last Sync; for some slaves with latlab's readings of the offset
    (latlab.recordings.ptp_series). window_ns: the first and last instant of the streams by its host's TAI; None: all.

    `unlocked` are the spells in which it was not what it began as, or no slave within its limit, from the first reading
    that reports it until the first that does not; ns from the first reading.
    """
    acts_as = _acts_as(port, recorded)
    rows = _with_silence(recorded)
    if window_ns:
        rows = rows.filter(pl.col("tai_ns").is_between(*window_ns))
    faults = _faults(rows, port, acts_as)
    follows = pl.col("state").is_in([SLAVE, UNCALIBRATED])
    # It was queried more often than it received a Sync, or less: each that was seen counts once.
    syncs = rows.filter(follows).unique("ingress_ns", keep="first", maintain_order=True)
    # A master announces itself, a slave reports the master it received; a slave without one names itself.
    announced = rows.filter((pl.col("state") == MASTER) | (pl.col("steps_removed") > 0))
    sound = rows.filter(pl.Series([fault is None for fault in faults], dtype=pl.Boolean) & follows)
    return PtpPort(
        port=port.port,
        role=port.role,
        profile=port.profile,
        timestamps=port.timestamps,
        free_running=port.free_running,
        limit_ns=port.limit_ns,
        master=port.master,
        absent=port.absent,
        acts_as=acts_as,
        readings=len(rows),
        unanswered=int((~rows["answered"]).sum()),
        states={STATES.get(code, str(code)): n for code, n in Counter(rows["state"].to_list()).items()},
        grandmasters=[
            clock_identity(value) for value in announced["grandmaster"].drop_nulls().unique(maintain_order=True)
        ],
        offset_ns=_spread(syncs["offset_ns"]),
        path_delay_ns=_spread(syncs["path_delay_ns"]),
        frequency_ppb=_spread(rows["frequency_ppt"], 1e-3),
        unlocked=_spells(rows, faults),
        checked=_checked(sound, port),
    )


def _acts_as(port: RecordedPort, recorded: pl.DataFrame) -> Acts | None:
    """What it has to remain: its role, or of one that is observed what it was to begin with. None: neither, ever."""
    if port.role != "observed":
        role: Acts = port.role
        return role
    began: dict[int, Acts] = {MASTER: "master", SLAVE: "slave"}
    states = recorded.filter(pl.col("state").is_in(list(began)))["state"]
    return began[states[0]] if len(states) else None


def _with_silence(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with `silent_ns` (Int64): the time since the last Sync that was seen to come in; null before the first.

    By the monotonic clock: ptp4l may step the other ones.
    """
    known = rows.with_columns(pl.col("ingress_ns").forward_fill().alias("_last"))
    came = pl.when(pl.col("_last") != pl.col("_last").shift(1)).then(pl.col("monotonic_ns")).forward_fill()
    since = pl.coalesce(came, pl.col("monotonic_ns").filter(pl.col("_last").is_not_null()).first())
    silent = pl.when(pl.col("_last").is_not_null()).then(pl.col("monotonic_ns") - since).alias("silent_ns")
    return known.with_columns(silent).drop("_last")


def _spread(values: pl.Series, unit: float = 1) -> Spread | None:
    """Least, median, mean, largest and population standard deviation; None of nothing."""
    known = values.drop_nulls().to_numpy() * unit
    if not len(known):
        return None
    return Spread(
        n=len(known),
        min=known.min().item(),
        p50=float(np.median(known)),
        mean=float(known.mean()),
        max=known.max().item(),
        stddev=float(known.std()),
    )


def _spells(rows: pl.DataFrame, faults: list[str | None]) -> list[Unlocked]:
    """Where it was not locked, and why: readings that follow one another for the same reason are one spell."""
    spells: list[Unlocked] = []
    instants = rows["monotonic_ns"].to_list()
    for instant, fault in zip(instants, faults, strict=True):
        at = instant - instants[0]
        if spells and spells[-1].to_ns is None:
            if spells[-1].why == fault:
                continue
            spells[-1] = spells[-1].model_copy(update={"to_ns": at})
        if fault:
            spells.append(Unlocked(from_ns=at, to_ns=None, why=fault))
    return spells


def _faults(rows: pl.DataFrame, port: RecordedPort, acts_as: Acts | None) -> list[str | None]:
    """Of each reading what keeps it from being locked; None where nothing does."""
    following = {SLAVE, UNCALIBRATED} if port.free_running else {SLAVE}
    wanted = {"master": {MASTER}, "slave": following, None: {MASTER, SLAVE}}[acts_as]
    found: list[str | None] = []
    stale_ns = _stale_ns(rows, port)
    for row in rows.iter_rows(named=True):
        silent = row["silent_ns"]
        if not row["answered"]:
            found.append(NO_ANSWER)
        elif row["state"] not in wanted:
            found.append(f"{OTHER_STATE} {STATES.get(row['state'], row['state'])}")
        elif row["state"] == MASTER:
            found.append(None)
        elif silent is not None and silent > stale_ns:
            found.append(NO_SYNC)
        elif row["offset_ns"] is None:
            found.append(NO_OFFSET)
        elif abs(row["offset_ns"]) > port.limit_ns:
            found.append(FAR)
        else:
            found.append(None)
    return found


def _stale_ns(rows: pl.DataFrame, port: RecordedPort) -> int:
    """After how long a slave has missed Syncs: INTERVALS of the longest that its profile has between two of them.

    A slave of the automotive profile asks for fewer Syncs once it is locked, so those seen so far do not determine it.
    One that latlab did not start may have any interval: the median of those seen, where that is longer.
    """
    if expected := port.sync_interval_ns:
        return max(STALE_LEAST_NS, INTERVALS * int(expected))
    heard = rows["ingress_ns"].drop_nulls().unique(maintain_order=True).to_numpy()
    seen = float(np.median(np.diff(heard))) if len(heard) > INTERVALS else 0.0
    return max(INTERVALS * SYNC_INTERVAL_NS, round(INTERVALS * seen))


def _checked(rows: pl.DataFrame, port: RecordedPort) -> PtpCheck | None:
    """How far what ptp4l says while it is locked is from our own readings; None where there are none.

    Of each reading the distance is that of ptp4l's offset from the interval ours leave: 0 within it. Both are of one
    offset at almost the same instant; ptp4l's is of its last Sync. `apart`: readings further than the limit.
    """
    if "our_offset_ns" not in rows.columns:
        return None
    both = rows.filter(pl.col("our_offset_ns").is_not_null() & pl.col("offset_ns").is_not_null())
    if both.is_empty():
        return None
    ours, half = both["our_offset_ns"].to_numpy(), both["our_half_ns"].to_numpy()
    outside = np.maximum(np.abs(both["offset_ns"].to_numpy() - ours) - half, 0)
    return PtpCheck(
        n=len(both),
        ours_p50_ns=float(np.median(ours)),
        half_p50_ns=float(np.median(half)),
        coarse=bool(np.median(half) > port.limit_ns),
        outside_max_ns=int(outside.max()),
        apart=int((outside > port.limit_ns).sum()),
    )


def clock_identity(value: int) -> str:
    """A clockIdentity as pmc(8) writes it, such as a1b2c3.fffe.d4e5f6."""
    text = f"{value:016x}"
    return f"{text[:6]}.{text[6:10]}.{text[10:]}"
