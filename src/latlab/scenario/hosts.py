"""The kinds of hosts a scenario can name. A new kind is one model here and one name in `Host`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from latlab.scenario.findings import shown, wrong
from latlab.scenario.guests import ImageName, Memory, Ssh
from latlab.scenario.parts import End, Interface, Listed, Part, Reference


def _two_or_more(values: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(values)) != len(values) or len(values) < 2:
        raise wrong(f"a switch of {shown(list(values))}", "two interfaces or more, each once")
    return values


Switch = Annotated[
    Listed[Interface],
    AfterValidator(_two_or_more),
    Field(
        max_length=64,
        description=(
            "its ends of links that a kernel bridge connects for the run: it forwards frames between them, as an "
            "Ethernet switch does"
        ),
    ),
]


class HostBase(Part):
    """What a kind of host is, whatever its name."""

    is_here: ClassVar[bool] = False
    """This machine in its own network namespace, where there are others' devices and programs, too."""
    is_namespace: ClassVar[bool] = False
    """A network namespace of its machine, made for the run."""
    is_emulated: ClassVar[bool] = False
    """A machine that latlab makes for the run: a board."""
    is_reached: ClassVar[bool] = False
    """A machine that was there before the run, and is reached over ssh."""

    @property
    def is_machine(self) -> bool:
        """A machine other than this one, on which hosts of kind netns can be."""
        return self.is_emulated or self.is_reached


class LocalHost(HostBase):
    """This machine, in its own network namespace."""

    is_here: ClassVar[bool] = True

    kind: Literal["local"]
    switch: Switch = ()


class NetnsHost(HostBase):
    """A network namespace of a machine, made for the run and removed afterwards."""

    is_namespace: ClassVar[bool] = True

    kind: Literal["netns"]
    on: Reference | None = Field(
        default=None, description="the host of kind ssh or board that it is made on; this machine if not given"
    )
    cards: Listed[Interface] = Field(
        default=(),
        max_length=64,
        description="network cards of its board that it gets: ends of cables",
    )
    switch: Switch = ()


class SshHost(HostBase):
    """A machine that is reached over ssh, in its own network namespace."""

    is_reached: ClassVar[bool] = True

    kind: Literal["ssh"]
    ssh: Ssh = Field(default=Ssh(), description="how it is reached")
    recordings: Literal["stored", "streamed"] = Field(
        default="stored",
        description=(
            "stored: made there as files, and fetched; streamed: sent here as they are written, and never stored there"
        ),
    )
    switch: Switch = ()


class BoardHost(HostBase):
    """A machine that QEMU emulates, with its own kernel, in its own network namespace."""

    is_emulated: ClassVar[bool] = True

    kind: Literal["board"]
    image: ImageName | None = Field(
        default=None, description="an image of `latlab image build`; the ready-made one of its flavour if not given"
    )
    flavour: Literal["rt", "standard"] = Field(
        default="rt", description="its kernel: PREEMPT_RT or Debian's standard one; with an image, that image's"
    )
    arch: Literal["arm64"] | None = Field(
        default=None, description="its architecture, 64-bit ARM; that of this machine if not given"
    )
    cpus: int = Field(default=1, ge=1, le=16, description="its CPUs")
    memory: Memory = Field(default=2**30, description="whole MiB, such as 2GiB")
    time: Literal["real", "virtual"] = Field(
        default="real",
        description="real; virtual: its clock counts the instructions that its CPUs execute alternately",
    )
    nics: int = Field(
        default=0, ge=0, le=8, description="emulated network cards, which links use as existing interfaces"
    )
    append: str | None = Field(default=None, description="additions to the kernel's command line")
    switch: Switch = ()

    @property
    def image_name(self) -> str:
        """The image that it is started from."""
        return self.image or image_for(f"debian-{self.flavour}-board", self.arch)

    @property
    def cards(self) -> tuple[str, ...]:
        """The interfaces of its network cards."""
        return tuple(f"eth{number}" for number in range(self.nics))


def image_for(name: str, arch: str | None) -> str:
    """The image of latlab's own that takes the place of the one of that name on a board of that architecture."""
    return f"{name}-{arch}" if arch and name.startswith("debian-") and not name.endswith(f"-{arch}") else name


CPU_LISTS = ("isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity")
"""Parameters of a kernel's command line that list CPUs."""
_CPU_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def kernel_cpus(append: str | None, *parameters: str) -> Iterator[range]:
    """Yield the CPUs that these parameters of a kernel's command line list, range by range.

    Flags before them (`managed_irq`) and what is no plain range (`all`, `0-7:1/2`) are passed over. Source: Linux,
    Documentation/admin-guide/kernel-parameters.rst.
    """
    for word in (append or "").split():
        name, _, listed = word.partition("=")
        for part in listed.split(",") if name in parameters else ():
            if found := _CPU_RANGE.fullmatch(part):
                yield range(int(found[1]), int(found[2] or found[1]) + 1)


Host = Annotated[LocalHost | NetnsHost | SshHost | BoardHost, Field(discriminator="kind")]


def has_interface(host: Host, interface: str) -> bool:
    """True where the interface is there before links are made: of a namespace only what is moved into it."""
    return not isinstance(host, NetnsHost) or interface in host.cards


def switches_of(hosts: Mapping[str, Host]) -> dict[str, tuple[End, ...]]:
    """Each host that is a switch → its ports."""
    return {name: tuple(End(name, port) for port in host.switch) for name, host in hosts.items() if host.switch}


def whereabouts(name: str, host: Host) -> object:
    """What is the same of two hosts that are one machine by what the scenario says; None: this one, or another host's.

    Two ssh hosts are one machine if the same configuration, destination and port lead there, for any user.
    """
    if isinstance(host, SshHost):
        return host.ssh.config, (host.ssh.destination or name).rpartition("@")[2], host.ssh.port
    return name if isinstance(host, BoardHost) else None


def machines_of(hosts: Mapping[str, Host]) -> dict[str, str]:
    """Each ssh and board host → the first one that is the same machine, which stands for it."""
    first: dict[object, str] = {}
    places = {name: whereabouts(name, host) for name, host in hosts.items()}
    return {name: first.setdefault(place, name) for name, place in places.items() if place is not None}


def machine_of(hosts: Mapping[str, Host], machines: Mapping[str, str], name: str) -> str | None:
    """The ssh or board host that stands for the machine the host is on; None for this machine.

    machines: what machines_of says of the hosts. KeyError: there is no such host, or it is on none that is a machine.
    """
    host = hosts[name]
    place = host.on if isinstance(host, NetnsHost) else name
    return None if place is None or isinstance(host, LocalHost) else machines[place]
