"""What an exchange of timestamps says about the offset over the whole of a cell."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from latlab.recordings.cell import Totals
from latlab.run.clocks import offset_interval

SECOND = 1_000_000_000


def bound(lower: int, upper: int, span: int = 0, drift: tuple[float | None, float | None] = (0.0, 0.0)) -> Any:
    """A bound as the agent reports it, its reference in the middle of the span."""
    return {
        "reference_tai_ns": 10 * SECOND,
        "lower_ns": lower,
        "upper_ns": upper,
        "drift_lower_ppb": drift[0],
        "drift_upper_ppb": drift[1],
        "span_ns": span,
    }


def interval(whole: Any, *windows: Any) -> tuple[int, int] | None:
    return offset_interval(Totals(bound=whole, windows=list(windows)))


def test_clocks_that_do_not_drift_stay_inside_their_bound() -> None:
    assert interval(bound(-30, 40)) == (-30, 41)


def test_drift_widens_the_bound_by_what_half_the_span_brings() -> None:
    # 50 ppb over the 5 s from the middle to either end: 250 ns.
    assert interval(bound(-30, 40, 10 * SECOND, (-20.0, 50.0))) == (-280, 291)
    assert interval(bound(-30, 40, 10 * SECOND, (-50.0, -20.0))) == (-280, 291)


def test_where_no_line_fits_the_windows_are_taken_together() -> None:
    assert interval(None, bound(-10, 10), bound(990, 1010)) == (-10, 1011)


def test_a_window_too_short_to_bound_the_drift_says_nothing() -> None:
    assert interval(None, bound(-10, 10), bound(-5000, 5000, SECOND, (None, 3.0))) == (-10, 11)


def test_nothing_bounds_what_was_never_exchanged() -> None:
    assert interval(None) is None
    assert interval(bound(-10, 10, SECOND, (None, None)), bound(-1, 1, SECOND, (None, None))) is None


@given(
    offset=st.integers(-SECOND, SECOND),
    drift_ppb=st.floats(-100_000, 100_000),
    margin=st.floats(0, 1000),
    span=st.integers(0, 3600 * SECOND),
    moment=st.floats(-0.5, 0.5),
)
def test_the_true_offset_is_inside_at_every_moment_of_the_span(
    offset: int, drift_ppb: float, margin: float, span: int, moment: float
) -> None:
    found = interval(bound(offset - 5, offset + 5, span, (drift_ppb - margin, drift_ppb + margin)))
    assert found
    true = offset + drift_ppb * 1e-9 * span * moment
    assert found[0] <= true + 1 and true - 1 <= found[1]
