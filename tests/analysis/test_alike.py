"""By how much the repetitions of a cell differ, packet by packet."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from latlab.analysis.repetitions import COPY_NS, RepetitionDifference, copies, largest_difference
from latlab.analysis.summary import summarise_cell
from latlab.result.types import Cell
from support.analysis.packets import packet_table, recorded_cell

STAMPS = ("wake", "submit", "tx_sched", "tx_soft", "tx_hard", "rx_hard", "rx_soft", "rx_user")


def table(launch: int, rows: dict[tuple[int, int], dict[str, int]]) -> pl.DataFrame:
    """Packets by stream and sequence, with their timestamps from the launch time."""
    columns: dict[str, list[int | None]] = {"stream": [], "sequence": [], "launch_tai_ns": []}
    columns |= {f"{stamp}_tai_ns": [] for stamp in STAMPS}
    for (stream, sequence), stamps in rows.items():
        columns["stream"].append(stream)
        columns["sequence"].append(sequence)
        columns["launch_tai_ns"].append(launch + sequence * 1000)
        for stamp in STAMPS:
            after = stamps.get(stamp)
            columns[f"{stamp}_tai_ns"].append(None if after is None else launch + sequence * 1000 + after)
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.Int64))


def test_the_first_timestamp_that_differs_is_named_whenever_the_repetitions_began() -> None:
    rows = {(1, number): {"wake": 5, "rx_soft": 90} for number in range(4)}
    first = table(10**9, {**rows, (2, 1): {"wake": 7, "rx_soft": 85}})
    # Packet 1 of stream 2 differs by less and is received earlier than packet 1 of stream 1; packet 3 differs most.
    changes = {
        (1, 1): {"wake": 5, "rx_soft": 98},
        (2, 1): {"wake": 7, "rx_soft": 84},
        (1, 3): {"wake": 4, "rx_soft": 9},
    }
    other = table(7 * 10**9, rows | changes)
    assert largest_difference([first, other]) == RepetitionDifference(5, 0, 81, 2, 2, 1, "rx_soft")
    assert largest_difference([first, first, other]).repeat == 3


def test_equal_repetitions_name_no_packet() -> None:
    one = table(10**9, {(1, 0): {"wake": 5, "rx_soft": 90}})
    assert largest_difference([one, one]) == RepetitionDifference(1, 0, 0)


def test_what_only_one_repetition_has_is_counted() -> None:
    first = table(10**9, {(1, 0): {"wake": 5, "rx_soft": 90}, (1, 1): {"wake": 5}})
    other = table(10**9, {(1, 0): {"wake": 5}, (1, 1): {"wake": 5}, (2, 0): {"wake": 1}})
    found = largest_difference([first, other])
    assert (found.packets, found.only_in_one, found.largest_ns) == (3, 2, 0)


def test_repetitions_without_a_timestamp_in_common_differ_by_nothing_that_can_be_told() -> None:
    first, other = table(0, {(1, 0): {"wake": 5}}), table(0, {(1, 0): {"rx_user": 5}})
    assert largest_difference([first, other]) == RepetitionDifference(1, 2)


def measured(repeat: int, values: Any, **changes: Any) -> Cell:
    """A repetition in virtual time in which packets took so many ns."""
    found = summarise_cell(recorded_cell(), packet_table([{"rx_soft": int(value)} for value in values]))
    return found.model_copy(update={"repeat": repeat, "instructions_per_ns": 1, **changes})


LATENCIES = np.random.default_rng(5).lognormal(10, 0.4, 300)


def test_a_repetition_that_measured_what_another_did_is_a_copy_of_it() -> None:
    others = np.random.default_rng(6).lognormal(10, 0.4, 300)
    cells = [measured(1, LATENCIES), measured(2, others), measured(3, LATENCIES + COPY_NS / 2)]
    (found,) = copies(cells)
    assert (found[0].key, found[1:]) == (cells[2].key, ("control", 1))


@pytest.mark.parametrize(
    "other",
    [
        measured(2, LATENCIES, instructions_per_ns=None),
        measured(2, LATENCIES, slug="loads=some"),
        measured(2, LATENCIES[:-1]),
        measured(2, [*LATENCIES[:-1], LATENCIES.max() + 1_000_000]),
        measured(2, LATENCIES, streams={}),
    ],
    ids=["on a real clock", "of another cell", "of fewer packets", "of another maximum", "without figures"],
)
def test_others_are_no_copies(other: Cell) -> None:
    assert list(copies([measured(1, LATENCIES), other])) == []


def test_figures_that_are_all_near_each_other_are_no_copies() -> None:
    # A timer's interrupt, idle: 0.35 to 0.39 µs.
    first, other = ([*range(350, 390)], [*range(352, 392)])
    assert list(copies([measured(1, first), measured(2, other)])) == []
    ((_, stream, earlier),) = copies([measured(1, first), measured(2, first)])
    assert (stream, earlier) == ("control", 1)
