"""Boards of 64-bit ARM in virtual time: emulated whole, with kernels and guests of ARM, and equal to the nanosecond."""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any
from unittest import mock

import polars as pl
import pytest

from latlab.scenario.load import read_yaml
from latlab.testbed.images import board_recipe, build_image
from support.boards.place import BoardPlace
from support.command import cells_of, read

ARCHITECTURE = "aarch64"
SHIPPED = Path(__file__).parents[2] / "scenarios" / "bridges-board.yaml"
PAGES_IMAGE, RELEASE = "pages-board-arm64", "trixie"
"""A board whose kernel has pages of 16 KiB, by a QEMU whose igb has virtual functions with a link."""
BRIDGES = {
    "xdp": "redirected",
    "vfio": "PCI device 0000:02:00.0; packets carried by the card",
    "vf": "0000:02:10.0 by vfio",
}
LARGEST_PAGE, PT_LOAD = 1 << 16, 1
"""Of ARM's kernels; the type of an ELF program header that is loaded (elf(5))."""
EACH_WAY, INSTANTS = 350, 70
"""Fewer packets than each stream sends, and fewer than a timer's instants."""
STAMPS = ("wake", "submit", "tx_sched", "tx_soft", "rx_soft", "rx_user")
TIMER = {"probe": "timer", "period": "5003us", "trace": "threads"}
# KVM of arm64 does not report what it injects.
TIMERS_WAY = ["wake_due", "host_irq", "host_waking", "host_run", "accepted", "entered", "irq", "waking", "run", "wake"]


def measured(place: BoardPlace, bridges: Collection[str], *words: str, board: dict[str, Any], **parts: Any) -> Path:
    """The run of the shipped scenario with these bridges, idle: all received, and only its kernel may be doubtful."""
    shipped = read_yaml(SHIPPED.read_text()).data
    shipped["hosts"]["board1"] |= {"arch": "arm64"} | board
    matrix = {"guests.vm1.bridge": [*bridges], "loads": ["none"]}
    path = place.board_scenario(**shipped | {"matrix": matrix, "repeat": 1, "duration": "500ms"} | parts)
    before = place.trace()
    ended = place.start("run", path, *words).ended()
    assert ended.status == 0, ended.err + ended.out
    assert place.trace() == before
    folder: Path = place.only_run()
    result = read(folder / "result.json")
    assert result["label"] == "virtual time"
    doubts = {"preempt-rt"} if board.get("flavour") == "standard" else set()
    assert {reason["id"] for reason in result["reasons"]} == doubts, result["reasons"]
    for cell in result["cells"]:
        counts = [one["counts"] for name, one in cell["streams"].items() if name in {"down", "up"}]
        assert [one["received"] == one["sent"] > EACH_WAY for one in counts] == [True] * 2
    for path in folder.glob("cells/**/packets.parquet"):
        packets = pl.read_parquet(path).filter(pl.col("stream") <= 2)
        assert {stamp: packets[f"{stamp}_tai_ns"].null_count() for stamp in STAMPS} == dict.fromkeys(STAMPS, 0)
    return folder


@pytest.mark.long
def test_packets_and_timers_of_a_guest_on_it_repeat_to_the_nanosecond(arm_place: BoardPlace) -> None:
    folder = measured(arm_place, ["tap"], "--check-repeat", board={}, probes={"late": TIMER | {"on": "vm1"}})
    (alike,) = read(folder / "result.json")["repeats"]
    assert (alike["only_in_one"], alike["largest_ns"]) == (0, 0), alike
    assert alike["packets"] > 2 * EACH_WAY + INSTANTS


