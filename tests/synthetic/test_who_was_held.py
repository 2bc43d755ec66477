"""The truth about packets that stand behind others: behind a stall's queue, or behind one that noise made late."""

from __future__ import annotations

import numpy as np

from latlab.analysis.anomalies import CODE
from latlab.synthetic import Description, Synthetic, generate, random_description
from latlab.synthetic.description import Ingredient, Noise, Stall

PERIOD_NS = 1_000_000
LEAST_NS = (4_000, 1_500, 1_000, 1_000, 2_000, 15_000, 5_000, 8_000)
SECOND = 1_000_000_000
STALL = np.uint16(1 << CODE["stall"])


def run(*ingredients: Ingredient, noise: Noise, drain_ns: int = 1_000) -> Synthetic:
    return generate(
        Description(
            seed=5,
            packets=20_000,
            period_ns=PERIOD_NS,
            noise=noise,
            least_ns=LEAST_NS,
            drain_ns=drain_ns,
            ingredients=ingredients,
        )
    )


def test_who_is_launched_while_a_stalls_queue_still_passes_is_held_as_well() -> None:
    # 50 packets are held and pass 50 µs apart: 2.5 ms after it is over, so that three more stand behind them.
    synthetic = run(Stall(SECOND, 50_000_000, "talker"), noise=Noise(0), drain_ns=50_000)
    held = np.flatnonzero(synthetic.truth.class_of == CODE["stall"])
    assert held.tolist() == list(range(1_000, 1_053))


def test_noise_within_a_period_holds_nobody() -> None:
    assert not run(noise=Noise(20_000)).truth.excused.any()


def test_where_noise_goes_beyond_a_period_a_stall_may_be_said_of_those_it_holds() -> None:
    synthetic = run(noise=Noise(80_000, "lognormal", sigma=0.8))
    may = np.flatnonzero(synthetic.truth.excused & STALL)
    assert 0 < len(may) < 0.001 * synthetic.packets.height and not synthetic.truth.class_of.any()
    assert not (synthetic.truth.excused & ~STALL).any()
    rows = synthetic.packets
    late = (rows["rx_user_tai_ns"] - rows["launch_tai_ns"]).to_numpy()
    # Each of them, or the one behind it, waited for another: one of two in a row came a period late.
    assert all(max(late[max(0, one - 1) : one + 1]) > PERIOD_NS for one in may)


def test_of_a_tie_between_stalls_and_single_packets_the_truth_is_the_same_each_time() -> None:
    """Twelve times two packets, and others one: neither comes often enough to be periodic."""
    truth = generate(random_description(50_106, ("periodic",), packets_most=30_000)).truth
    names = [one.class_ for one in truth.episodes]
    assert names == ["stall"] * 12 and not truth.periods
    assert set(truth.class_of) == {0, CODE["stall"]}
    singles = np.flatnonzero(truth.excused & np.uint16(1 << CODE["periodic"]))
    assert len(singles) >= 8
