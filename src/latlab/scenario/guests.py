"""A guest: a virtual machine on one of the hosts, and the virtual bridge that joins it to the outside."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from latlab.model.bridges import KINDS, BridgeKind, BridgeName
from latlab.scenario.findings import shown, wrong
from latlab.scenario.parts import Interface, Part, Reference
from latlab.scenario.units import SIZE, Size, format_size, within

BRIDGES = tuple(KINDS)
"""The virtual bridges, plainest first."""

DEFAULT_IMAGE = "debian-cloud"
_MIB = 2**20
_MEMORY_MIN = 128 * _MIB
_IMAGE = "^[a-z0-9][a-z0-9-]{0,62}$"
_PCI = r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$"
_DESTINATION = r"^[^-\s][^\s]*$"
_USER = r"^[^-@\s][^@\s]*$"

IN_WORDS = {
    _IMAGE: ("name of an image", "at most 63 of a–z, 0–9 and -, not beginning with -"),
    _PCI: ("PCI address", "one such as 0000:3b:00.0"),
    _DESTINATION: ("destination", "host or user@host, not beginning with -"),
    _USER: ("user", "a name without white space and @, not beginning with -"),
}
"""The patterns as error messages put them: what the text is to be, and of what form."""


def _one_path(text: str) -> str:
    if not text or "\0" in text:
        raise wrong(f"{shown(text)} is not a path", "the path of a file")
    return text


def _whole_mib(size: int) -> int:
    if size % _MIB:
        raise wrong(f"{format_size(size)} is not a whole number of MiB", f"such as {format_size(size // _MIB * _MIB)}")
    return size


FilePath = Annotated[str, AfterValidator(_one_path)]
ImageName = Annotated[str, Field(pattern=_IMAGE)]
Memory = Annotated[Size, within(SIZE, _MEMORY_MIN), AfterValidator(_whole_mib)]
"""int bytes, a multiple of 2^20: what QEMU's -m takes."""


class Ssh(Part):
    """How a machine is reached, a host of kind ssh or a guest that is not ours.

    Keys and host keys are those of the user's ssh configuration.
    """

    destination: str | None = Field(
        default=None,
        min_length=1,
        pattern=_DESTINATION,
        description="host or user@host, as ssh takes it; of a host of kind ssh its name if not given; of a guest only "
        "of a domain: the others have the scenario's addresses",
    )
    user: str | None = Field(default=None, pattern=_USER, description="the user there; root if not given")
    port: int = Field(default=22, ge=1, le=65535, description="the port its sshd listens on")
    config: FilePath | None = Field(default=None, description="an ssh configuration file instead of the user's")


class Function(Part):
    """A virtual function (SR-IOV) of the uplink's card, and how the guest gets it."""

    by: Literal["vfio", "macvtap"] = Field(
        default="vfio",
        description=(
            "vfio: the guest's own driver uses it; macvtap: the host's driver uses it, and a macvtap in mode passthru "
            "on it is the guest's card"
        ),
    )
    trust: bool = Field(
        default=False, description="whether the guest may receive what is sent to others, or change its MAC address"
    )
    spoofchk: bool = Field(
        default=True,
        description="whether the card drops packets that the guest sends with a MAC address other than its own",
    )


class Guest(Part):
    """A virtual machine, started for each cell and ended after it, unless it is a libvirt domain that runs already."""

    host: Reference = Field(description="the host it runs on")
    image: ImageName | None = Field(
        default=None,
        description=f"an image of `latlab image build`; {DEFAULT_IMAGE} if no kernel, disk or domain is given",
    )
    kernel: FilePath | None = Field(default=None, description="your own kernel, with initrd and append")
    initrd: FilePath | None = Field(default=None, description="the initial file system of your own kernel")
    append: str | None = Field(default=None, description="command line of the kernel; of an image: additions to it")
    disk: FilePath | None = Field(default=None, description="your own disk image; it is not written to")
    domain: str | None = Field(default=None, min_length=1, description="a libvirt domain, by name")
    ssh: Ssh | None = Field(default=None, description="how your own guest is reached")
    vcpus: int = Field(default=1, ge=1, le=512, description="virtual CPUs")
    memory: Memory = Field(default=256 * _MIB, description="whole MiB, such as 512MiB")
    bridge: BridgeName = Field(default="tap", description="the virtual bridge that joins it to the uplink")
    uplink: Interface | None = Field(
        default=None, description="the host's interface it is joined to; none: only to the host and its other guests"
    )
    interface: Interface = Field(default="eth0", description="the interface in the guest")
    device: Annotated[str, Field(pattern=_PCI)] | None = Field(
        default=None,
        description="PCI address of the network card to pass through; the uplink's if not given; used with bridge vfio",
    )
    vf: Function = Field(
        default_factory=Function, description="its virtual function of the uplink's card; used with bridge vf"
    )
    vhost: Literal["auto", "on", "off"] = Field(
        default="auto", description="vhost-net: auto uses it where the host has it"
    )
    acceleration: Literal["auto", "kvm", "tcg"] = Field(
        default="auto", description="kvm, or tcg for software emulation; auto: kvm where it works"
    )
    queues: int = Field(default=1, ge=1, le=16, description="pairs of receive and transmit queues of its network card")
    snapshot: bool = Field(
        default=True, description="start it from a snapshot taken after its first boot; images of latlab only"
    )
    runs: Literal["always", "used"] = Field(
        default="always",
        description="always; or used: only in cells that have a stream, a probe or a load at it",
    )

    @property
    def is_ours(self) -> bool:
        """True for a guest made from an image of `latlab image build`."""
        return not (self.kernel or self.disk or self.domain)

    @property
    def image_name(self) -> str:
        """The image's name, of a guest of ours."""
        return self.image or DEFAULT_IMAGE


def facts_of(guest: Guest) -> BridgeKind:
    """The facts of its bridge, as that is made for this guest."""
    kind = KINDS[guest.bridge]
    return kind.forms[guest.vf.by] if kind.forms else kind


def becomes_the_guests(guest: Guest) -> bool:
    """Whether the uplink's card itself becomes the guest's."""
    return KINDS[guest.bridge].hands_over_card and not guest.device


def takes_all(guest: Guest) -> str:
    """Why its bridge leaves nothing of what comes in at its uplink to others; empty: it does leave it.

    A guest of VFIO that names a device by its address takes that one, and not its uplink's.
    """
    kind = KINDS[guest.bridge]
    return "" if kind.hands_over_card and guest.device else kind.leaves_nothing
