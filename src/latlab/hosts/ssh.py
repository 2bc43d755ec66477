"""A machine reached over ssh, with the user's own ssh client: keys, host keys, jumps and agents as configured there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from latlab.hosts.base import STDERR_LINES, Completed, Description, Host
from latlab.hosts.local import LocalMachine
from latlab.model.errors import UnreachedError

SSH_FAILED = 255
"""ssh's own exit status when it fails (ssh(1), Exit status); a command there may end with it as well."""

UNASKED = "BatchMode=yes"
"""No prompts."""
OPTIONS = (UNASKED, "ConnectTimeout=5", "ServerAliveInterval=5", "ServerAliveCountMax=3")
"""And a machine that does not answer for 15 s counts as unreachable."""

FAULTS = (
    ("Permission denied|Too many authentication failures", "add your public key to its authorized_keys"),
    ("Host key verification failed|HOST IDENTIFICATION HAS CHANGED", "add its host key to your known_hosts"),
    ("Could not resolve hostname|hostname contains invalid", "correct the name, or add it to your ssh configuration"),
    ("Bad owner or permissions|Bad configuration option|Can't open user config file", "correct the ssh configuration"),
    ("Connection (refused|timed out)|No route to host|Network is unreachable", "check that its sshd runs"),
    ("Connection .*(closed|reset|lost|aborted)|Broken pipe|not responding|mux_client", "check that it still runs"),
)
"""What ssh says when it fails itself, and what to do then."""


class RemoteHost(Host):
    """A machine at `destination` (host or user@host). No password is ever asked for: what needs one fails.

    agent: the path of latlab-agent there. scratch: the folder there for recordings. options: further arguments of ssh.
    through: what is put before ssh, such as `ip netns exec NAMESPACE`. control: the socket of a connection that is kept
    open by `keep_open`; while there is none, each command makes a separate connection. relay: this machine's agent,
    which runs lasting processes there; without one ssh itself does. outlives: it is there after the run, with what a
    run that was killed has left. streams: no recording is stored there.
    """

    kind = "ssh"
    files_are_here = False

    def __init__(
        self,
        name: str,
        destination: str,
        port: int = 22,
        config: str | None = None,
        agent: str = "",
        options: Sequence[str] = (),
        through: Sequence[str] = (),
        control: str | None = None,
        scratch: str = "/tmp",
        relay: str = "",
        outlives: bool = False,
        streams: bool = False,
    ) -> None:
        super().__init__(name)
        self.destination = destination
        self.port = port
        self.config = config
        self.agent = agent
        self.options = tuple(options)
        self.through = tuple(through)
        self.control = control
        self.scratch = scratch
        self.relay = relay
        self.outlives = outlives
        self.streams = streams
        self._machine = LocalMachine(f"the connection to {name}")

    def prefix(self) -> tuple[str, ...]:
        """`ssh -T -o BatchMode=yes … DESTINATION --`."""
        # The user's own ControlMaster would leave a connection behind.
        shared = ("-o", "ControlMaster=no", "-S", self.control or "none")
        return (*self.through, "ssh", "-T", *self._arguments(*OPTIONS), *shared, self.destination, "--")

    def keep_open(self) -> tuple[str, ...]:
        """The command that keeps the connection at `control` open until it is ended; `through` is not put before it."""
        master = ("-o", "ControlMaster=yes", "-o", "ControlPersist=no", "-S", self.control or "none")
        return ("ssh", "-N", *self._arguments(*OPTIONS), *master, self.destination)

    def command(self, argv: Sequence[str]) -> tuple[str, ...]:
        """ssh joins its arguments with spaces and gives them to a shell there: they are quoted once for it."""
        return (*self.prefix(), shlex.join(argv))

    def by_hand(self, argv: Sequence[str]) -> tuple[str, ...]:
        """`ssh -T -o BatchMode=yes -p PORT DESTINATION -- …`: what it takes to reach the machine."""
        return (*self.through, "ssh", "-T", *self._arguments(UNASKED), self.destination, "--", shlex.join(argv))

    def lasting(self, argv: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
        """`latlab-agent over --by "ssh … latlab-agent serve -" …`; ssh itself passes no signals on."""
        if not self.relay:
            return self.command(argv)
        by = shlex.join(self.command((self.agent or "latlab-agent", "serve", "-")))
        return (self.relay, "over", "--by", by, *_with_environment(argv, env))

    def passing(self, argv: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
        """The environment of this machine is not inherited there."""
        return self.command(_with_environment(argv, env))

    def unreached(self, completed: Completed) -> UnreachedError | None:
        """ssh's own failure, by its own words."""
        if completed.returncode != SSH_FAILED:
            return None
        for pattern, remedy in FAULTS:
            if re.search(pattern, completed.stderr):
                lines = [line.strip() for line in completed.stderr.splitlines() if line.strip()]
                what = f"ssh to {self.destination} failed: {'; '.join(lines[-STDERR_LINES:])}"
                remedy = f"{remedy}; `{self.short_line(('true',))}` must work"
                return UnreachedError(what, where=self.name, remedy=remedy)
        return None

    def describe(self) -> Description:
        """`{"kind": "ssh", "name": …, "destination": …, "port": …, …}`: its fields."""
        return {
            "kind": self.kind,
            "name": self.name,
            "destination": self.destination,
            "port": self.port,
            "config": self.config,
            "agent": self.agent,
            "options": list(self.options),
            "through": list(self.through),
            "control": self.control,
            "scratch": self.scratch,
            "relay": self.relay,
            "outlives": self.outlives,
            "streams": self.streams,
        }

    @property
    def shared_kernel(self) -> str:
        """Another machine's: not shared with any host here."""
        return f"ssh {self.destination}:{self.port}"

    @property
    def machine(self) -> Host:
        """This machine, on which the ssh client runs: with it ends what it started there."""
        return self._machine

    @property
    def ways(self) -> Sequence[Host]:
        """This machine, and the one it leads to where that outlives the run."""
        return (self._machine, self) if self.outlives else (self._machine,)

    def _arguments(self, *options: str) -> tuple[str, ...]:
        config = ("-F", self.config) if self.config else ()
        words = (word for option in options for word in ("-o", option))
        return (*config, *words, "-p", str(self.port), *self.options)


def _with_environment(argv: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """`env NAME=VALUE … ARGV`."""
    return ("env", *(f"{name}={value}" for name, value in env.items()), *argv) if env else tuple(argv)
