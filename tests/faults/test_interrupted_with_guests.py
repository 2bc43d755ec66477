"""Ctrl-C while a guest boots or is measured: the run ends in order, and soon."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from latlab.testbed.site import STATE
from support.command import cells_of
from support.guests.place import FAULT_AFTER_S, KEPT, GuestPlace

pytestmark = pytest.mark.real

NEVER_ANSWERS = "rdinit=/usr/bin/busybox -- sleep 100000"
TWO_COMMANDS_S = 15


def interrupted(place: GuestPlace, before: object, began: float) -> None:
    """Nothing; the lab was told at `began` (time.monotonic(), s), has ended in order, and the machine is as before."""
    assert time.monotonic() - began < TWO_COMMANDS_S
    (cell,) = cells_of(place.only_run()).values()
    assert (cell["status"], cell["reason"]["what"]) == ("interrupted", "a signal ended the run")
    assert place.trace() == before


def test_a_run_that_is_interrupted_while_its_guest_boots_does_not_wait_for_it(place: GuestPlace) -> None:
    before = place.trace()
    lab = place.start("run", place.file(guest_append=NEVER_ANSWERS), "--verbose")
    while not list(Path(STATE).glob("*/*/pid")):
        assert lab.process.poll() is None
        time.sleep(0.05)
    time.sleep(1)
    lab.signal(signal.SIGINT)
    began = time.monotonic()
    ended = lab.ended()
    assert (ended.status, ended.err) == (3, "")
    interrupted(place, before, began)


def test_a_run_that_is_interrupted_while_it_measures_keeps_what_it_has(place: GuestPlace) -> None:
    before = place.trace()
    lab = place.start("run", place.file(duration="60s"), "--verbose")
    lab.until(": measuring")
    time.sleep(FAULT_AFTER_S)
    lab.signal(signal.SIGINT)
    began = time.monotonic()
    ended = lab.ended()
    assert (ended.status, ended.err) == (3, "")
    interrupted(place, before, began)
    found = {name.rpartition("/")[2]: recording for name, recording in place.recordings().items()}
    assert all(recording.complete for recording in found.values())
    sent, received = (len(found[name].table) for name in ("talker-sensor.sent", "listener-vm1.received"))
    assert sent >= received > KEPT
