"""A guest made from one of latlab's images: commands run in it through its virtio-serial ports."""

from __future__ import annotations

from latlab.host.base import Host
from latlab.host.local import LocalHost

GUEST_AGENT = "/usr/bin/latlab-agent"


class GuestHost(Host):
    """A guest whose first process is our agent; directory holds its ports (docs/formats.md, The guest's ports).

    relay is the agent on the machine the guest runs on. A command there is a relay here: whoever ends the relay ends
    the command in the guest.
    """

    kind = "guest"
    agent = GUEST_AGENT
    files_are_here = False

    def __init__(self, name: str, directory: str, relay: str) -> None:
        super().__init__(name)
        self.directory = directory
        self.relay = relay
        self._machine = LocalHost(f"{name}'s host")

    def prefix(self) -> tuple[str, ...]:
        """`latlab-agent in DIRECTORY`."""
        return (self.relay, "in", self.directory)

    def describe(self) -> dict[str, object]:
        """`{"kind": "guest", "name": …, "directory": …, "relay": …}`."""
        return {"kind": self.kind, "name": self.name, "directory": self.directory, "relay": self.relay}

    @property
    def shared_kernel(self) -> str:
        """The guest's own: nobody else's."""
        return f"guest {self.directory}"

    @property
    def machine(self) -> Host:
        """The machine on which the relay runs: ending that ends the command."""
        return self._machine
