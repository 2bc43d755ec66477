"""Packets watched on two machines that are reached over a real sshd: what leaves the one and comes in at the other."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from latlab.recordings.arrow import read_recording
from support.command import read
from support.ssh import CABLE, Bench

pytestmark = pytest.mark.skipif(
    not Path("/sys/kernel/btf/vmlinux").exists(), reason="this kernel has no BTF, so no BPF program sees its packets"
)

COUNT = 20
LEFT, RIGHT = (f"board{number}/{CABLE}" for number in (1, 2))
TRANSITS = (f"board1-{CABLE}-out-to-board2-{CABLE}-in", f"board2-{CABLE}-out-to-board1-{CABLE}-in")
"""There and back."""


def watched(bench: Bench, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit status, and the cell with its reasons, of COUNT echo requests from one machine to the other."""
    config = str(bench.place.folder / "boards" / "config")
    at = ("--at", f"{LEFT}:out", "--at", f"{RIGHT}:in", "--at", f"{RIGHT}:out", "--at", f"{LEFT}:in")
    lab = bench.start("watch", "--flow", "icmp", *at, "--ssh-config", config, "--picture", "none", *options)
    lab.until("Watching icmp")
    said = bench.boards["board1"].inside("ping", "-q", "-c", str(COUNT), "-i", "0.02", "10.78.0.2")
    assert f"{COUNT} received" in said
    bench.boards["board1"].inside("sleep", "0.7")  # packets of the last half second are not counted
    lab.signal(signal.SIGINT)
    ended = lab.ended()
    result = read(bench.place.only_run() / "result.json")
    (cell,) = result["cells"]
    return ended.status, cell | {"reasons": result["reasons"]}


def test_what_leaves_a_machine_comes_in_at_the_other_within_the_bound_of_their_clocks(bench: Bench) -> None:
    before = bench.traces()
    status, cell = watched(bench, "--clock-bound", "1ms")
    for name in TRANSITS:
        figures = cell["streams"][name]["metrics"]["transit"]
        assert (figures["n"], figures["lost"], figures["uncertainty_ns"]) == (COUNT, 0, 1_000_000)
        assert figures["min"] > 0  # it is one kernel, of which the lab does not know
    assert (status, cell["verdict"]) == (0, "trusted")
    assert bench.traces() == before
    # What the kernel dropped of the flow is fetched from both, whole. It is one kernel, which drops each answer where
    # it looks for a ping socket, if ping has a raw one (net/ipv4/ping.c, ping_rcv): that is no loss.
    dropped = [read_recording(path, "dropped") for path in (bench.place.only_run() / "watch").glob("*.dropped.arrow")]
    assert [one.complete for one in dropped] == [True, True]
    assert len({one.table.height for one in dropped}) == 1


def test_recordings_that_are_streamed_need_no_room_on_the_machines(bench: Bench) -> None:
    before = bench.traces()
    for board in bench.boards.values():
        board.inside("mount", "-o", "remount,size=4k", "/var/tmp")  # one page: two recordings have no room there
    status, cell = watched(bench, "--clock-bound", "1ms", "--streamed")
    for name in TRANSITS:
        figures = cell["streams"][name]["metrics"]["transit"]
        assert (figures["n"], figures["lost"]) == (COUNT, 0)
    assert (status, cell["verdict"]) == (0, "trusted")
    recordings = [*(bench.place.only_run() / "watch").glob("*.arrow")]
    assert len(recordings) == 2 * len(bench.boards)
    assert all(read_recording(path, path.name.split(".")[-2]).complete for path in recordings)
    assert bench.traces() == before


def test_without_a_bound_of_the_clocks_a_latency_between_two_machines_is_untrusted(bench: Bench) -> None:
    status, cell = watched(bench)
    assert status == 4
    assert [reason["id"] for reason in cell["reasons"] if reason["severity"] == "untrusted"] == ["clock-bound"]
    assert cell["streams"][f"at-board1-{CABLE}-out"]["metrics"]["interarrival"]["uncertainty_ns"] == 0


VIRSH = """#!/bin/sh
case "$1 $2" in
"domstate board2") echo running ;;
"domstate paused") echo paused ;;
"domifaddr board2") test "$4" = agent && cat <<END
 Name       MAC address          Protocol     Address
-------------------------------------------------------------------------------
 lo         00:00:00:00:00:00    ipv4         127.0.0.1/8
 enp1s0     52:54:00:00:00:01    ipv6         fe80::1/64
 -          -                    ipv4         {address}/24
END
;;
*) exit 1 ;;
esac
"""


def test_a_domain_of_libvirts_that_runs_is_reached_over_ssh_at_the_address_that_libvirt_knows(bench: Bench) -> None:
    before = bench.traces()
    programs = bench.place.folder / "programs"
    programs.mkdir()
    (programs / "virsh").write_text(VIRSH.format(address=bench.boards["board2"].address))
    (programs / "virsh").chmod(0o755)
    config = bench.place.folder / "boards" / "config"
    text = config.read_text()
    # Only libvirt knows where it is.
    config.write_text(text.replace(f"HostName {bench.boards['board2'].address}\n", "HostName 192.0.2.1\n"))
    path = f"{programs}:{os.environ['PATH']}"
    at = ("--at", f"{LEFT}:out", "--at", f"guest:{RIGHT}:in", "--ssh-config", str(config), "--clock-bound", "1ms")
    ended = bench.latlab("watch", "--flow", "icmp", "--at", "guest:paused/eth0", PATH=path)
    assert (ended.status, "domain paused is paused" in ended.err) == (2, True)
    lab = bench.place.start("watch", "--flow", "icmp", *at, "--picture", "none", PATH=path)
    lab.until("Watching icmp")
    bench.boards["board1"].inside("ping", "-q", "-c", str(COUNT), "-i", "0.02", "10.78.0.2")
    bench.boards["board1"].inside("sleep", "0.7")
    lab.signal(signal.SIGINT)
    assert lab.ended().status == 0
    (cell,) = read(bench.place.only_run() / "result.json")["cells"]
    figures = cell["streams"][f"board1-{CABLE}-out-to-guest-board2-{CABLE}-in"]["metrics"]["transit"]
    assert (figures["n"], figures["lost"]) == (COUNT, 0)
    config.write_text(text)
    assert bench.traces() == before


def test_an_interface_that_a_machine_does_not_have_is_one_error_and_leaves_nothing(bench: Bench) -> None:
    before = bench.traces()
    config = str(bench.place.folder / "boards" / "config")
    ended = bench.latlab("watch", "--flow", "icmp", "--at", "board1/eth9", "--ssh-config", config)
    assert ended.status == 2
    assert "board1/eth9: there is no interface 'eth9'" in ended.err
    assert CABLE in ended.err
    assert bench.traces() == before
