"""The kernel modules that a scenario needs on a board, and those that the board's image does not have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from latlab.model.errors import LabError
from latlab.scenario import BoardHost, Scenario
from latlab.scenario.guests import facts_of
from latlab.testbed.guests.qemu import acceleration_here
from latlab.testbed.images import Image
from latlab.testbed.images.modules import COMPILER, OWN_MODULES
from latlab.testbed.machine import Machine

KVM = {"AuthenticAMD": "kvm_amd", "GenuineIntel": "kvm_intel"}


@dataclass(frozen=True)
class Need:
    """A module, where in the scenario it is asked for, and what asks for less."""

    module: str
    where: str
    remedy: str


def modules_lacking(scenario: Scenario, name: str, image: Image, machine: Machine, card: str) -> Iterator[LabError]:
    """Each module that the scenario needs on that board and the image does not have.

    machine: the one that the board runs on; card: the model of its network cards.
    """
    for need in _needs(scenario, name, machine, card):
        if feature := image.lacking.get(need.module):
            what = (
                f"the image {image.name} has no kernel module {need.module}, so it is without this feature: {feature}"
            )
            yield LabError(what, where=need.where, remedy=f"{_mended(need.module, image)}; or {need.remedy}")


def _needs(scenario: Scenario, name: str, machine: Machine, card: str) -> Iterator[Need]:
    board = scenario.hosts[name]
    assert isinstance(board, BoardHost)
    if board.nics:
        yield Need(card, f"hosts.{name}.nics", "links between namespaces instead")
    for number, link in enumerate(scenario.links):
        if link.vlans and name in {scenario.machine_of(end.host) for end in link.ends}:
            yield Need("8021q", f"links[{number}].vlans", "separate links instead of VLANs")
    for key, guest in scenario.guests.items():
        if scenario.machine_of(key) != name:
            continue
        for module in facts_of(guest).modules:
            yield Need(module, f"guests.{key}.bridge", "bridge: tap")
        if guest.vhost == "on":
            yield Need("vhost_net", f"guests.{key}.vhost", "vhost: auto")
        if guest.acceleration == "kvm":
            for module in _kvm(machine, board.arch):
                yield Need(module, f"guests.{key}.acceleration", "acceleration: auto")


def _kvm(machine: Machine, arch: str | None) -> tuple[str, ...]:
    """What it takes for KVM: the emulated CPU is of AMD's kind, and does not say that its clock is constant."""
    if arch:
        return ("kvm",)
    if acceleration_here(machine) == "tcg":
        return "kvm", "kvm_amd", *OWN_MODULES
    said = machine.read("/proc/cpuinfo") or ""
    return ("kvm", *(module for maker, module in KVM.items() if maker in said))


def _mended(module: str, image: Image) -> str:
    build = f"`{image.build_command()}`"
    if module in OWN_MODULES:
        return f"install {', '.join(COMPILER)} (`sudo apt install gcc make binutils`), then {build}"
    return f"refresh apt's package lists (`sudo apt-get update`): another kernel may have it; then {build}"
