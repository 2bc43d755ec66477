"""A network namespace of this machine: its own interfaces, the machine's everything else."""

from __future__ import annotations

from latlab.host.base import Host
from latlab.host.local import LocalHost

MACHINE = "this machine"
"""The name of the machine under the namespaces. No host of a scenario can be called so: it has a space."""


class NetnsHost(Host):
    """A named network namespace (`ip netns`) of the machine the lab runs on."""

    kind = "netns"

    def __init__(self, name: str, namespace: str) -> None:
        super().__init__(name)
        self.namespace = namespace
        self._machine = LocalHost(MACHINE)

    def prefix(self) -> tuple[str, ...]:
        """`ip netns exec NAMESPACE`, which replaces itself with the command: the pid is the command's own."""
        return ("ip", "netns", "exec", self.namespace)

    def describe(self) -> dict[str, object]:
        """`{"kind": "netns", "name": …, "namespace": …}`."""
        return {"kind": self.kind, "name": self.name, "namespace": self.namespace}

    @property
    def shared_kernel(self) -> str:
        """The boot id of the machine's kernel."""
        return self._machine.shared_kernel

    @property
    def machine(self) -> Host:
        """The machine itself."""
        return self._machine
