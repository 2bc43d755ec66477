"""A guest made from one of latlab's images: commands run in it through its virtio-serial ports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from latlab.hosts.base import Completed, Description, Host
from latlab.hosts.local import LocalMachine
from latlab.hosts.turns import LostMachine
from latlab.model.errors import UnreachedError

GUEST_AGENT = "/usr/bin/latlab-agent"
ANSWER_S = 15
"""A board that has answered before answers within this time, on however busy a machine."""
EMULATED = 4.0
"""A guest may be emulated, by CPUs that others use, too: by how much longer it is waited for."""
NO_ANSWER = "does not answer within"
"""What a relay says of a guest from which nothing comes."""


class GuestHost(Host):
    """A guest whose first process is our agent; directory holds its ports (docs/reference/agent.md, The guest's ports).

    relay is the agent on the machine the guest runs on. A command there is a relay here: whoever ends the relay ends
    the command in the guest.
    """

    kind = "guest"
    agent = GUEST_AGENT
    files_are_here = False
    fleeting = True

    def __init__(self, name: str, directory: str, relay: str, machine: Host | None = None) -> None:
        super().__init__(name)
        self.directory = directory
        self.relay = relay
        self._machine = machine or LocalMachine(f"{name}'s host")
        self.patience = max(self._machine.patience, EMULATED)

    def command(self, argv: Sequence[str]) -> tuple[str, ...]:
        """`latlab-agent in DIRECTORY …`, on the machine the guest runs on."""
        return self._machine.command(self._inside(argv))

    def by_hand(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The same, as one would type it there."""
        return self._machine.by_hand(self._inside(argv))

    def lasting(self, argv: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
        """The same, as the machine has it; the guest's own processes need no marks, as they die with the guest."""
        return self._machine.lasting(self._inside(argv), env)

    def describe(self) -> Description:
        """`{"kind": "guest", "name": …, "directory": …, "relay": …}`; and `machine` where that is not this one."""
        own: Description = {"kind": self.kind, "name": self.name}
        own |= {"directory": self.directory, "relay": self.relay}
        return own if isinstance(self._machine, LocalMachine) else own | {"machine": self._machine.describe()}

    @property
    def shared_kernel(self) -> str:
        """The guest's own, not shared."""
        return f"guest {self.directory}"

    @property
    def machine(self) -> Host:
        """The machine on which the relay runs: ending that ends the command."""
        return self._machine

    def unreached(self, completed: Completed) -> UnreachedError | None:
        """As the machine reports it."""
        return self._machine.unreached(completed)

    @property
    def ways(self) -> Sequence[Host]:
        """The machine's own."""
        return self._machine.ways

    def _inside(self, argv: Sequence[str]) -> tuple[str, ...]:
        return (self.relay, "in", self.directory, *argv)


class BoardGuest(GuestHost):
    """A guest that is a whole board: hosts are on it, and all of them are lost with it."""

    async def silence(self) -> LostMachine | None:
        """Why it is lost, if it is: it is asked for the least that there is."""
        asked = (self.relay, "in", "--patience", str(ANSWER_S), self.directory, "true")
        done = await self._machine.run(asked, check=False, timeout_s=3 * ANSWER_S)
        return (
            LostMachine(f"it has not answered for {ANSWER_S} s: its kernel hangs") if NO_ANSWER in done.stderr else None
        )
