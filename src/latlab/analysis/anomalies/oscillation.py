"""A usual latency that goes up and down regularly, all through the stream: a servo, a beat of two periods, a fan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.blocks import block_quantiles, filled, running_median
from latlab.analysis.anomalies.clock_records import records_of
from latlab.analysis.anomalies.found import Claimed, FoundEpisode
from latlab.analysis.anomalies.limit import either
from latlab.analysis.anomalies.signals import Signals
from latlab.analysis.words import duration
from latlab.model.timestamps import PATH, PLACES
from latlab.result.types import Evidence

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]

STRETCH_NS: Final = 20_000_000
PACKETS_LEAST: Final = 8
POINTS_LEAST: Final = 64
CYCLES_LEAST: Final = 4
"""Fewer may be a movement that does not come back."""
SHARE: Final = 0.5
"""Of the variance of medians, which one frequency has. Noise whose correlation decays (an autoregressive process) has
no such line in its spectrum, whatever its correlation time is."""
LINES: Final = 3
"""The maximum number of waves that are distinguished, which have that share together."""
BESIDE, ABOVE = 10, 15.0
"""Bins of the spectrum on either side of a line, and how many times their median its own has: a spectrum that decays
has no such line. Not checked where one wave alone has SHARE."""
QUARTERS, ALIKE = 4, 0.6
SPREADS: Final = 1.0
"""Of packets: a peak-to-peak amplitude of less is not reported."""

TRIED: Final = 16
"""Frequencies on either side of the best one so far, of which the best is taken, twice."""
FLAT: Final = 0.25
"""Of a cycle: medians of longer intervals flatten a wave by more than their mean does."""
FOLLOWED: Final = 0.25
"""Of packets' spread: by less than that the line of the usual latency, which goes straight from interval to interval,
lies next to a wave."""
UNKNOWN: Final = 0.25
"""Of medians, in which no packet came: of more nothing is said."""
SPARSE: Final = 4
"""Times as many places as packets: where fewer have a packet, its number is its place."""

AROUND: Final = 8
"""Packets on either side of one, whose median is what is usual at an end of the stream."""


def find_oscillation(seen: Claimed) -> Iterator[FoundEpisode]:
    """The oscillation that was noted in `seen`: the class of all packets that nothing else is the matter with."""
    if seen.oscillation is not None:
        yield seen.oscillation


def note_oscillation(seen: Claimed, line: SpectralLine | None) -> None:
    """Note in `seen` the oscillation of the whole stream, and who is late at its ends for nothing else.

    line: `line_of` its signals.

    There the line of the usual latency has no interval beyond to go to: packets are compared with those around them.
    """
    if line is None:
        return
    seen.oscillation = _found(seen.signals, line)
    signals, size = seen.signals, seen.signals.size
    for end in (slice(0, size), slice(len(signals.row) - size, None)):
        latency = signals.level_ns[end] + signals.late_ns[end]
        seen.usual[end] = latency - running_median(latency, AROUND) <= signals.limit_ns[end]


@dataclass(frozen=True)
class Wave:
    """A sine that is fitted to medians of `size` packets' time: `parts` of sine and cosine, ns.

    frequency: in cycles a median.
    """

    frequency: float
    parts: tuple[float, float]
    size: int

    @classmethod
    def through(cls, medians: Float64, near: float, size: int) -> Wave:
        """The one that fits best, of frequencies within one cycle of the whole stream about `near` cycles."""
        cycles, step = near, 1.0
        for _ in range(2):
            tried = cycles + step * np.arange(-TRIED, TRIED + 1) / TRIED
            cycles = float(min(tried, key=lambda one: _fit(medians, one / len(medians))[1]))
            step /= TRIED
        frequency = cycles / len(medians)
        sine, cosine = _fit(medians, frequency)[0].tolist()
        return cls(frequency, (sine, cosine), size)

    @property
    def pk_pk_ns(self) -> float:
        """From peak to peak; what the mean over a median's time takes from it is given back."""
        return 2 * float(np.hypot(*self.parts)) / float(np.sinc(min(self.frequency, FLAT)))

    def at(self, places: Int64) -> Float64:
        """What it is at packets' places, ns, float64 [n]."""
        found: Float64 = _basis(self.frequency, (places + 0.5) / self.size - 0.5) @ np.array(self.parts)
        found *= self.pk_pk_ns / (2 * float(np.hypot(*self.parts)))
        return found


def fast_wave_ns(signals: Signals, line: SpectralLine | None) -> Float64 | None:
    """What of an oscillation the line of the usual latency cannot follow, at each packet, ns, float64 [n].

    None: there is none, or the line follows it. The line lies next to a sine by an eighth of the square of what that
    turns in an interval, times half of its height. line: `line_of` the signals.
    """
    fast = []
    for wave in () if line is None else (line.wave, *line.others):
        turned = 2 * np.pi * wave.frequency / wave.size * signals.size
        if wave.pk_pk_ns / 2 * min(1.0, turned**2 / 8) > FOLLOWED * signals.spread_ns:
            fast.append(wave.at(_places(signals)))
    return np.sum(fast, axis=0) if fast else None


