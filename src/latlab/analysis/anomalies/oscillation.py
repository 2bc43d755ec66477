"""A usual latency that goes up and down regularly, all through the stream: a servo, a beat of two periods, a fan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.blocks import block_quantiles, filled, running_median
from latlab.analysis.anomalies.clock_records import records_of
from latlab.analysis.anomalies.found import Found, Seen
from latlab.analysis.anomalies.limit import either
from latlab.analysis.anomalies.signals import Signals
from latlab.analysis.anomalies.stages import PATH, PLACES
from latlab.analysis.words import duration

Float64 = NDArray[np.float64]

STRETCH_NS: Final = 20_000_000
PACKETS_LEAST: Final = 8
POINTS_LEAST: Final = 64
CYCLES_LEAST: Final = 4
"""Fewer may be a movement that does not come back."""
SHARE: Final = 0.5
"""Of the variance of medians, which one frequency has. Noise whose correlation decays (an autoregressive process) has
no such line in its spectrum, whatever its correlation time is."""
QUARTERS, ALIKE = 4, 0.6
SPREADS: Final = 1.0
"""Of packets: a peak-to-peak amplitude of less is not reported."""

AROUND: Final = 8
"""Packets on either side of one, whose median is what is usual at an end of the stream."""


def find_oscillation(seen: Seen) -> Iterator[Found]:
    """The oscillation that was noted in `seen`: the class of all packets that nothing else is the matter with."""
    if seen.oscillation is not None:
        yield seen.oscillation


def note_oscillation(seen: Seen) -> None:
    """Note in `seen` the oscillation of the whole stream, and who is late at its ends for nothing else.

    There the line of the usual latency has no stretch beyond to go to: packets are held against those around them.
    """
    seen.oscillation = oscillation_of(seen.signals)
    if seen.oscillation is None:
        return
    signals, size = seen.signals, seen.signals.size
    for end in (slice(0, size), slice(len(signals.row) - size, None)):
        latency = signals.level_ns[end] + signals.late_ns[end]
        seen.usual[end] = latency - running_median(latency, AROUND) <= signals.limit_ns[end]


def oscillation_of(signals: Signals) -> Found | None:
    """The oscillation of the whole stream, if there is one: its period, amplitude and place."""
    n, period_ns = len(signals.row), signals.context.period_ns
    size = max(PACKETS_LEAST, STRETCH_NS // period_ns)
    if n < POINTS_LEAST * size:
        return None
    latency = signals.level_ns + signals.late_ns
    aside = either(signals.held, signals.apart)
    medians = filled(block_quantiles(latency[: n // size * size], size, (0.5,), left_out=aside)[0])
    at = np.arange(len(medians), dtype=np.float64)
    medians = medians - np.polyval(np.polyfit(at, medians, 1), at)
    power = np.abs(np.fft.rfft(medians)) ** 2
    power[0] = 0.0
    cycles = int(np.argmax(power))
    line = float(power[max(1, cycles - 1) : cycles + 2].sum())
    if cycles < CYCLES_LEAST or line < SHARE * float(power.sum()):
        return None
    pk_pk = 2 * (2 * 2 * line) ** 0.5 / len(medians)
    if pk_pk < max(SPREADS * signals.spread_ns, 2 * signals.thresholds.level_least_ns):
        return None
    if not _all_the_time(medians, cycles / len(medians)):
        return None
    # Between two of its frequencies the transform has two neighbours: their middle, by power.
    near = np.arange(max(1, cycles - 1), min(cycles + 2, len(power)))
    frequency = float((near * power[near]).sum() / power[near].sum()) / len(medians)
    every = size * period_ns / frequency
    where = _where(signals, n, frequency / size)
    wave = _wave(medians, frequency)
    middles = np.minimum(np.arange(len(medians)) * size + size // 2, n - 1)
    records = records_of(signals, signals.launch_ns[middles], wave, signals.spread_ns)
    name = "clock_swing" if records.supported and where == PATH else "oscillation"
    evidence: dict[str, Any] = {
        "kind": "oscillation",
        "period_ns": round(every),
        "pk_pk_ns": round(pk_pk),
        "peak_ns": round(pk_pk / 2),
        "cycles": round(frequency * len(medians), 1),
        "share": round(line / float(power.sum()), 2),
        "where": where,
        **records.evidence,
    }
    text = (
        f"the usual latency oscillates all the time, every {duration(every)} by {duration(pk_pk)} from peak to peak, "
        f"in {PLACES[where]}{records.text if where == PATH else ''}"
    )
    return Found(name, signals.warmup, int(signals.row[-1]), None, pk_pk, evidence, text)


def _all_the_time(medians: Float64, frequency: float) -> bool:
    """Whether each quarter of the stream has it, and all about as large: what comes once or twice has not."""
    parts = [float(np.std(one)) for one in np.array_split(medians, QUARTERS)]
    lines = [float(np.std(_wave(one, frequency))) for one in np.array_split(medians, QUARTERS)]
    alike = min(lines) >= ALIKE * max(lines)
    return alike and all(line >= SHARE**0.5 * part for line, part in zip(lines, parts, strict=True))


def _wave(medians: Float64, frequency: float) -> Float64:
    """The sine of this frequency, in cycles a median, that fits best."""
    phase = 2 * np.pi * frequency * np.arange(len(medians))
    basis = np.stack((np.sin(phase), np.cos(phase)), axis=1)
    fitted: Float64 = basis @ np.linalg.lstsq(basis, medians, rcond=None)[0]
    return fitted


def _where(signals: Signals, n: int, frequency: float) -> str:
    """The place that oscillates most at this frequency, in cycles a packet."""
    turning = np.exp(-2j * np.pi * frequency * np.arange(n))
    taken = signals.stages.taken_ns(signals.row)
    size = {place: abs(complex(((one - np.median(one)) * turning).sum())) for place, one in taken.items()}
    return max(size, key=lambda place: size[place]) if size else PATH
