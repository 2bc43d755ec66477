"""Boards of 64-bit ARM in virtual time: emulated whole, with kernels and guests of ARM, and equal to the nanosecond."""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from board_place import BoardPlace, board_place, received
from latlab_command import cells_of, read

import latlab
from latlab.scenario.load import read_yaml
from latlab.testbed.agent_binary import AGENT
from latlab.testbed.images import board_recipe, build_image

ARCHITECTURE = "aarch64"
HOSTS: dict[str, dict[str, Any]] = {
    "board1": {"kind": "board", "arch": "arm64", "time": "virtual", "nics": 2},
    "sensor": {"kind": "netns", "on": "board1", "cards": ["eth0"]},
    "ecu": {"kind": "netns", "on": "board1", "cards": ["eth1"]},
}
PACKETS = 250
SHIPPED = Path(__file__).parents[2] / "scenarios" / "bridges-board.yaml"
BRIDGES = {"tap": "packets carried by vhost-net", "vfio": "PCI device 0000:02:00.0; packets carried by the card"}
FUNCTIONS_IMAGE, RELEASE = "vf-board-arm64", "trixie"
"""A board by a QEMU whose igb has virtual functions with a link."""
PAGES_IMAGE = "pages-board-arm64"
LARGEST_PAGE, PT_LOAD = 1 << 16, 1
"""Of ARM's kernels; the type of an ELF program header that is loaded (elf(5))."""
EACH_WAY = 250
"""Fewer packets than each stream sends."""
INSTANTS = 150
"""Fewer than a timer's within a second."""
STAMPS = ("wake", "submit", "tx_sched", "tx_soft", "rx_soft", "rx_user")


@pytest.fixture
def arm_place(tmp_path: Path, arm_agent: Path, arm_cache: Path) -> Iterator[BoardPlace]:
    """A machine, a folder and a journal of this test's own, with agents for both architectures."""
    with board_place(tmp_path, arm_cache) as made:
        (tmp_path / f"{AGENT}-{ARCHITECTURE}").symlink_to(arm_agent)
        yield made


def test_a_stream_between_two_cards_has_all_stamps_and_repeats_to_the_nanosecond(arm_place: BoardPlace) -> None:
    before = arm_place.trace()
    stream = {"talker": "sensor", "listener": "ecu", "period": "2093us", "size": "64B"}
    path = arm_place.board_scenario(
        hosts=HOSTS,
        links=[{"ends": ["sensor.eth0", "ecu.eth1"]}],
        streams={"control": stream},
        duration=f"{PACKETS * 2093}us",
    )
    ended = arm_place.start("run", path, "--check-repeat").ended()
    assert ended.status == 0, ended.err + ended.out
    assert arm_place.trace() == before
    folder = arm_place.only_run()
    for cell in cells_of(folder).values():
        assert (received(cell), cell["label"]) == ([PACKETS], "virtual time")
    (alike,) = read(folder / "result.json")["repeats"]
    assert (alike["packets"], alike["only_in_one"], alike["largest_ns"]) == (PACKETS, 0, 0)
    packets = latlab.load(folder).packets("all")
    assert {stamp: packets[f"{stamp}_tai_ns"].null_count() for stamp in STAMPS} == dict.fromkeys(STAMPS, 0)
    for path in folder.glob("cells/*/*/facts-before.json"):
        facts = path.read_text()
        assert "PREEMPT_RT" in facts and "arch_sys_counter" in facts


