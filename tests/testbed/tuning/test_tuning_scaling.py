"""Flows into receive queues: what ethtool prints of a NIC's table, and the steps that follow from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from latlab.testbed.site import Site
from latlab.testbed.step import fill
from latlab.testbed.tuning.interrupts import NO_TABLE, scaling_steps, shares, table
from support.testbed.tuning import asked_of_ethtool, tuned

HEAD = "RX flow hash indirection table for lat0 with 4 RX ring(s):\n"
TAIL = "RSS hash key:\nOperation not supported\nRSS hash function:\n    toeplitz: on\n"


def printed(*queues: int) -> str:
    rows = [queues[at : at + 8] for at in range(0, len(queues), 8)]
    lines = [f"{8 * number:5}:  {''.join(f'{queue:6}' for queue in row)}\n" for number, row in enumerate(rows)]
    return HEAD + "".join(lines) + TAIL


def test_flows_go_to_the_chosen_queues_only_and_back_to_all_afterwards() -> None:
    (step,) = scaling_steps("ecu", tuned(rss={"lat0": [2, 3]}), Site("0a9f"))
    assert step.do == ("ethtool", "-X", "lat0", "weight", "0", "0", "1", "1")
    assert step.undo is not None and step.undo[-3:] == ("lat0", "{before}", "{table}")
    assert step.check is not None
    assert step.check.expected == step.check.read(printed(*[2, 3] * 64)) == "2, 3"
    assert step.check.read(printed(*[0, 1, 2, 3] * 32)) == "0, 1, 2, 3"


@pytest.mark.parametrize(
    ("queues", "before"),
    [
        ([0, 1, 2, 3] * 32, "default"),
        ([0] * 128, "equal 1"),
        ([0, 1] * 64, "equal 2"),
        ([0] * 64 + [1] * 64, "weight 64 64"),
        ([2] * 96 + [3] * 32, "weight 0 0 96 32"),
    ],
)
def test_the_shares_that_queues_had_are_given_back(queues: list[int], before: str) -> None:
    assert table(printed(*queues)) == queues
    assert shares(printed(*queues)) == {"before": before, "table": " ".join(map(str, queues))}


@pytest.mark.parametrize(
    ("now", "before", "asked"),
    [
        ([2, 3] * 64, [0, 1, 2, 3] * 32, ["-X lat0 default"]),
        ([2, 3] * 64, [0, 1] * 64, ["-X lat0 equal 2"]),
        # A card that could not be set, or has no table, refuses to be set again, too.
        ([0, 1] * 64, [0, 1] * 64, []),
        ([], [], []),
    ],
)
def test_the_undo_sets_only_what_is_other_now(
    tmp_path: Path, now: list[int], before: list[int], asked: list[str]
) -> None:
    (step,) = scaling_steps("ecu", tuned(rss={"lat0": [2, 3]}), Site("0a9f"))
    assert step.undo is not None
    undo = fill(step.undo, shares(printed(*before)))
    assert asked_of_ethtool(tmp_path, printed(*now), undo) == asked


def test_a_card_without_a_table_says_so() -> None:
    (step,) = scaling_steps("ecu", tuned(rss={"lat0": [1]}), Site("0a9f"))
    assert step.optional
    assert step.check is not None and step.check.read("Cannot get RX ring count: Operation not supported\n") == NO_TABLE
