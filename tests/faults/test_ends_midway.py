"""A guest that fails while it is measured: what it had recorded is kept, its cell reports it, and the others go on."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import latlab
from latlab.run import agent
from support.guests.place import KEPT, PACKETS, GuestPlace

pytestmark = pytest.mark.real

Fault = Callable[[GuestPlace], object]


def received(place: GuestPlace, cell: dict[str, Any]) -> int:
    """How many packets the cell's listener is known to have got."""
    packets = latlab.load(place.only_run()).packets(cell["slug"], repeat=cell["repeat"])
    return packets["arrival"].count()


def kill_bridge(place: GuestPlace, command: str) -> None:
    """Nothing; the only process of this place with these words in its command is being killed."""
    (pid,) = (pid for pid, found in place.marked().items() if command in found)
    os.kill(pid, signal.SIGKILL)


ENDS: dict[str, tuple[str, Fault, str]] = {
    "the guest panics": (
        "tap",
        lambda place: place.in_guest("sh", "-c", "echo c >/proc/sysrq-trigger"),
        "start vm1: `qemu-system-x86_64` ended with status 0: its kernel panicked: sysrq triggered crash",
    ),
    "the XDP bridge is killed": (
        "xdp",
        lambda place: kill_bridge(place, " bridge "),
        "redirect known frames between the bridge's ports",
    ),
    "the switch is killed": ("ovs", lambda place: kill_bridge(place, "ovs-vswitchd "), "run switch 0"),
}


@pytest.mark.parametrize(("bridge", "fault", "words"), ENDS.values(), ids=ENDS)
def test_what_ends_midway_fails_its_cell_and_what_was_recorded_is_kept(
    place: GuestPlace, bridge: str, fault: Fault, words: str
) -> None:
    before = place.trace()
    cell = place.measure(bridge, lambda: fault(place)).cell().document()
    assert (cell["status"], cell["reason"]["where"]) == ("failed", "ecu")
    assert cell["reason"]["what"].startswith(words), cell["reason"]["what"]
    assert "after that" not in cell["reason"]["what"]
    assert cell["reason"]["remedy"]
    assert place.trace() == before
    assert {Path(name).name for name in place.recordings()} >= {"talker-sensor.sent", "listener-vm1.received"}
    assert KEPT <= received(place, cell) < PACKETS


def test_the_other_cells_are_measured_and_all_are_reported_when_a_guest_is_killed(place: GuestPlace) -> None:
    before = place.trace()
    struck, whole = place.measure(fault=lambda: place.signal_qemu(signal.SIGKILL), repeat=2).cells()
    assert (struck["status"], whole["status"]) == ("failed", "ok")
    assert struck["reason"]["what"].startswith("start vm1: `qemu-system-x86_64` was ended by signal 9")
    assert place.trace() == before
    assert KEPT <= received(place, struck) < PACKETS
    assert received(place, whole) == PACKETS

    ended = place.latlab("report", "--json")
    assert (ended.status, ended.document["verdict"]) == (3, "untrusted")
    first, second = ended.document["cells"]
    assert (first["status"], second["status"]) == ("failed", "ok")
    assert first["streams"]["control"]["counts"]["received"] == received(place, struck)
    assert second["streams"]["control"]["counts"]["received"] == PACKETS


LOSES: dict[str, Fault] = {
    "its link goes down": lambda place: place.in_guest("ip", "link", "set", "eth0", "down").check_returncode(),
    "its tap is deleted": lambda place: place.in_host("ecu", "ip", "link", "del", place.device("t0")),
}


@pytest.mark.parametrize("fault", LOSES.values(), ids=LOSES)
def test_a_guest_that_loses_its_network_loses_packets_and_nothing_else(place: GuestPlace, fault: Fault) -> None:
    before = place.trace()
    cell = place.measure(fault=lambda: fault(place)).cell().document()
    assert (cell["status"], cell["reason"]) == ("ok", None)
    assert place.trace() == before
    found = received(place, cell)
    assert KEPT <= found < PACKETS
    ended = place.latlab("report", "--json")
    counts = ended.document["cells"][0]["streams"]["control"]["counts"]
    assert (counts["sent"], counts["received"], counts["lost"]) == (PACKETS, found, PACKETS - found)


def test_a_host_that_does_not_answer_at_the_end_keeps_nothing_back_that_was_copied(
    place: GuestPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "STOP_S", 1.0)
    before = place.trace()
    told = place.measure(fault=lambda: place.signal_qemu(signal.SIGSTOP))
    cell = told.cell().document()
    assert (cell["status"], cell["reason"]["where"]) == ("failed", "vm1")
    assert "`latlab-agent listen` did not stop" in cell["reason"]["what"]
    assert "what was copied during the recording is kept" in cell["reason"]["remedy"]
    assert cell["reason"]["what"].count("does not answer") == 1
    assert KEPT <= received(place, cell) < PACKETS
    assert place.trace() == before
