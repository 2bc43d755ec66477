"""netperf: the sums and the three percentiles it prints of its round trips, as they are, in ns."""

from __future__ import annotations

import pytest

from latlab.imports.base import Figures, ReadFiles
from latlab.imports.netperf import COARSE, read_round_trips
from latlab.testbed.probes.netperf import SELECTORS
from support.imports.files import text

KINDS = ("tcp", "udp")
US = 1000


def read(said: str) -> ReadFiles:
    return read_round_trips(said, "nrr", "sensor", "ecu", "2.7.0")


def printed(kind: str) -> dict[str, str]:
    """What stands in the file, {name: value}; there is nothing else in it."""
    return dict(line.split("=") for line in text(f"netperf-{kind}-rr.txt").splitlines())


def figures_of(kind: str) -> Figures:
    (figures,) = read(text(f"netperf-{kind}-rr.txt")).figures
    return figures


@pytest.mark.parametrize("kind", KINDS)
def test_netperf_prints_what_the_probe_asks_of_it(kind: str) -> None:
    said = printed(kind)
    assert list(said) == list(SELECTORS)
    assert (said["PROTOCOL"], said["REQUEST_SIZE"], said["RESPONSE_SIZE"]) == (kind.upper(), "64", "64")
    assert read(text(f"netperf-{kind}-rr.txt")).facts == said


@pytest.mark.parametrize(("kind", "n"), [("tcp", 68_371), ("udp", 74_145)])
def test_there_are_as_many_as_it_had_transactions(kind: str, n: int) -> None:
    said, figures = printed(kind), figures_of(kind)
    assert figures.n == n
    # A second's; its length is rounded to hundredths.
    assert figures.n == pytest.approx(float(said["TRANSACTION_RATE"]), rel=0.005)


@pytest.mark.parametrize(
    ("kind", "least", "mean", "most", "stddev", "percentiles"),
    [
        ("tcp", 11_000, 14_590, 6_690_000, 80_900, {"p50": 12_000, "p90": 13_000, "p99": 28_000}),
        ("udp", 10_000, 13_450, 5_395_000, 74_140, {"p50": 11_000, "p90": 12_000, "p99": 30_000}),
    ],
)
def test_its_microseconds_are_nanoseconds(
    kind: str, least: int, mean: float, most: int, stddev: int, percentiles: dict[str, int]
) -> None:
    said, figures = printed(kind), figures_of(kind)
    assert (figures.min, figures.mean, figures.max, figures.stddev) == (least, mean, most, stddev)
    assert figures.percentiles == percentiles
    # Every percentile is in a decade whose bins are 10 µs wide.
    assert (figures.resolution_ns, figures.binned) == (10 * US, True)
    for name, value in {"MIN": figures.min, "MEAN": figures.mean, "MAX": figures.max, "STDDEV": figures.stddev}.items():
        assert value == pytest.approx(float(said[f"{name}_LATENCY"]) * US, abs=0.5)
    for percentile, value in figures.percentiles.items():
        assert value == float(said[f"{percentile.upper()}_LATENCY"]) * US


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_is_the_time_a_transaction_takes(kind: str) -> None:
    # One at a time: what is between an answer and the next request is all that the mean leaves out.
    apart_ns = 1e9 / float(printed(kind)["TRANSACTION_RATE"])
    assert figures_of(kind).mean == pytest.approx(apart_ns, rel=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_a_round_trip_of_sums_and_no_latency_one_way(kind: str) -> None:
    found = read(text(f"netperf-{kind}-rr.txt"))
    (figures,) = found.figures
    assert (figures.stream, figures.metric, figures.kept) == ("nrr", "round_trip", "summary")
    assert figures.between == ("submit", "answered")
    assert (figures.talker, figures.listener, figures.two_clocks) == ("sensor", "ecu", False)
    assert figures.tally is None
    assert not found.streams
    assert (found.tool, found.version) == ("netperf", "2.7.0")
    assert found.latency.startswith("round trip, from just before the client's send call until its receive call")
    assert COARSE in found.notes
    assert any(note.startswith("a closed loop") for note in found.notes)


@pytest.mark.parametrize("name", [one for one in SELECTORS if one.endswith("LATENCY")])
def test_a_figure_that_it_did_not_print_is_named(name: str) -> None:
    lines = [line for line in text("netperf-tcp-rr.txt").splitlines() if not line.startswith(f"{name}=")]
    with pytest.raises(ValueError, match=f"no number for {name} in what it printed"):
        read("\n".join(lines))


def test_a_run_in_which_nothing_was_answered_has_nothing() -> None:
    said = text("netperf-udp-rr.txt").replace("TRANSACTION_RATE=74144.988", "TRANSACTION_RATE=0.000")
    with pytest.raises(ValueError, match="it completed no transaction"):
        read(said)
