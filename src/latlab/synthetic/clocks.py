"""The listener's clock against the talker's, and what PTP and our own comparison record of that."""

from __future__ import annotations

import numpy as np
import polars as pl

from latlab.analysis.anomalies.context import ClockStep
from latlab.model.units import PPB, SECOND_NS
from latlab.synthetic.description import Description, Drift, Step, Swing
from latlab.synthetic.way import Int64

EVERY_NS = 500_000_000
"""How often the clocks are read: by PTP and by latlab's own comparison."""
READ_EVERY_NS = SECOND_NS
OWN_HALF_NS = 500
"""Half the interval that our comparison leaves where the recording bounds nothing."""
PTP_NOISE_NS = 40
GRANDMASTER = 0xA1B2C3FFFED4E5F6


def swing_ns(one: Swing, since_ns: Int64) -> Int64:
    """A swing's offset at these instants after the first launch, int64 ns."""
    phase = (since_ns - one.at_ns) / one.length_ns
    inside = (phase >= 0) & (phase < 1)
    phase = np.where(inside, phase, 0.0)
    if one.shape == "triangle":
        value = 1 - np.abs(2 * phase - 1)
    elif one.shape == "wave":
        value = np.sin(2 * np.pi * phase)
    else:
        value = (1 - np.cos(2 * np.pi * phase)) / 2
    offset: Int64 = np.rint(one.amplitude_ns * np.where(inside, value, 0.0)).astype(np.int64)
    return offset


def step_ns(one: Step, since_ns: Int64) -> Int64:
    """A step's offset at these instants, int64 ns."""
    since = since_ns >= one.at_ns
    if one.length_ns is not None:
        since &= since_ns < one.at_ns + one.length_ns
    return np.where(since, one.amplitude_ns, 0).astype(np.int64)


def drift_ns(one: Drift, since_ns: Int64) -> Int64:
    """A drift's offset at these instants, int64 ns."""
    offset: Int64 = np.rint(since_ns * (one.ppb * PPB)).astype(np.int64)
    return offset


def moved_ns(one: Swing | Step | Drift, since_ns: Int64) -> Int64:
    """What one ingredient makes of the clocks' offset at these instants, int64 ns."""
    if isinstance(one, Swing):
        return swing_ns(one, since_ns)
    return step_ns(one, since_ns) if isinstance(one, Step) else drift_ns(one, since_ns)


def offset_ns(description: Description, since_ns: Int64) -> Int64:
    """Listener's clock − talker's at these instants, all ingredients together, int64 ns."""
    offset = np.zeros(len(since_ns), np.int64)
    for one in description.ingredients:
        if isinstance(one, Swing | Step | Drift):
            offset += moved_ns(one, since_ns)
    return offset


def ptp_series(description: Description, rng: np.random.Generator) -> pl.DataFrame | None:
    """The table `ptp` (docs/reference/run-folder.md) of the listener's port; None if no ptp4l is observed."""
    if not description.ptp:
        return None
    since = _looks(description)
    offset = rng.normal(0, PTP_NOISE_NS, len(since)).astype(np.int64)
    for one in description.ingredients:
        if isinstance(one, Swing | Step) and one.ptp:
            offset += moved_ns(one, since)
    at = description.start_tai_ns + since
    return pl.DataFrame(
        {
            "tai_ns": at,
            "monotonic_ns": at - description.start_tai_ns + SECOND_NS,
            "answered": np.ones(len(at), np.bool_),
            "state": np.full(len(at), 9, np.uint8),
            "offset_ns": offset,
            "ingress_ns": at - 20_000_000,
            "path_delay_ns": np.full(len(at), 350, np.int64),
            "grandmaster": np.full(len(at), GRANDMASTER, np.uint64),
            "steps_removed": np.ones(len(at), np.uint16),
            "frequency_ppt": np.zeros(len(at), np.int64),
        }
    )


def comparison(description: Description) -> pl.DataFrame | None:
    """What our own comparison says of the offset that is still in the timestamps; None if it says nothing.

    at_tai_ns, lower_ns, upper_ns: Int64; the offset lies between the two. What was not compared is not in it.
    """
    compared = [one for one in description.ingredients if isinstance(one, Swing | Step | Drift) and one.compared]
    if description.clock_bound_ns is None and not compared:
        return None
    half = OWN_HALF_NS if description.clock_bound_ns is None else description.clock_bound_ns
    since = _looks(description)
    middle = np.zeros(len(since), np.int64)
    for one in compared:
        middle += moved_ns(one, since)
    return pl.DataFrame(
        {"at_tai_ns": description.start_tai_ns + since, "lower_ns": middle - half, "upper_ns": middle + half}
    )


def steps(description: Description) -> tuple[ClockStep, ...]:
    """What readings of the listener's clock, a second apart, show of its steps."""
    found = []
    for one in description.ingredients:
        if isinstance(one, Step) and one.read:
            ends = [(one.at_ns, one.amplitude_ns)]
            ends += [] if one.length_ns is None else [(one.at_ns + one.length_ns, -one.amplitude_ns)]
            for at, by in ends:
                before = description.start_tai_ns + at // READ_EVERY_NS * READ_EVERY_NS
                found.append(ClockStep("listener", before, before + READ_EVERY_NS, by))
    return tuple(found)


def _looks(description: Description) -> Int64:
    span = (description.packets - 1) * description.period_ns
    return np.arange(0, span + EVERY_NS, EVERY_NS, dtype=np.int64)
