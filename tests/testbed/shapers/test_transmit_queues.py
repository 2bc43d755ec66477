"""Transmit queues as steps: a card that has too few gets more until the end."""

from __future__ import annotations

import os
import subprocess

import pytest

from latlab.model.errors import LabError
from latlab.testbed.shapers import former_queues, transmit_queue_steps
from latlab.testbed.step import Step, fill
from support.machine import run
from support.testbed.shapers import CBS, MQPRIO, SITE, applied, cards, shaped


def queue_step(needed: int = 3) -> Step:
    shaper = {"kind": "mqprio", "queues": [1] * needed}
    return next(step for step in transmit_queue_steps(cards(shaper), SITE) if step.before)


def test_only_a_card_that_is_there_gets_more_queues() -> None:
    assert queue_step().title == "ecu.lat0 has 3 transmit queues"
    assert not any(step.before for step in transmit_queue_steps(shaped(MQPRIO), SITE))
    assert not any(step.before for step in transmit_queue_steps(cards(CBS), SITE))


IGB_CHANNELS = """\
Channel parameters for eth0:
Pre-set maximums:
RX:\t\tn/a
TX:\t\tn/a
Other:\t\t1
Combined:\t8
Current hardware settings:
RX:\t\tn/a
TX:\t\tn/a
Other:\t\t1
Combined:\t2
"""


@pytest.mark.parametrize(
    ("output", "queues", "combined", "tx"),
    [
        (f"2\n{IGB_CHANNELS}", "2", "2", "0"),
        (f"6\n{IGB_CHANNELS}".replace("TX:\t\tn/a", "TX:\t\t6").replace("Combined:\t2", "Combined:\t0"), "6", "0", "6"),
        ("1\n", "1", "0", "0"),
    ],
    ids=["igb", "separate", "none"],
)
def test_former_queues_are_those_in_use_now(output: str, queues: str, combined: str, tx: str) -> None:
    assert former_queues(output) == {"queues": queues, "combined": combined, "tx": tx}
    undo = fill(queue_step().undo or (), former_queues(output))
    assert undo[3:] == ("lat0", queues, combined, tx)


@pytest.mark.real
@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(("before", "meanwhile"), [(1, 3), (4, 4)])
def test_a_card_has_the_queues_until_the_end(before: int, meanwhile: int) -> None:
    def there() -> int:
        return sum(name.startswith("tx-") for name in os.listdir("/sys/class/net/lat0/queues"))

    several = ("numtxqueues", "4", "numrxqueues", "4")
    run("ip", "link", "add", "lat0", *several, "type", "veth", "peer", "name", "lat1", *several)
    run("ethtool", "-L", "lat0", "tx", str(before))
    (result,) = applied([queue_step()])
    assert (result.ok, result.actual) == (True, "3 or more")
    assert there() == before
    subprocess.run(queue_step().do, check=True)
    assert there() == meanwhile


@pytest.mark.real
@pytest.mark.usefixtures("machine")
def test_a_card_that_cannot_have_the_queues_ends_the_run() -> None:
    run("ip", "link", "add", "lat0", "type", "veth", "peer", "name", "lat1")
    with pytest.raises(LabError, match=r"ecu\.lat0 has 3 transmit queues"):
        applied([queue_step()])
