"""What packets' delays vary by while nothing is the matter: seeded samples of a `Noise`."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.synthetic.description import NOISE_SHARES, STAGES, Description, Noise

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]

PATH: Final = STAGES.index("path")


def stage_delays(description: Description, rng: np.random.Generator) -> list[Int64]:
    """How long each packet takes at each of STAGES when it is alone, int64 ns [packets] each, never below zero.

    The modes and the slow part are the path's alone.
    """
    n, noise = description.packets, description.noise
    delays = []
    for stage, share in enumerate(NOISE_SHARES):
        delay = share * _shaped(noise, n, rng)
        if stage == PATH:
            delay += _modes(noise, n, rng)
            if noise.slow_ns:
                delay += noise.slow_ns * correlated(n, noise.slow_correlation_ns / description.period_ns, rng)
        delays.append(np.maximum(delay + description.least_ns[stage], 0).astype(np.int64))
    return delays


def _shaped(noise: Noise, n: int, rng: np.random.Generator) -> Float64:
    if noise.shape == "heavy":
        return noise.spread_ns * np.abs(rng.standard_t(noise.degrees, n))
    gaussian = correlated(n, -1 / np.log(noise.rho), rng) if noise.rho else rng.standard_normal(n)
    if noise.shape == "exponential":
        from scipy.special import log_ndtr  # type: ignore[import-untyped] # it takes a while to import

        return np.asarray(-noise.spread_ns * log_ndtr(-gaussian), np.float64)
    if noise.shape == "uniform":
        from scipy.special import ndtr

        return np.asarray(noise.spread_ns * ndtr(gaussian), np.float64)
    if noise.shape == "lognormal":
        return noise.spread_ns * np.exp(noise.sigma * gaussian)
    return noise.spread_ns * gaussian


def _modes(noise: Noise, n: int, rng: np.random.Generator) -> Float64:
    """Each packet's mode: 0, or one of the offsets with its weight."""
    if noise.shape != "modes":
        return np.zeros(n)
    weights = np.array([weight for weight, _ in noise.modes])
    offsets = np.array([0, *(offset for _, offset in noise.modes)], np.float64)
    return offsets[rng.choice(len(offsets), n, p=[1 - weights.sum(), *weights])]


def correlated(n: int, correlation: float, rng: np.random.Generator) -> Float64:
    """An autoregressive process of first order with variance 1, float64 [n]; correlation: in packets, to 1/e.

    Made in the frequency domain, so it is stationary from its first value on (and its end leads to its beginning).
    """
    factor = np.exp(-1 / correlation) if correlation > 0 else 0.0
    frequency = np.fft.rfftfreq(n)
    spectrum = np.fft.rfft(rng.standard_normal(n)) / (1 - factor * np.exp(-2j * np.pi * frequency))
    process: Float64 = np.fft.irfft(spectrum, n) * np.sqrt(1 - factor**2)
    return process
