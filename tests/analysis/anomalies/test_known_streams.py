"""Whole streams with known answers: late packets in a comb, or in noise that wanders; a clock that was set."""

from __future__ import annotations

import numpy as np
import pytest

from latlab.synthetic.description import Noise, Periodic, Spikes, Step
from support.analysis.anomalies import SECOND, found, only, stream

PACKETS = 20_000


@pytest.mark.parametrize("shape", ["gaussian", "lognormal", "exponential"])
def test_every_33rd_packet_is_a_comb(shape: str) -> None:
    noise = Noise(15_000, shape)  # type: ignore[arg-type]
    anomalies = found(stream(Periodic(220_000, every_packets=33), packets=PACKETS, noise=noise, seed=31))
    one = only(anomalies)
    assert (one.class_, one.packets, one.evidence["every_packets"]) == ("periodic", 607, 33)
    assert np.flatnonzero(anomalies.class_of).tolist() == list(range(0, PACKETS, 33))


@pytest.mark.parametrize("rho", [0.9, 0.97, 0.99])
@pytest.mark.parametrize(("shape", "extra_ns"), [("gaussian", 140_000), ("exponential", 280_000)])
def test_late_packets_in_noise_that_wanders_are_the_only_ones(shape: str, extra_ns: int, rho: float) -> None:
    noise = Noise(15_000, shape, rho=rho)  # type: ignore[arg-type]
    late = np.random.default_rng(31).random(PACKETS) < 0.02
    spikes = Spikes(tuple(np.flatnonzero(late).tolist()), extra_ns)
    said = found(stream(spikes, packets=PACKETS, noise=noise, seed=31, clock_bound_ns=0)).class_of > 0
    assert np.count_nonzero(said & late) >= 0.99 * np.count_nonzero(late)
    assert np.count_nonzero(said & ~late) <= 0.01 * np.count_nonzero(late)
    alone = found(stream(packets=PACKETS, noise=noise, seed=31, clock_bound_ns=0))
    assert not alone.episodes


@pytest.mark.parametrize("by_ns", [250_000, -250_000])
def test_a_step_on_record_is_one_episode_to_its_end(by_ns: int) -> None:
    step = Step(12 * SECOND, by_ns, read=True)
    one = only(found(stream(step, packets=PACKETS, noise=Noise(15_000, "exponential"), seed=4)))
    assert one.class_ == "clock_step"
    assert one.evidence["peak_ns"] == pytest.approx(by_ns, rel=0.05)
