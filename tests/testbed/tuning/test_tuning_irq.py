"""An interface's interrupts on their CPUs: found, moved, restored; those that cannot be moved are reported."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from latlab.testbed.site import Site
from latlab.testbed.tuning.interrupts import affinity, former_affinities, irq_steps
from support.testbed.tuning import Outcome, applied, cover, tuned

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("machine")]

IGB = {120: "lat0", 121: "lat0-TxRx-0", 122: "lat0-TxRx-1", 123: ""}
"""One for the link, one a pair of queues, one that the driver does not use."""

VIRTIO = {26: "virtio1-config", 27: "virtio1-input.0", 28: "virtio1-output.0", 29: "virtio1-input.1"}
ELSEWHERE = {40: "virtio10-input.0", 41: "veth-lat0s", 42: "nvme0q1"}


class Nic:
    """Interrupts of this test's own machine; every one may go to CPUs 0-3 at first."""

    def __init__(self, folder: Path, irqs: dict[int, str], bus: str, device: str, msi: str | None) -> None:
        self._folder = folder
        every = irqs | ELSEWHERE
        cover("/proc/irq", {f"{n}/smp_affinity_list": "0-3\n" for n in every}, folder / "irq")
        names = {f"{n}/actions": f"{name}\n" if name else "" for n, name in every.items()}
        cover("/sys/kernel/irq", names, folder / "kernel")
        at = folder / "devices" / device
        at.mkdir(parents=True)
        (at / "subsystem").symlink_to(f"../../bus/{bus}")
        if msi:
            for n in irqs:
                path = at / msi / str(n)
                path.parent.mkdir(exist_ok=True)
                path.touch()
        cover("/sys/class/net", {"lat0/address": "", "veth0/address": ""}, folder / "net")
        (folder / "net" / "lat0" / "device").symlink_to(at)

    def where(self) -> dict[int, str]:
        """The CPUs of each interrupt that is not where it was at first."""
        folders = (self._folder / "irq").iterdir()
        found = {int(path.name): (path / "smp_affinity_list").read_text().strip() for path in folders}
        return {n: cpus for n, cpus in sorted(found.items()) if cpus != "0-3"}

    def pin(self, n: int) -> None:
        """Nothing; the interrupt cannot be moved from now on."""
        path = self._folder / "irq" / str(n) / "smp_affinity_list"
        subprocess.run(["mount", "--bind", path, f"/proc/irq/{n}/smp_affinity_list"], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", f"/proc/irq/{n}/smp_affinity_list"], check=True)


def igb(folder: Path) -> Nic:
    return Nic(folder, IGB, "pci", "0000:01:00.0", "msi_irqs")


def moved(nic: Nic, **wanted: object) -> tuple[Outcome, dict[int, str]]:
    """What became of the steps, and where the interrupts were meanwhile."""
    seen: dict[int, str] = {}
    steps = irq_steps("ecu", tuned(irq={"lat0": wanted}), Site("0a9f"))
    return applied(steps, lambda: seen.update(nic.where())), seen


def test_all_interrupts_of_the_interface_are_moved_and_put_back(tmp_path: Path) -> None:
    nic = igb(tmp_path)
    outcome, seen = moved(nic, cpus=[2, 3])
    assert outcome.findings == {}
    assert seen == {120: "2-3", 121: "2-3", 122: "2-3"}
    assert nic.where() == {}


def test_each_is_put_back_to_where_it_was_itself(tmp_path: Path) -> None:
    nic = igb(tmp_path)
    (tmp_path / "irq" / "121" / "smp_affinity_list").write_text("1\n")
    moved(nic, cpus=[2])
    assert nic.where() == {121: "1"}


def test_a_queue_has_cpus_of_its_own(tmp_path: Path) -> None:
    outcome, seen = moved(igb(tmp_path), cpus=[0], queues={1: [3]})
    assert list(outcome.first) == [
        "lat0's other interrupts on CPU 0",
        "lat0's interrupt of receive queue 1 on CPU 3",
    ]
    assert outcome.findings == {}
    assert seen == {120: "0", 121: "0", 122: "3"}


def test_a_virtio_device_has_those_of_the_pci_device_it_is_part_of(tmp_path: Path) -> None:
    nic = Nic(tmp_path, VIRTIO, "virtio", "0000:00:02.0/virtio1", "../msi_irqs")
    outcome, seen = moved(nic, cpus=[0], queues={0: [1], 1: [2]})
    assert outcome.findings == {}
    assert seen == {26: "0", 27: "1", 28: "0", 29: "2"}


def test_above_another_device_is_a_bridge_whose_interrupts_are_left_alone(tmp_path: Path) -> None:
    nic = Nic(tmp_path, {30: "aerdrv"}, "pci", "0000:00:1c.0/0000:01:00.0", "../msi_irqs")
    outcome, seen = moved(nic, cpus=[0])
    assert seen == {}
    assert outcome.findings == {"lat0's interrupts on CPU 0": "ended with status 1: lat0 has no interrupts"}


@pytest.mark.parametrize("name", ["lat0", "lat0:rx-0", "30be0000.ethernet", "stmmac,lat0"])
def test_without_msi_they_are_found_by_the_name_of_interface_or_device(tmp_path: Path, name: str) -> None:
    _, seen = moved(Nic(tmp_path, {50: name}, "platform", "30be0000.ethernet", None), cpus=[0])
    assert seen == {50: "0"}


@pytest.mark.parametrize(
    "name",
    [
        "lat0-rx-1",
        "lat0-TxRx-1",
        "i40e-lat0-TxRx-1",
        "lat0-rxtx1",
        "lat0:rx-1",
        "virtio3-input.1",
        "mlx5_comp1@pci:0000",
    ],
)
def test_drivers_tell_a_receive_queue_in_many_ways(tmp_path: Path, name: str) -> None:
    names = {60: "lat0", 61: name, 62: "lat0-tx-1", 63: "lat0-rx-11", 64: "lat0-rx-10"}
    outcome, seen = moved(Nic(tmp_path, names, "pci", "0000:01:00.0", "msi_irqs"), queues={1: [2]})
    assert outcome.findings == {}
    assert seen == {61: "2"}


def test_a_queue_that_no_name_tells_is_a_finding_with_the_names(tmp_path: Path) -> None:
    outcome, seen = moved(igb(tmp_path), queues={7: [1]})
    assert seen == {}
    (why,) = outcome.findings.values()
    assert why == "ended with status 1: no such queue among lat0 lat0-TxRx-0 lat0-TxRx-1"


def test_an_interface_without_a_device_has_none_though_another_has_its_name(tmp_path: Path) -> None:
    nic = igb(tmp_path)
    (tmp_path / "net" / "lat0" / "device").unlink()
    outcome, seen = moved(nic, cpus=[0])
    assert seen == {}
    assert outcome.findings == {"lat0's interrupts on CPU 0": "ended with status 1: lat0 has no interrupts"}


def test_one_that_the_kernel_does_not_let_go_is_reported_and_the_others_are_moved(tmp_path: Path) -> None:
    nic = igb(tmp_path)
    nic.pin(121)
    outcome, seen = moved(nic, cpus=[2])
    assert seen == {120: "2", 122: "2"}
    (why,) = outcome.findings.values()
    assert why
    assert "Read-only" in why
    assert "the kernel does not let these be moved: 121" in why
    assert [result.actual for result in outcome.first.values()] == ["120: 2, 121: 0-3, 122: 2"]
    assert nic.where() == {}


def test_an_interrupt_that_was_moved_again_is_found_at_the_end(tmp_path: Path) -> None:
    igb(tmp_path)
    steps = irq_steps("ecu", tuned(irq={"lat0": {"cpus": [2]}}), Site("0a9f"))
    outcome = applied(steps, lambda: Path("/proc/irq/122/smp_affinity_list").write_text("1\n"))
    assert outcome.changed == {"lat0's interrupts on CPU 2": "120: 2, 121: 2, 122: 1"}


def test_a_veth_has_no_interrupts() -> None:
    subprocess.run(["ip", "link", "add", "lat0", "type", "veth", "peer", "name", "other"], check=True)
    outcome = applied(irq_steps("ecu", tuned(irq={"lat0": {"cpus": [0]}}), Site("0a9f")))
    assert outcome.findings == {"lat0's interrupts on CPU 0": "ended with status 1: lat0 has no interrupts"}


def test_what_is_read_is_reported_as_the_kernel_writes_it() -> None:
    assert affinity("38=0,1\n39=0-1\n") == "0-1"
    assert affinity("38=0-1\n39=2\n") == "38: 0-1, 39: 2"
    assert former_affinities("38=0-1\n39=2\n") == {"pairs": "38=0-1 39=2"}
