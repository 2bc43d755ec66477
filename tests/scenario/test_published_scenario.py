"""Published rows: figures, in the order that figures of one measurement have."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from latlab.scenario.models import Published

ROW = {"source": "theirs", "row": "of theirs", "metric": "latency"}


def row(**figures: Any) -> Published:
    return Published.model_validate({**ROW, **figures})


def refused(**figures: Any) -> str:
    """What is said of the one thing that is wrong with such a row."""
    with pytest.raises(ValidationError) as caught:
        row(**figures)
    (error,) = caught.value.errors()
    return error["msg"]


def test_a_row_without_a_figure_is_refused() -> None:
    expected = "'of theirs' has no figure; expected at least one of min, mean, max, stddev, pk_pk, p50, p99"
    assert refused() == refused(n=1000) == expected


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({"min": "5us", "max": "2us"}, "min, 5000 ns, is above max, 2000 ns; expected min ≤ p50 ≤ p99 ≤ max"),
        ({"p50": "5us", "p99": "2us"}, "p50, 5000 ns, is above p99, 2000 ns"),
        ({"mean": "5us", "max": "2us"}, "mean, 5000 ns, is above max, 2000 ns; expected min ≤ mean ≤ max"),
        ({"min": "5us", "mean": "2us", "max": "9us"}, "min, 5000 ns, is above mean, 2000 ns"),
    ],
)
def test_figures_out_of_order_are_refused_with_both(figures: dict[str, str], said: str) -> None:
    assert refused(**figures).startswith(f"'of theirs': {said}")


def test_equal_figures_and_a_mean_above_the_tail_are_what_can_be() -> None:
    assert row(min="2us", p50="2us", p99="2us", mean="5us", max="9us").mean == 5_000
    assert row(stddev="13ns").stddev == 13
