"""What a run would make is there already: the cell reports it, and leaves to others what is theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from latlab.model.errors import UsageError
from latlab.run import matrix
from latlab.testbed.site import STATE, Site, guest_address
from support.guests.place import GUEST, GuestPlace
from support.machine import run as shell

pytestmark = pytest.mark.real

TAG = "fa17"
HERE: dict[str, Any] = {"hosts": {"sensor": {"kind": "netns"}, "ecu": {"kind": "local"}}}
"""The guest's host is this machine itself, whose interfaces others make, too."""


@pytest.fixture(autouse=True)
def tag(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run's tag is no surprise."""
    monkeypatch.setattr(matrix, "Site", lambda tag, **parts: Site(TAG, **parts))


def refused(place: GuestPlace, **parts: Any) -> dict[str, str]:
    """Why the only cell could not be made; the machine is as before."""
    before = place.trace()
    cell = place.measure(**parts).cell().document()
    assert cell["status"] == "failed"
    assert place.trace() == before
    reason: dict[str, str] = cell["reason"]
    assert reason["where"] and reason["remedy"], reason
    return reason


@pytest.mark.parametrize(
    ("taken", "words"),
    [
        (("ip", "tuntap", "add", "dev", f"ll{TAG}t0", "mode", "tap"), "make vm1's tap: it exists already"),
        (("ip", "link", "add", f"ll{TAG}br0", "type", "bridge"), "make the bridge: it exists already"),
        (("ip", "netns", "add", f"latlab-{TAG}-sensor"), "make sensor's namespace: it exists already"),
        (("mkdir", "-p", f"{STATE}/{TAG}/{GUEST}"), "make the folder of the run's sockets: it exists already"),
    ],
    ids=["tap", "bridge", "namespace", "folder"],
)
def test_what_is_there_already_is_named_and_left_alone(place: GuestPlace, taken: tuple[str, ...], words: str) -> None:
    shell(*taken)
    assert words in refused(place, **HERE)["what"]


def test_a_hardware_address_that_another_has_is_refused_by_the_kernel_s_own_words(place: GuestPlace) -> None:
    shell("ip", "link", "add", "near", "type", "veth", "peer", "name", "far")
    for end in ("near", "far"):
        shell("ip", "link", "set", end, "up")
    mac = guest_address(TAG, 0)
    shell("ip", "link", "add", "link", "near", "name", "theirs", "address", mac, "type", "macvlan", "mode", "bridge")
    shell("ip", "link", "set", "theirs", "up")
    reason = refused(
        place,
        bridge="macvtap",
        hosts={"plc": {"kind": "local"}, "ecu": {"kind": "local"}},
        links=[{"ends": ["plc.far", "ecu.near"]}],
        guest_uplink="near",
        streams={
            "control": {
                "talker": "plc",
                "listener": GUEST,
                "period": "5ms",
                "size": "64B",
                "transport": "ethernet",
            }
        },
    )
    assert "in use" in reason["what"], reason


def test_an_interface_that_the_machine_has_is_not_made_a_second_time(place: GuestPlace) -> None:
    shell("ip", "link", "add", "nic", "type", "bridge")
    before = place.trace()
    with pytest.raises(UsageError, match="this machine has an interface nic already"):
        place.measure(**HERE)
    assert place.trace() == before
    assert not Path(place.runs).exists()
