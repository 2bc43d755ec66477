"""A network namespace of a machine: its own interfaces, the machine's everything else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from latlab.hosts.base import Completed, Description, Host
from latlab.hosts.local import LocalMachine
from latlab.model.errors import UnreachedError

MACHINE = "this machine"
"""The name of the machine the lab runs on. No host of a scenario can be called so: it has a space."""


class NamespaceHost(Host):
    """A named network namespace (`ip netns`) of a machine: this one, or another host of the scenario."""

    kind = "netns"

    def __init__(self, name: str, namespace: str, machine: Host | None = None) -> None:
        super().__init__(name)
        self.namespace = namespace
        self._machine = machine or LocalMachine(MACHINE)
        self.agent = self._machine.agent
        self.files_are_here = self._machine.files_are_here
        self.scratch = self._machine.scratch
        self.streams = self._machine.streams
        self.fleeting = self._machine.fleeting
        self.patience = self._machine.patience

    def inside(self, argv: Sequence[str]) -> tuple[str, ...]:
        """`ip netns exec NAMESPACE …`, which replaces itself with the command: the pid is the command's own."""
        return ("ip", "netns", "exec", self.namespace, *argv)

    def command(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The machine's own command, in the namespace."""
        return self._machine.command(self.inside(argv))

    def by_hand(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The machine's own, in the namespace."""
        return self._machine.by_hand(self.inside(argv))

    def lasting(self, argv: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
        """The machine's own, in the namespace."""
        return self._machine.lasting(self.inside(argv), env)

    def passing(self, argv: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
        """The machine's own, in the namespace."""
        return self._machine.passing(self.inside(argv), env)

    def unreached(self, completed: Completed) -> UnreachedError | None:
        """As the machine reports it."""
        return self._machine.unreached(completed)

    async def is_gone(self) -> bool:
        """Whether the namespace's name is there no more; UnreachedError: its machine was not reached."""
        found = await self._machine.run(("test", "-e", f"/run/netns/{self.namespace}"), check=False)
        return found.returncode != 0

    @property
    def ways(self) -> Sequence[Host]:
        """The machine's own."""
        return self._machine.ways

    def describe(self) -> Description:
        """`{"kind": "netns", "name": …, "namespace": …}`, and the machine where it is another than this one."""
        own: Description = {"kind": self.kind, "name": self.name, "namespace": self.namespace}
        return own if isinstance(self._machine, LocalMachine) else own | {"machine": self._machine.describe()}

    @property
    def shared_kernel(self) -> str:
        """The machine's kernel."""
        return self._machine.shared_kernel

    @property
    def machine(self) -> Host:
        """The machine itself."""
        return self._machine
