"""A probe as a whole: each question with its answer, as one way that adds up to the round trip."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.counts import ARRIVAL, SENDING, lost, unknown
from latlab.analysis.way import ANSWER

COLUMNS: Final = {
    **{f"{name}_tai_ns": f"{of_answer}_tai_ns" for name, of_answer in ANSWER.items()},
    "arrival": "arrival",
}
"""A column of the leg down → what it is called next to the leg up's."""


def round_trips(up: pl.DataFrame, down: pl.DataFrame) -> pl.DataFrame:
    """Each question with its answer: the rows of the leg up, and next to them those of the leg down (`COLUMNS`).

    up, down: the legs' rows of the packet table, as many, by sequence, on the clock of who asks. `arrival` is the
    answer's: what has none was not answered.
    """
    answers = down.select(pl.col(name).alias(beside) for name, beside in COLUMNS.items())
    # Beside a tool's packets the table has some of these columns, empty.
    trips = up.drop(*COLUMNS.values(), strict=False).hstack(answers.get_columns())
    if "unknown" not in up.columns:
        return trips
    # Whether a question was asked its sender says, and whether it was answered the receiver of the answer.
    return trips.with_columns(unknown=(up["unknown"] & SENDING) | (down["unknown"] & ARRIVAL))


def probe_counts(
    trips: pl.DataFrame, up: Mapping[str, int], down: Mapping[str, int], timeout_ns: int | None
) -> dict[str, int]:
    """What became of a probe's questions, over its whole length, warm-up included.

    up, down: the counts of its legs. sent: questions taken by the kernel; answered: those with an answer, however late;
    unanswered: the others; late: answers that came more than timeout_ns after their question was due.
    """
    answered = int(trips["arrival"].count())
    asked = (pl.col("send_error") == 0).fill_null(False) & unknown(trips, ARRIVAL)
    open_ = int(trips.select((pl.col("arrival").is_null() & (unknown(trips, SENDING) | asked)).sum()).item())
    late = 0
    if timeout_ns is not None:
        took = trips.select((pl.col("answered_tai_ns") - pl.col("launch_tai_ns")) > timeout_ns).to_series()
        late = int(took.sum())
    return {
        "scheduled": up["scheduled"],
        "warmup": up["warmup"],
        "sent": up["sent"],
        "unsent": up["unsent"],
        "send_errors": up["send_errors"],
        "answered": answered,
        "unanswered": int(trips.select(lost(trips).sum()).item()),
        "unknown": open_,
        "late": late,
        "duplicated": down["duplicated"],
        "reordered": down["reordered"],
    }


def with_every_launch(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with a launch time each, for an axis of time: of an answer that was never due, one between its
    neighbours'. No figure is made of those.
    """
    launch = rows["launch_tai_ns"]
    if launch.null_count() == 0 or launch.null_count() == len(launch):
        return rows
    return rows.with_columns(pl.Series("launch_tai_ns", filled_launches(launch)))


def filled_launches(launch: pl.Series) -> NDArray[np.int64]:
    """Launch times, ns, int64 [n], where they are null those between known ones, and before and after these at the same
    rate; at least one is known.
    """
    known = np.flatnonzero(launch.is_not_null().to_numpy())
    values = launch.fill_null(0).to_numpy()
    base = int(values[known[0]])
    # Floats hold the difference to the first exactly, and not the instants themselves.
    place, since = np.arange(len(values)), (values[known] - base).astype(np.float64)
    between = np.interp(place, known, since)
    rate = since[-1] / max(1, known[-1] - known[0])
    between += rate * (np.minimum(0, place - known[0]) + np.maximum(0, place - known[-1]))
    filled: NDArray[np.int64] = np.rint(between).astype(np.int64) + base
    filled[known] = values[known]
    return filled
