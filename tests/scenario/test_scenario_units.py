"""Quantities: text to whole numbers, exactly, and back."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from latlab.scenario import (
    format_duration,
    format_rate,
    format_size,
    parse_duration,
    parse_rate,
    parse_size,
)
from latlab.scenario.units import DURATION

COUNTS = st.integers(min_value=0, max_value=2**63 - 1)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1006us", 1_006_000),
        ("1006µs", 1_006_000),
        ("900s", 900 * 10**9),
        ("2ms", 2_000_000),
        ("500ns", 500),
        ("1.5s", 1_500_000_000),
        ("3min", 180 * 10**9),
        ("1h", 3600 * 10**9),
        ("0.000000001s", 1),
        ("900 s", 900 * 10**9),
        (0, 0),
    ],
)
def test_a_duration_is_whole_nanoseconds(text: object, ns: int) -> None:
    assert parse_duration(text) == ns


@pytest.mark.parametrize(
    ("text", "size"), [("64B", 64), ("1kB", 1000), ("1KiB", 1024), ("512MiB", 2**29), ("1.5KiB", 1536)]
)
def test_a_size_is_whole_bytes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "rate"),
    [("100Mbit/s", 10**8), ("1Gbit/s", 10**9), ("9600bit/s", 9600), ("2.5Gbit/s", 25 * 10**8)],
)
def test_a_rate_is_whole_bits_a_second(text: str, rate: int) -> None:
    assert parse_rate(text) == rate


def test_a_bare_number_is_refused_with_the_hint_to_add_a_unit() -> None:
    with pytest.raises(PydanticCustomError, match=r"900 has no unit; expected a duration such as 1006us"):
        parse_duration(900)


@pytest.mark.parametrize(
    "text", ["1.5ns", "0.0001us", "1e3ns", "-1us", "1", "us", "1 000us", "١us", "1us\n", True, None]
)
def test_what_is_no_whole_number_of_nanoseconds_is_refused(text: object) -> None:
    with pytest.raises(PydanticCustomError):
        parse_duration(text)


def test_more_than_int64_holds_is_refused() -> None:
    assert parse_duration(f"{2**63 - 1}ns") == 2**63 - 1
    with pytest.raises(PydanticCustomError, match="too large"):
        parse_duration(f"{2**63}ns")


@given(COUNTS)
def test_durations_sizes_and_rates_survive_formatting(value: int) -> None:
    assert parse_duration(format_duration(value)) == value
    assert parse_size(format_size(value)) == value
    assert parse_rate(format_rate(value)) == value


@given(st.decimals(min_value=0, max_value=1000, places=12), st.sampled_from(sorted(DURATION.units)))
def test_decimals_are_exact_or_refused(number: Decimal, unit: str) -> None:
    exact = number * DURATION.units[unit]
    if exact == exact.to_integral_value():
        assert parse_duration(f"{number:f}{unit}") == int(exact)
    else:
        with pytest.raises(PydanticCustomError, match="fraction of 1ns"):
            parse_duration(f"{number:f}{unit}")


def test_a_format_takes_the_largest_unit_that_keeps_it_whole() -> None:
    assert [format_duration(ns) for ns in (1_006_000, 900 * 10**9, 1_500_000_000)] == [
        "1006us",
        "900s",
        "1500ms",
    ]
    assert [format_size(size) for size in (64, 1024, 1000)] == ["64B", "1KiB", "1kB"]