def repeated(place: BoardPlace, bridges: Collection[str], **board: str) -> Path:
    """The run of the shipped scenario with these bridges, idle: trusted, all received, each cell twice and equal."""
    shipped = read_yaml(SHIPPED.read_text()).data
    shipped["hosts"]["board1"] |= {"arch": "arm64"} | board
    matrix = {"guests.vm1.bridge": [*bridges], "loads": ["none"]}
    path = place.board_scenario(**shipped | {"matrix": matrix, "repeat": 1, "duration": "300ms"})
    before = place.trace()
    ended = place.start("run", path, "--check-repeat").ended()
    assert ended.status == 0, ended.err + ended.out
    assert place.trace() == before
    folder = place.only_run()
    result = read(folder / "result.json")
    assert result["label"] == "virtual time"
    assert result["verdict"] == "trusted", result["reasons"]
    counts = [stream["counts"] for cell in result["cells"] for stream in cell["streams"].values()]
    # Two streams, and each cell a second time.
    assert len(counts) == 4 * len(bridges)
    assert all(one["received"] == one["sent"] > EACH_WAY for one in counts)
    assert [(alike["only_in_one"], alike["largest_ns"]) for alike in result["repeats"]] == [(0, 0)] * len(bridges)
    assert all(alike["packets"] > 2 * EACH_WAY for alike in result["repeats"])
    return folder


def test_guests_of_the_shipped_scenario_run_on_it_and_repeat_to_the_nanosecond(arm_place: BoardPlace) -> None:
    folder = repeated(arm_place, BRIDGES)
    for cell in cells_of(folder).values():
        (bridge,), (guest,) = cell["bridges"], cell["guests"]
        assert bridge["detail"] == BRIDGES[bridge["kind"]]
        assert guest["acceleration"] == "kvm" and guest["kernel"].endswith("-rt-arm64")
        # KVM's PTP clock reads both clocks at one value of the counter that both are made from.
        (shared,) = (clock["bound"] for clock in cell["clocks"] if clock["source"] == "ptp_kvm")
        assert 0 < shared["upper_ns"] - shared["lower_ns"] < 1_000
    for path in folder.glob("cells/*/*/facts-before.json"):
        facts = read(path)
        assert {facts[host]["kernel"]["architecture"] for host in ("board1", "vm1")} == {ARCHITECTURE}
        assert {facts[host]["clock"]["source"] for host in ("board1", "vm1")} == {"arch_sys_counter"}
        assert any(thread.endswith("CPU 0/KVM") for thread in facts["board1"]["processes"]["threads"])
        iommus = facts["board1"]["machine"]["iommus"]
        assert [iommu.startswith("smmu3.") for iommu in iommus or ()] == [True] * ("=vfio," in str(path))


@pytest.fixture(scope="session")
def with_functions(arm_agent: Path, arm_cache: Path) -> None:
    """The image of boards whose cards' functions work is there."""
    with mock.patch.dict(os.environ, LATLAB_CACHE=str(arm_cache)):
        build_image(FUNCTIONS_IMAGE, agent=arm_agent, kind="board", architecture="arm64", emulator_from=RELEASE)


@pytest.mark.usefixtures("with_functions")
def test_every_packet_passes_a_guests_virtual_function_and_repeats_to_the_nanosecond(arm_place: BoardPlace) -> None:
    for cell in cells_of(repeated(arm_place, ["vf"], image=FUNCTIONS_IMAGE)).values():
        (bridge,) = cell["bridges"]
        assert bridge["kind"] == "vf" and "0000:02:10.0 by vfio for vm1" in bridge["detail"]


def test_a_timer_of_a_guest_is_followed_from_the_vm_hosts_interrupt_into_it(arm_place: BoardPlace) -> None:
    shipped = read_yaml(SHIPPED.read_text()).data
    shipped["hosts"]["board1"]["arch"] = "arm64"
    del shipped["matrix"], shipped["loads"]
    shipped["guests"]["vm1"]["bridge"] = "tap"
    probe = {"probe": "timer", "on": "vm1", "period": "5003us", "trace": "threads"}
    changes = {"streams": {}, "probes": {"late": probe}, "repeat": 1, "duration": "1s", "warmup": "0s"}
    ended = arm_place.start("run", arm_place.board_scenario(**shipped | changes)).ended()
    assert ended.status == 0, ended.err + ended.out
    (cell,) = read(arm_place.only_run() / "result.json")["cells"]
    told = cell["streams"]["late"]["trace"]
    assert told["whole"] + sum(one["n"] for one in told["missing"]) == told["n"] > INSTANTS
    assert told["whole"] > told["n"] / 2, told["missing"]
    # KVM of arm64 does not report what it injects.
    way = ["wake_due", "host_irq", "host_waking", "host_run", "accepted", "entered", "irq", "waking", "run", "wake"]
    assert told["chain"]["stops"] == way
    within = {(one["from"], one["to"]): one["min"] for one in told["intervals"]}
    assert within["entered", "irq"] >= -told["entry"]["uncertainty_ns"]
    assert all(least >= 0 for ends, least in within.items() if ends[0] != "wake_due" and ends != ("entered", "irq"))


