"""Interrupts that wait for more packets: what ethtool prints of them, and the steps that follow from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from latlab.testbed.site import Site
from latlab.testbed.tuning.interrupts import (
    NO_SETTING,
    RESTORE_COALESCING,
    SET_COALESCING,
    coalescing_steps,
    former,
    in_words,
)
from support.machine import scenario
from support.testbed.tuning import GUEST, HOSTS, asked_of_ethtool, tuned

IGB = """\
Coalesce parameters for lat0:
Adaptive RX: n/a  TX: n/a
stats-block-usecs:\tn/a

rx-usecs:\t3
rx-frames:\tn/a
rx-usecs-irq:\tn/a

tx-usecs:\t0
"""
MLX5 = IGB.replace("RX: n/a  TX: n/a", "RX: on  TX: on").replace("rx-usecs:\t3", "rx-usecs:\t8")


def test_a_card_waits_as_long_as_asked_and_as_before_afterwards() -> None:
    (step,) = coalescing_steps("ecu", tuned(coalescing={"lat0": "20us"}), Site("0a9f"))
    assert step.do == ("sh", "-c", SET_COALESCING, "lat0", "20")
    assert step.undo == ("sh", "-c", RESTORE_COALESCING, "lat0", "{wait}", "{adaptive}")
    assert step.check is not None
    assert step.check.expected == step.check.read(IGB.replace("rx-usecs:\t3", "rx-usecs:\t20")) == "20 us"


@pytest.mark.parametrize(("wait", "in_force"), [("0", True), ("1", True), ("2", False), ("3", False)])
def test_no_wait_is_in_force_where_the_driver_took_its_shortest(wait: str, in_force: bool) -> None:
    (step,) = coalescing_steps("ecu", tuned(coalescing={"lat0": 0}), Site("0a9f"))
    assert step.check is not None
    read_back = step.check.read(IGB.replace("rx-usecs:\t3", f"rx-usecs:\t{wait}"))
    assert (read_back == step.check.expected) is in_force


@pytest.mark.parametrize(
    ("printed", "words", "before"),
    [
        (IGB, "3 us", {"wait": "3", "adaptive": "off"}),
        (MLX5, "8 us, adaptive", {"wait": "8", "adaptive": "on"}),
        (IGB.replace("rx-usecs:\t3", "rx-usecs:\tn/a"), NO_SETTING, {"wait": "", "adaptive": "off"}),
    ],
)
def test_what_ethtool_prints_is_read(printed: str, words: str, before: dict[str, str]) -> None:
    assert in_words(printed) == words
    assert former(printed) == before


def test_a_card_without_the_setting_says_so() -> None:
    assert in_words("netlink error: Operation not supported\n") == NO_SETTING


@pytest.mark.parametrize(
    ("printed", "script", "words", "asked"),
    [
        (IGB, SET_COALESCING, ["0"], ["-C lat0 rx-usecs 0"]),
        (MLX5, SET_COALESCING, ["0"], ["-C lat0 adaptive-rx off", "-C lat0 rx-usecs 0"]),
        (IGB, RESTORE_COALESCING, ["5", "off"], ["-C lat0 rx-usecs 5"]),
        (
            MLX5.replace("RX: on", "RX: off"),
            RESTORE_COALESCING,
            ["9", "on"],
            ["-C lat0 rx-usecs 9", "-C lat0 adaptive-rx on"],
        ),
        # What is as it was is not set: a card that refused the setting refuses its undo as well.
        (IGB, RESTORE_COALESCING, ["3", "off"], []),
        (MLX5, RESTORE_COALESCING, ["8", "on"], []),
        (IGB, RESTORE_COALESCING, ["", "off"], []),
    ],
)
def test_a_card_is_asked_only_about_what_it_has_and_is_other(
    tmp_path: Path, printed: str, script: str, words: list[str], asked: list[str]
) -> None:
    assert asked_of_ethtool(tmp_path, printed, ["sh", "-c", script, "lat0", *words]) == asked


@pytest.mark.parametrize(("bridge", "asked"), [("tap", []), ("vfio", [("eth0", "0")])])
def test_of_guests_only_a_card_of_vfio_is_asked(bridge: str, asked: list[tuple[str, str]]) -> None:
    guests = {"vm1": GUEST | {"bridge": bridge}}
    small = scenario(HOSTS, guests=guests, tuning={"vm1": {"coalescing": {"eth0": 0}}})
    assert [step.do[-2:] for step in coalescing_steps("vm1", small, Site("0a9f"))] == asked
