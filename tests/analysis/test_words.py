"""Durations are written in the unit a person would take."""

from __future__ import annotations

import pytest

from latlab.analysis.words import cause_in, duration


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (-200, "−200 ns"),
        (999, "999 ns"),
        (1_006_000, "1.006 ms"),
        (14_213_456, "14.21 ms"),
        (500_000, "500 µs"),
        (2_000_000, "2 ms"),
        (37 * 10**9, "37 s"),
        (86_400 * 10**9, "86400 s"),
        (1234.5, "1.234 µs"),
        (999_999_996, "1 s"),
        (-999_999.6, "−1 ms"),
        (999_940, "999.9 µs"),
    ],
)
def test_a_duration_is_written_in_its_own_unit(ns: float, text: str) -> None:
    assert duration(ns) == text


def test_a_limit_just_exceeded_is_told_from_the_limit() -> None:
    assert duration(500_020, digits=6) == "500.02 µs"


def test_episodes_of_one_cause_are_alike_but_for_the_last_digit_of_their_length() -> None:
    first, again = (f"throttled for {length}: 51 packets held, as every 1 s" for length in ("50 ms", "50.01 ms"))
    assert cause_in(first) == cause_in(again)
    others = (first.replace("50 ms", "52 ms"), first.replace("51", "52"), first.replace("50 ms", "50 µs"))
    assert cause_in(first) not in map(cause_in, others)