def test_the_agent_can_be_loaded_by_kernels_with_pages_of_64_kib(arm_agent: Path) -> None:
    content = arm_agent.read_bytes()
    first, size, count = struct.unpack_from("<32xQ14xHH", content)
    headers = [struct.unpack_from("<I4xQQ24xQ", content, first + number * size) for number in range(count)]
    loaded = [(offset, address, align) for kind, offset, address, align in headers if kind == PT_LOAD]
    assert loaded
    for offset, address, align in loaded:
        assert align % LARGEST_PAGE == 0 and offset % LARGEST_PAGE == address % LARGEST_PAGE


@pytest.fixture(scope="session")
def with_large_pages(arm_agent: Path, arm_cache: Path) -> None:
    """The image of boards whose kernel has pages of 16 KiB is there."""
    kernels = {**board_recipe.KERNELS, "standard": ("linux-image-6.12-{}-16k", "linux-image-{}-16k")}
    with mock.patch.dict(os.environ, LATLAB_CACHE=str(arm_cache)), mock.patch.object(board_recipe, "KERNELS", kernels):
        build_image(PAGES_IMAGE, agent=arm_agent, kind="board", flavour="standard", architecture="arm64")


@pytest.mark.usefixtures("with_large_pages")
def test_everything_is_recorded_on_a_kernel_with_pages_of_16_kib(arm_place: BoardPlace) -> None:
    board = {**HOSTS["board1"], "flavour": "standard", "image": PAGES_IMAGE, "cpus": 2, "memory": "1536MiB"}
    stream = {"period": "2093us", "size": "64B"}
    path = arm_place.board_scenario(
        hosts=HOSTS | {"board1": board},
        links=[{"ends": ["sensor.eth0", "ecu.eth1"]}],
        guests={"vm1": {"host": "ecu", "uplink": "eth1", "image": "debian-rt", "acceleration": "kvm", "bridge": "xdp"}},
        streams={"out": {"talker": "sensor", "listener": "vm1", **stream}},
        probes={"late": {"probe": "timer", "on": "ecu", "period": "5003us", "trace": "threads"}},
        flows={"seen": {"match": "udp", "at": ["sensor.eth0:out", "vm1.eth0:in"]}},
        timestamps={"by": "ebpf"},
        tuning={"ecu": {"guests": {"vm1": {"vcpus": {"cpus": [1], "fifo": 1}}}}},
        duration=f"{PACKETS * 2093}us",
    )
    before = arm_place.trace()
    ended = arm_place.start("run", path).ended()
    assert ended.status == 0, ended.err + ended.out
    assert arm_place.trace() == before
    folder = arm_place.only_run()
    (cell,) = read(folder / "result.json")["cells"]
    # The kernel's rings: of BPF programs, and of tracepoints.
    counts, (flow,) = cell["streams"]["out"]["counts"], cell["flows"]
    assert counts["received"] == counts["sent"] == PACKETS
    assert [one["rx_soft"] for one in cell["stamps_by"] if one["agent"] == "listen on vm1"] == ["ebpf"]
    assert [one["missing"] for one in cell["stamps_by"]] == [[]] * 2
    assert min(flow["packets"].values()) >= counts["received"]
    told = cell["streams"]["late"]["trace"]
    assert told["whole"] > told["n"] / 2, told["missing"]
    (path,) = folder.glob("cells/*/*/facts-before.json")
    facts = read(path)
    assert {host: facts[host]["memory"]["page_bytes"] for host in ("ecu", "vm1")} == {"ecu": 16384, "vm1": 4096}
