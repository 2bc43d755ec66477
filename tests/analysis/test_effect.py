"""Differences between groups of repetitions, against cases worked by scipy 1.17.1 and by hand."""

from __future__ import annotations

from math import sqrt

import pytest

from latlab.analysis.comparison.compare import holm, level_to_show
from latlab.analysis.comparison.effect import Effect, critical, paired, two_sided, unpaired

A = [812_000, 845_000, 901_000, 830_000, 822_000]
B = [790_000, 831_000, 870_000, 812_000, 815_000]

# scipy.special.stdtr and stdtrit, scipy 1.17.1: P(|T| >= t) and the t of alpha.
TAILS = (
    (1, 1.0, 0.5), (2, 4.302652729749462, 0.05), (3, 2.5, 0.08770664700806556), (4, 9.0, 0.0008438325176012779),
    (9, 3.0, 0.014956363910414222), (18, 0.3, 0.7676141212934782),
)  # fmt: skip
CRITICAL = (
    (2, 0.05, 4.302652729749462), (2, 0.001, 31.599054576445365), (4, 0.05, 2.7764451051977934),
    (9, 0.05, 2.262157162798205), (9, 0.0005, 5.290653840306525), (30, 1e-6, 6.119075620413732),
)  # fmt: skip

# scipy.stats.ttest_rel(B, A), scipy 1.17.1: its p value, and its confidence_interval(0.95).
PAIRED_P = 0.010096158651689552
PAIRED_INTERVAL = (-29526.584273718472, -7273.41572628153)


@pytest.mark.parametrize(("freedom", "t", "p"), TAILS)
def test_students_tail_is_scipys(freedom: int, t: float, p: float) -> None:
    assert two_sided(t, freedom) == pytest.approx(p, rel=1e-9)
    assert two_sided(-t, freedom) == two_sided(t, freedom)


@pytest.mark.parametrize(("freedom", "alpha", "t"), CRITICAL)
def test_students_quantile_is_scipys(freedom: int, alpha: float, t: float) -> None:
    assert critical(alpha, freedom) == pytest.approx(t, rel=1e-9)


def test_students_tail_has_its_ends() -> None:
    assert two_sided(0.0, 5) == 1.0
    assert two_sided(float("inf"), 5) == pytest.approx(0.0, abs=1e-14)
    with pytest.raises(ValueError, match="degrees of freedom"):
        two_sided(1.0, 0)


def test_a_paired_effect_is_scipys_ttest_rel() -> None:
    effect = paired(A, B)
    assert effect.difference == pytest.approx(-18_400)
    assert effect.p == pytest.approx(PAIRED_P, rel=1e-9)
    assert effect.interval == pytest.approx(PAIRED_INTERVAL, rel=1e-9)
    assert effect.freedom == 4


def test_an_unpaired_effect_has_welchs_error_and_the_smaller_sides_freedom() -> None:
    effect = unpaired([10.0, 12.0, 14.0], [20.0, 20.5, 21.0, 21.5, 22.0])
    assert effect.error == pytest.approx(sqrt(4 / 3 + 0.625 / 5))
    assert effect.freedom == 2
    assert effect.difference == 9.0
    half = 4.302652729749462 * sqrt(4 / 3 + 0.125)
    assert effect.interval == pytest.approx((9 - half, 9 + half))


def test_what_a_block_adds_to_both_sides_is_not_in_a_paired_effect() -> None:
    drifted_a, drifted_b = ([x + 1e6 * n for n, x in enumerate(side)] for side in (A, B))
    assert paired(drifted_a, drifted_b).interval == pytest.approx(paired(A, B).interval)
    wide, narrow = unpaired(drifted_a, drifted_b).half(), unpaired(A, B).half()
    assert wide is not None
    assert narrow is not None
    assert wide > 10 * narrow


@pytest.mark.parametrize("effect", [paired([5], [9]), unpaired([5], [9, 10, 11]), unpaired([5, 6], [9])])
def test_one_repetition_a_side_has_a_difference_and_nothing_else(effect: Effect) -> None:
    assert effect.difference > 0
    assert (effect.error, effect.p, effect.interval, effect.half()) == (None, None, None, None)


def test_repetitions_that_say_the_same_have_an_interval_of_no_width() -> None:
    effect = paired([100.1, 100.1, 100.1], [104.2, 104.2, 104.2])
    assert effect.exact
    assert effect.interval == (effect.difference, effect.difference)
    assert effect.p == 0.0
    same = unpaired([0.1] * 3, [0.1] * 3)
    assert same.exact
    assert same.p == 1.0


def test_clocks_widen_the_interval_and_weaken_the_difference() -> None:
    without, widened = paired(A, B), paired(A, B, clocks=5_000)
    assert widened.interval is not None
    assert without.interval is not None
    assert widened.interval[0] == pytest.approx(without.interval[0] - 5_000)
    assert widened.interval[1] == pytest.approx(without.interval[1] + 5_000)
    # Of all that clocks allow, the smallest difference decides.
    assert widened.p == pytest.approx(paired(A, [one + 5_000 for one in B]).p)
    assert paired(A, B, clocks=20_000).p == 1.0


@pytest.mark.parametrize("clocks", [0, 300, 5_000])
def test_an_interval_leaves_zero_out_exactly_where_p_says_so(clocks: int) -> None:
    for shift in range(-30_000, 30_001, 500):
        effect = unpaired(A, [one + shift for one in B], clocks)
        assert effect.interval is not None
        assert effect.p is not None
        assert (effect.interval[0] > 0 or effect.interval[1] < 0) == (effect.p < 0.05)


def test_holms_adjusted_p_values_are_those_worked_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_level_to_show_one_more_is_the_step_at_which_holm_stopped() -> None:
    p = [0.001, 0.9, 0.8, 0.7]
    level = level_to_show(holm(p), 0.05)
    assert level == pytest.approx(0.05 / 3)
    assert holm([0.001, level * 0.999, 0.8, 0.7])[1] <= 0.05
    assert holm([0.001, level * 1.001, 0.8, 0.7])[1] > 0.05
    assert level_to_show(holm([0.001, 0.002]), 0.05) == 0.05