def _places(signals: Signals) -> Int64:
    """How many periods after the first packet each was launched, so that lost ones have their time, too."""
    launch, period_ns = signals.launch_ns, signals.context.period_ns
    places: Int64 = (launch - launch[0] + period_ns // 2) // period_ns
    if np.any(np.diff(places) < 1) or places[-1] >= SPARSE * len(places):
        return np.arange(len(launch))
    return places


def _medians(signals: Signals, size: int) -> Float64:
    """Of the latency in each interval of `size` periods, without what was queued or lies beyond a gap."""
    latency, aside = signals.level_ns + signals.late_ns, either(signals.held, signals.apart)
    places = _places(signals)
    if int(places[-1]) >= len(places):
        if aside is not None:
            latency[aside] = np.nan
        known, latency, aside = latency, np.full(int(places[-1]) + 1, np.nan), None
        latency[places] = known
    found: Float64 = block_quantiles(latency[: len(latency) // size * size], size, (0.5,), left_out=aside)[0]
    return found


@dataclass(frozen=True)
class SpectralLine:
    """The wave that has most of the level's variance, all the time; that share; the medians less a straight line.

    others: further waves, the largest first; the share is of all of them together, and they are not in the medians.
    """

    wave: Wave
    share: float
    medians: Float64
    others: tuple[Wave, ...] = ()


def line_of(signals: Signals) -> SpectralLine | None:
    """The line in the level's spectrum, all through the stream; None: there is none."""
    n, period_ns = len(signals.row), signals.context.period_ns
    size = max(PACKETS_LEAST, STRETCH_NS // period_ns)
    if n < POINTS_LEAST * size:
        return None
    medians = _medians(signals, size)
    unknown = np.isnan(medians)
    if np.count_nonzero(unknown) > UNKNOWN * len(medians):
        return None
    medians = filled(medians)
    at = np.arange(len(medians), dtype=np.float64)
    medians = medians - np.polyval(np.polyfit(at, medians, 1), at)
    cycles, near, share = _strongest(medians)
    if cycles < CYCLES_LEAST:
        return None
    if unknown.any():
        # Where no packet came, a line goes through the others' wave: the wave continues there instead.
        medians[unknown] = np.nan
        wave = Wave.through(medians, near, size)
        medians[unknown] = (_basis(wave.frequency, at) @ np.array(wave.parts))[unknown]
        cycles, near, share = _strongest(medians)
    least_ns = max(SPREADS * signals.spread_ns, 2 * signals.thresholds.level_least_ns)
    if share < SHARE:
        return _several(medians, size, least_ns)
    wave = Wave.through(medians, near, size)
    if wave.pk_pk_ns < least_ns or not _all_the_time(medians, wave.frequency):
        return None
    several = _several(medians, size, least_ns)
    return several if several is not None and several.others else SpectralLine(wave, share, medians)


def _several(medians: Float64, size: int, least_ns: float) -> SpectralLine | None:
    """The waves that have most of the variance together; None: they do not, or one of them comes and goes."""
    at, left = np.arange(len(medians), dtype=np.float64), medians
    waves: list[Wave] = []
    for _ in range(LINES):
        cycles, near, _ = _strongest(left)
        if cycles < CYCLES_LEAST or not _is_line(left, cycles):
            break
        tried = [*waves, Wave.through(left, near, size)]
        basis = np.concatenate([_basis(one.frequency, at) for one in tried], axis=1)
        parts = np.linalg.lstsq(basis, medians, rcond=None)[0]
        left = medians - basis @ parts
        waves = [replace(one, parts=(float(parts[2 * k]), float(parts[2 * k + 1]))) for k, one in enumerate(tried)]
    waves = sorted((one for one in waves if one.pk_pk_ns >= least_ns), key=lambda one: -one.pk_pk_ns)
    fitted = [_basis(one.frequency, at) @ np.array(one.parts) for one in waves]
    left = medians - np.sum(fitted, axis=0)
    share = 1 - float(np.var(left)) / max(float(np.var(medians)), 1e-300)
    if share < SHARE or not all(
        _all_the_time(left + own, one.frequency) for own, one in zip(fitted, waves, strict=True)
    ):
        return None
    return SpectralLine(waves[0], share, left + fitted[0], tuple(waves[1:]))


def _is_line(medians: Float64, cycles: int) -> bool:
    """Whether the spectrum has a line at so many cycles, which is far above what is on either side of it."""
    # Of medians that end as they do not begin a line would reach over all of the spectrum.
    power = np.abs(np.fft.rfft(medians * np.hanning(len(medians)))) ** 2
    own = float(power[max(0, cycles - 1) : cycles + 2].mean())
    beside = power[max(0, cycles - 2 - BESIDE) : max(0, cycles - 2)], power[cycles + 3 : cycles + 3 + BESIDE]
    return own > ABOVE * max(float(np.median(one)) for one in beside if len(one))


def _strongest(medians: Float64) -> tuple[int, float, float]:
    """The frequency with most of their variance, in whole cycles, nearer, and with how much of it."""
    power = np.abs(np.fft.rfft(medians)) ** 2
    power[0] = 0.0
    cycles = int(np.argmax(power))
    # Between two of its frequencies the transform has two neighbours: their middle, by power.
    near = np.arange(max(1, cycles - 1), min(cycles + 2, len(power)))
    line = float(power[near].sum())
    return cycles, float((near * power[near]).sum() / max(line, 1e-300)), line / max(float(power.sum()), 1e-300)


def _found(signals: Signals, line: SpectralLine) -> FoundEpisode:
    """The oscillation of the whole stream: its period, amplitude and place."""
    wave, medians, share = line.wave, line.medians, line.share
    pk_pk, every = wave.pk_pk_ns, wave.size * signals.context.period_ns / wave.frequency
    places = _places(signals)
    where = _where(signals, places, wave.frequency / wave.size)
    others = [
        {"period_ns": round(one.size * signals.context.period_ns / one.frequency), "pk_pk_ns": round(one.pk_pk_ns)}
        for one in line.others
        if not _is_harmonic(one, wave, len(medians))
    ]
    middles = np.searchsorted(places, np.arange(len(medians)) * wave.size + wave.size // 2)
    at_ns = signals.launch_ns[np.minimum(middles, len(places) - 1)]
    records = records_of(signals, at_ns, _wave(medians, wave.frequency), signals.spread_ns)
    name = "clock_swing" if records.supported and where == PATH else "oscillation"
    evidence: Evidence = {
        "kind": "oscillation",
        "period_ns": round(every),
        "pk_pk_ns": round(pk_pk),
        "peak_ns": round(pk_pk / 2),
        "cycles": round(wave.frequency * len(medians), 1),
        "share": round(share, 2),
        **({"others": others} if others else {}),
        "where": where,
        **records.evidence,
    }
    beside = "".join(f", and every {duration(one['period_ns'])} by {duration(one['pk_pk_ns'])}" for one in others)
    text = (
        f"the usual latency oscillates throughout the run, every {duration(every)} by {duration(pk_pk)} from peak to "
        f"peak{beside}, in {PLACES[where]}{records.text if where == PATH else ''}"
    )
    return FoundEpisode(name, signals.warmup, int(signals.row[-1]), None, pk_pk, evidence, text)


def _is_harmonic(one: Wave, of: Wave, medians: int) -> bool:
    """Whether it belongs to the form of another, which is no sine: it has a multiple of its cycles."""
    times = round(one.frequency / of.frequency)
    return times > 1 and abs(one.frequency - times * of.frequency) * medians < 1


def _all_the_time(medians: Float64, frequency: float) -> bool:
    """Whether each quarter of the stream has it, and all about as large: what comes once or twice has not."""
    parts = [float(np.std(one)) for one in np.array_split(medians, QUARTERS)]
    lines = [float(np.std(_wave(one, frequency))) for one in np.array_split(medians, QUARTERS)]
    alike = min(lines) >= ALIKE * max(lines)
    return alike and all(line >= SHARE**0.5 * part for line, part in zip(lines, parts, strict=True))


def _basis(frequency: float, at: Float64) -> Float64:
    """Sine and cosine of this frequency, float64 [n, 2]."""
    phase = 2 * np.pi * frequency * at
    return np.stack((np.sin(phase), np.cos(phase)), axis=1)


def _fit(medians: Float64, frequency: float) -> tuple[Float64, float]:
    """How much of sine and cosine of this frequency fits best next to a straight line, and the squares left over.

    medians: NaN where none is known. frequency: in cycles a median.
    """
    at = np.arange(len(medians), dtype=np.float64)
    known = ~np.isnan(medians)
    line = np.stack((np.ones(len(at)), at / max(1, len(at))), axis=1)
    basis = np.concatenate((_basis(frequency, at), line), axis=1)[known]
    parts = np.asarray(np.linalg.lstsq(basis, medians[known], rcond=None)[0], np.float64)
    return parts[:2], float(np.sum((medians[known] - basis @ parts) ** 2))


def _wave(medians: Float64, frequency: float) -> Float64:
    """The sine of this frequency, in cycles a median, that fits best."""
    fitted: Float64 = _basis(frequency, np.arange(len(medians), dtype=np.float64)) @ _fit(medians, frequency)[0]
    return fitted


def _where(signals: Signals, places: Int64, frequency: float) -> str:
    """The stage that oscillates most at this frequency, in cycles a period."""
    turning = np.exp(-2j * np.pi * frequency * places)
    taken = signals.stages.taken_ns(signals.row)
    size = {place: abs(complex(((one - np.median(one)) * turning).sum())) for place, one in taken.items()}
    return max(size, key=lambda place: size[place]) if size else PATH
