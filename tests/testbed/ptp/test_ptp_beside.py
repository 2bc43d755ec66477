"""What is found where linuxptp is to be started: others who turn the clocks, cards that are away or have no clock."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from latlab.scenario import Scenario
from latlab.testbed.guests.start import planned_site
from latlab.testbed.ptp import absent_ports, ptp_ports, ptp_steps
from latlab.testbed.ptp.daemon import OF_CARDS, OF_THE_SYSTEM
from latlab.testbed.step import Check, Step
from support.testbed.ptp import ONE_BOARD, boards, made

CAPTURED = Path(__file__).parents[1] / "captured"


def check_of(one: Scenario, title: str) -> Check:
    (step,) = (step for step in ptp_steps(one, planned_site(one)) if step.title == title)
    assert isinstance(step, Step)
    assert step.check
    return step.check


def alone(one: Scenario, machine: str) -> Check:
    return check_of(one, f"no other program adjusts {machine}'s clocks")


def test_somebody_else_who_turns_a_clock_is_told_by_name() -> None:
    check = alone(boards(), "board2")
    assert check.read("") == check.expected
    assert check.read("chronyd ") == "chronyd"
    assert check.read("phc2sys ptp4l ptp4l ") == "phc2sys ptp4l"
    assert "systemctl stop" in check.remedy
    printed = subprocess.run(check.argv, capture_output=True, text=True, check=True).stdout
    assert set(printed.split()) <= {*OF_CARDS, *OF_THE_SYSTEM}


def test_a_masters_own_clock_may_be_kept_by_whom_one_likes() -> None:
    assert "chronyd" not in alone(boards(), "board1").argv[-1]
    assert "phc2sys" in alone(boards(), "board1").argv[-1]
    assert "chronyd" in alone(boards(), "board2").argv[-1]


TWO_CARDS: dict[str, Any] = {
    "hosts": {name: {"kind": "board", "nics": 2} for name in ("board1", "board2")},
    "links": [{"ends": [f"board1.eth{n}", f"board2.eth{n}"]} for n in (0, 1)],
    "streams": {
        "control": {"talker": "board1", "listener": "board2", "via": "board1.eth0", "period": "1ms", "size": "64B"}
    },
}


def beside(**ptp: Any) -> Check:
    """Board2's check, where a slave is started and another ptp4l observed."""
    roles = {"board1.eth0": "master", "board2.eth0": "slave"}
    ptp = {"ports": roles, "observed": {"board2.eth1": "/run/ptp4l"}, **ptp}
    return alone(boards(**TWO_CARDS, clock={"ptp": ptp}), "board2")


def test_a_ptp4l_that_is_observed_may_run_too_and_no_other() -> None:
    check = beside()
    assert check.read("ptp4l ") == check.expected
    assert check.read("ptp4l ptp4l ") == "ptp4l"
    assert check.read("phc2sys ptp4l ") == "phc2sys"
    assert alone(boards(), "board2").read("ptp4l ") == "ptp4l"


def test_one_that_may_turn_the_same_clock_as_a_slave_of_ours_may_not() -> None:
    assert beside(timestamps="software").read("ptp4l ") == "ptp4l"


@pytest.mark.parametrize(
    ("bridge", "ports"), [("vfio", 1), ("ovs-afxdp", 1), ("ovs", 2), ("tap", 2)], ids=lambda one: str(one)
)
def test_a_card_of_which_the_kernel_sees_no_packet_has_no_ptp4l_and_that_is_known(bridge: str, ports: int) -> None:
    guest = {"host": "ecu", "uplink": "eth1", "bridge": bridge, "image": "debian-rt", "acceleration": "kvm"}
    one = boards(**ONE_BOARD, guests={"vm1": guest})
    assert [str(port.end) for port in ptp_ports(one, planned_site(one))] == ["sensor.eth0", "ecu.eth1"][:ports]
    whys = {str(port.end): why for port, why in absent_ports(one, planned_site(one))}
    assert list(whys) == ["ecu.eth1"][: 2 - ports]
    assert all(why.startswith(f"{bridge}, for vm1: ") for why in whys.values())


def test_a_guest_that_takes_another_card_leaves_its_uplink_to_ptp() -> None:
    guest = {"host": "ecu", "uplink": "eth1", "bridge": "vfio", "image": "debian-rt", "device": "0000:3b:00.0"}
    one = boards(**ONE_BOARD, guests={"vm1": guest | {"acceleration": "kvm"}})
    assert [str(port.end) for port in ptp_ports(one, planned_site(one))] == ["sensor.eth0", "ecu.eth1"]
    assert absent_ports(one, planned_site(one)) == []


def test_a_card_that_stamps_nothing_is_reported_before_its_settings_are_touched() -> None:
    titles = [step.title for step in ptp_steps(boards(), planned_site(boards()))]
    first = titles.index("board1.eth0 has a separate clock for timestamps")
    assert first < titles.index("record how board1.eth0 stamps packets")
    check = check_of(boards(), "board1.eth0 has a separate clock for timestamps")
    assert check.argv == ("ethtool", "-T", "eth0")
    assert check.read((CAPTURED / "ethtool-igc.txt").read_text()) == check.expected
    veth = check.read((CAPTURED / "ethtool-veth.txt").read_text())
    assert veth == (
        "no hardware timestamp of packets that it sends, no hardware timestamp of packets that it receives, no PTP "
        "clock"
    )
    assert "timestamps: software" in check.remedy
    assert not any("its own clock" in step.title for step in ptp_steps(made(), planned_site(made())))
