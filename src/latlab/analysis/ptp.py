"""What a port of PTP's was while a cell was measured: its offset, whether it was locked, whether its claim holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

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

STALE_NS: Final = 3_000_000_000
"""Three of the longest intervals between Sync messages that any profile here has: a slave that has heard none for so
long holds its clock over, whatever state its port says."""
STALE_LEAST_NS: Final = 1_000_000_000
"""Four of the intervals at which it is asked."""

NO_ANSWER, NO_SYNC = "ptp4l gave no answer", "no Sync was heard"
FAR, OTHER_STATE = "the offset was beyond its limit", "its port was"

OURS, OURS_HALF, SILENT = "our_offset_ns", "our_half_ns", "silent_ns"


def ptp_document(port: Mapping[str, Any], rows: pl.DataFrame) -> dict[str, Any]:
    """A port's part of the result (docs/formats.md). rows: the table `ptp` within the time of the streams.

    `unlocked` are the spells in which it was no master and no slave within its limit, from the first reading that says
    so until the first that does not; ns from the first reading.
    """
    follows = rows.filter(pl.col("state").is_in([SLAVE, UNCALIBRATED]))
    # It was asked more often than it heard a Sync, or less: each that was seen counts once.
    syncs = follows.unique("ingress_ns", keep="first", maintain_order=True)
    announced = rows if port["role"] == "master" else rows.filter(pl.col("steps_removed") > 0)
    return {
        **{key: port[key] for key in ("port", "role", "profile", "timestamps", "free_running", "limit_ns", "master")},
        "readings": len(rows),
        "unanswered": int((~rows["answered"]).sum()),
        "states": {STATES.get(code, str(code)): n for code, n in _runs_total(rows["state"].to_numpy())},
        "grandmasters": [
            clock_identity(value) for value in announced["grandmaster"].drop_nulls().unique(maintain_order=True)
        ],
        "offset_ns": _spread(syncs["offset_ns"]),
        "path_delay_ns": _spread(syncs["path_delay_ns"]),
        "frequency_ppb": _spread(rows["frequency_ppt"], 1e-3),
        "unlocked": _spells(rows, port),
        "checked": _checked(follows, port),
    }


def _spread(values: pl.Series, unit: float = 1) -> dict[str, float | int] | None:
    """Least, median, mean, largest and population standard deviation; None of nothing."""
    known = values.drop_nulls().to_numpy() * unit
    if not len(known):
        return None
    return {
        "n": len(known),
        "min": known.min().item(),
        "p50": float(np.median(known)),
        "mean": float(known.mean()),
        "max": known.max().item(),
        "stddev": float(known.std()),
    }


def _runs_total(states: NDArray[np.uint8]) -> list[tuple[int, int]]:
    """Each state there was, with the number of readings, in the order of the first."""
    found: dict[int, int] = {}
    for code in states.tolist():
        found[code] = found.get(code, 0) + 1
    return list(found.items())


def _spells(rows: pl.DataFrame, port: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Where it was not locked, and why: readings that follow one another for the same reason are one spell."""
    if rows.is_empty():
        return []
    first = int(rows["tai_ns"][0])
    spells: list[dict[str, Any]] = []
    for row, fault in zip(rows.iter_rows(named=True), _faults(rows, port), strict=True):
        at = row["tai_ns"] - first
        if spells and spells[-1]["to_ns"] is None:
            if spells[-1]["why"] == fault:
                continue
            spells[-1]["to_ns"] = at
        if fault:
            spells.append({"from_ns": at, "to_ns": None, "why": fault})
    return spells


def _faults(rows: pl.DataFrame, port: Mapping[str, Any]) -> list[str | None]:
    """Of each reading what keeps it from being locked; None where nothing does."""
    following = {SLAVE, UNCALIBRATED} if port["free_running"] else {SLAVE}
    wanted = {"master": {MASTER}, "slave": following, "observed": {MASTER, SLAVE}}[port["role"]]
    found: list[str | None] = []
    stale_ns = _stale_ns(rows)
    for row in rows.iter_rows(named=True):
        silent = row[SILENT]
        if not row["answered"]:
            found.append(NO_ANSWER)
        elif row["state"] not in wanted:
            found.append(f"{OTHER_STATE} {STATES.get(row['state'], row['state'])}")
        elif row["state"] == MASTER:
            found.append(None)
        elif silent is not None and silent > stale_ns:
            found.append(NO_SYNC)
        elif row["offset_ns"] is None or abs(row["offset_ns"]) > port["limit_ns"]:
            found.append(FAR)
        else:
            found.append(None)
    return found


def _stale_ns(rows: pl.DataFrame) -> int:
    """Three of the intervals at which Syncs came in, at least STALE_LEAST_NS; where none was seen, of the longest."""
    heard = rows["ingress_ns"].drop_nulls().unique(maintain_order=True).to_numpy()
    if len(heard) < 3:
        return STALE_NS
    return max(STALE_LEAST_NS, round(3 * float(np.median(np.diff(heard)))))


def _checked(rows: pl.DataFrame, port: Mapping[str, Any]) -> dict[str, Any] | None:
    """How far what ptp4l says is from our own readings; None where there are none.

    Of each reading the distance is that of ptp4l's offset from the interval ours leave: 0 within it. Both are of one
    offset at almost the same instant; ptp4l's is of its last Sync. `apart`: readings further than the limit.
    """
    if OURS not in rows.columns:
        return None
    both = rows.filter(pl.col(OURS).is_not_null() & pl.col("offset_ns").is_not_null())
    if both.is_empty():
        return None
    difference = (both["offset_ns"] - both[OURS]).abs().to_numpy()
    half = both[OURS_HALF].to_numpy()
    outside = np.maximum(difference - half, 0)
    return {
        "n": len(both),
        "ours_p50_ns": float(np.median(both[OURS].to_numpy())),
        "half_p50_ns": float(np.median(half)),
        "coarse": bool(np.median(half) > port["limit_ns"]),
        "outside_max_ns": int(outside.max()),
        "apart": int((outside > port["limit_ns"]).sum()),
    }


def clock_identity(value: int) -> str:
    """A clockIdentity as pmc(8) writes it, such as a1b2c3.fffe.d4e5f6."""
    text = f"{value:016x}"
    return f"{text[:6]}.{text[6:10]}.{text[10:]}"