def test_a_guest_runs_on_it_and_its_packets_and_timers_are_measured(arm_place: BoardPlace) -> None:
    tuning = read_yaml(SHIPPED.read_text()).data["tuning"]
    tuning["ecu"]["irq"] = {"eth1": {"cpus": [0]}}
    folder = measured(arm_place, ["tap"], board={}, probes={"late": TIMER | {"on": "vm1"}}, tuning=tuning)
    result = read(folder / "result.json")
    for cell in cells_of(folder).values():
        (bridge,), (guest,) = cell["bridges"], cell["guests"]
        assert bridge["detail"] == "packets carried by vhost-net"
        assert guest["acceleration"] == "kvm" and guest["kernel"].endswith("-rt-arm64")
        # KVM's PTP clock reads both clocks at one value of the counter that both are made from.
        (shared,) = (clock["bound"] for clock in cell["clocks"] if clock["source"] == "ptp_kvm")
        assert 0 < shared["upper_ns"] - shared["lower_ns"] < 1_000
    for path in folder.glob("cells/*/*/facts-before.json"):
        facts = read(path)
        assert "PREEMPT_RT" in path.read_text()
        assert {facts[host]["kernel"]["architecture"] for host in ("board1", "vm1")} == {ARCHITECTURE}
        assert {facts[host]["clock"]["source"] for host in ("board1", "vm1")} == {"arch_sys_counter"}
        assert any(thread.endswith("CPU 0/KVM") for thread in facts["board1"]["processes"]["threads"])
        # The device tree says what machine it is, as there are no tables of firmware; each CPU which core it is.
        assert {facts[host]["machine"]["product"] for host in ("board1", "vm1")} == {"linux,dummy-virt"}
        assert facts["board1"]["cpu"]["model"] == "arm,neoverse-n1"
        for host, cpus in (("board1", 2), ("vm1", 1)):
            assert [one["core_type"] for one in facts[host]["cpu"]["cpus"].values()] == ["Neoverse-N1"] * cpus
        assert_interrupts_went_to(0, facts["ecu"], read(path.with_name("facts-after.json"))["ecu"])
    # All CPUs are of one kind, and nothing is said of who ran on which.
    assert [cell.get("cores", []) for cell in result["cells"]] == [[]]
    # A timer of the guest is followed from the VM host's interrupt into it.
    told = result["cells"][0]["streams"]["late"]["trace"]
    assert told["whole"] + sum(one["n"] for one in told["missing"]) == told["n"] > INSTANTS
    assert told["whole"] > told["n"] / 2, told["missing"]
    assert told["chain"]["stops"] == TIMERS_WAY
    within = {(one["from"], one["to"]): one["min"] for one in told["intervals"]}
    assert within["entered", "irq"] >= -told["entry"]["uncertainty_ns"]
    assert all(least >= 0 for ends, least in within.items() if ends[0] != "wake_due" and ends != ("entered", "irq"))


def assert_interrupts_went_to(cpu: int, before: dict[str, Any], after: dict[str, Any]) -> None:
    """The uplink's interrupts may go to that CPU alone, do so, and between these facts came there, and nowhere else."""
    came = Counter[str]()
    numbers = [str(number) for number in before["interfaces"]["eth1"]["irqs"]]
    for was, now in ((one["interrupts"]["irqs"][number] for one in (before, after)) for number in numbers):
        assert (
            [was["affinity"], was["effective_affinity"]] == [now["affinity"], now["effective_affinity"]] == [[cpu]] * 2
        )
        came += Counter(now["cpu_counts"]) - Counter(was["cpu_counts"])
    assert set(came) == {str(cpu)} and came.total() > 2 * EACH_WAY, came


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
    """The image is there of boards whose kernel has pages of 16 KiB, and whose cards' functions work."""
    kernels = {**board_recipe.KERNELS, "standard": ("linux-image-6.12-{}-16k", "linux-image-{}-16k")}
    with mock.patch.dict(os.environ, LATLAB_CACHE=str(arm_cache)), mock.patch.object(board_recipe, "KERNELS", kernels):
        build_image(
            *(PAGES_IMAGE,),
            agent=arm_agent,
            kind="board",
            flavour="standard",
            architecture="arm64",
            emulator_from=RELEASE,
        )


@pytest.mark.long
@pytest.mark.usefixtures("with_large_pages")
def test_everything_is_recorded_and_repeats_on_a_kernel_with_pages_of_16_kib_through_cards_and_their_functions(
    arm_place: BoardPlace,
) -> None:
    folder = measured(
        arm_place,
        BRIDGES,
        "--check-repeat",
        board={"flavour": "standard", "image": PAGES_IMAGE},
        probes={"late": TIMER | {"on": "ecu"}},
        flows={"seen": {"match": "udp", "at": ["sensor.eth0:out", "vm1.eth0:in"]}},
        timestamps={"by": "ebpf"},
    )
    result = read(folder / "result.json")
    apart = {one["slug"]: (one["repetitions"], one["only_in_one"], one["largest_ns"]) for one in result["repeats"]}
    assert apart == {f"guests.vm1.bridge={kind},loads=none": (2, 0, 0) for kind in BRIDGES}, result["repeats"]
    assert all(one["packets"] > 2 * EACH_WAY + INSTANTS for one in result["repeats"])
    # The kernel's rings: of BPF programs, and of tracepoints.
    for cell in result["cells"]:
        assert [one["rx_soft"] for one in cell["stamps_by"] if one["agent"] == "listen on vm1"] == ["ebpf"]
        assert all(one["missing"] == [] for one in cell["stamps_by"])
        (flow,) = cell["flows"]
        assert min(flow["packets"].values()) > EACH_WAY
        told = cell["streams"]["late"]["trace"]
        assert told["whole"] > told["n"] / 2, told["missing"]
    for cell in cells_of(folder).values():
        (bridge,) = cell["bridges"]
        assert BRIDGES[bridge["kind"]] in bridge["detail"]
    for path in folder.glob("cells/*/*/facts-before.json"):
        facts = read(path)
        assert {host: facts[host]["memory"]["page_bytes"] for host in ("ecu", "vm1")} == {"ecu": 16384, "vm1": 4096}
        iommus = facts["board1"]["machine"]["iommus"]
        assert [iommu.startswith("smmu3.") for iommu in iommus or ()] == [True] * ("=vf" in str(path))
