"""A lab that is killed while guests, switches and XDP programs are up: cleaning up leaves the machine as it was."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from support.guests.place import GuestPlace
from support.programs import PROGRAMS

pytestmark = pytest.mark.real

KILLED_BED = PROGRAMS / "killed_bed.py"
BRIDGES = ("tap", "xdp", "macvtap", "ovs", "ovs-afxdp")
PATIENCE_S = 10.0


def clean(place: GuestPlace) -> None:
    """Nothing; all is undone, soon, and there is nothing more."""
    began = time.monotonic()
    ended = place.latlab("clean")
    assert ended.status == 0, ended
    assert time.monotonic() - began < PATIENCE_S
    assert place.latlab("clean").out == "nothing to undo\n"


@pytest.mark.parametrize("bridge", BRIDGES)
def test_a_lab_killed_while_it_measures_is_cleaned_up(place: GuestPlace, bridge: str) -> None:
    before = place.trace()
    lab = place.start("run", place.file(bridge, duration="60s"), "--verbose")
    lab.until(": measuring")
    lab.signal(signal.SIGKILL)
    lab.ended()
    assert place.marked()
    clean(place)
    assert place.trace() == before


@pytest.mark.parametrize("at", [0.7, 1.4])
@pytest.mark.parametrize("bridge", BRIDGES)
def test_a_lab_killed_at_any_moment_is_cleaned_up(place: GuestPlace, bridge: str, at: float) -> None:
    before = place.trace()
    argv = [sys.executable, str(KILLED_BED), str(place.file(bridge)), str(place.folder / "logs"), str(at)]
    lab = subprocess.run(argv, capture_output=True, text=True)
    assert lab.returncode == -signal.SIGKILL, lab.stderr
    assert place.trace() != before
    clean(place)
    assert place.trace() == before
