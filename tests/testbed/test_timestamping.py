"""What an interface can stamp, and switching hardware stamps on and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from latlab.testbed.step import fill
from latlab.testbed.timestamping import hardware_stamps_step, parse_timestamping

SETTING = "current settings:\ntx_type 0\nrx_filter 12\n"


def test_a_veth_stamps_in_software_only(captured: Path) -> None:
    able = parse_timestamping((captured / "ethtool-veth.txt").read_text())
    assert (able.tx_software, able.rx_software) == (True, True)
    assert (able.tx_hardware, able.rx_hardware, able.phc) == (False, False, None)
    assert hardware_stamps_step("ecu", "eth0", able) is None


def test_an_i225_stamps_every_packet_in_hardware(captured: Path) -> None:
    able = parse_timestamping((captured / "ethtool-igc.txt").read_text())
    assert (able.phc, able.tx_modes, able.rx_filters) == (0, ("off", "on"), ("none", "all"))
    assert able.any_packet_in_hardware


def test_hardware_stamps_are_undone_to_what_was_set_before(captured: Path) -> None:
    step = hardware_stamps_step("ecu", "enp1s0", parse_timestamping((captured / "ethtool-igc.txt").read_text()))
    assert step and step.undo and step.before and step.check
    # Without it the kernel's are there.
    assert step.optional
    assert step.do == ("hwstamp_ctl", "-i", "enp1s0", "-t", "1", "-r", "1")
    assert fill(step.undo, step.before.read(SETTING)) == (
        "hwstamp_ctl",
        "-i",
        "enp1s0",
        "-t",
        "0",
        "-r",
        "12",
    )
    assert step.check.read(SETTING) == "tx_type 0, rx_filter 12"


def test_other_output_is_not_taken_for_abilities() -> None:
    with pytest.raises(ValueError, match="ethtool -T"):
        parse_timestamping("netlink error: No such device\n")
