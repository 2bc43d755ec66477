"""Where commands run. A new kind of host is one file here and one line in KINDS."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from latlab.hosts.base import Completed, Host, Process, signal_group
from latlab.hosts.guest import GuestHost
from latlab.hosts.local import LocalMachine
from latlab.hosts.netns import MACHINE, NamespaceHost
from latlab.hosts.ssh import RemoteHost
from latlab.hosts.turns import LostMachine
from latlab.hosts.virtual_time import TurnsHost
from latlab.model.errors import LabError

KINDS: dict[str, Callable[..., Host]] = {
    LocalMachine.kind: LocalMachine,
    NamespaceHost.kind: NamespaceHost,
    GuestHost.kind: GuestHost,
    RemoteHost.kind: RemoteHost,
    TurnsHost.kind: TurnsHost,
}

__all__ = [
    "KINDS",
    "MACHINE",
    "Completed",
    "GuestHost",
    "Host",
    "LocalMachine",
    "LostMachine",
    "NamespaceHost",
    "Process",
    "RemoteHost",
    "TurnsHost",
    "host_from",
    "signal_group",
]


def host_from(description: Mapping[str, object]) -> Host:
    """The host that `Host.describe` described; LabError for a kind or a field this version does not know."""
    fields = dict(description)
    if isinstance(machine := fields.get("machine"), Mapping):
        fields["machine"] = host_from(machine)
    make = KINDS.get(str(fields.pop("kind", None)))
    try:
        if make is not None:
            return make(**fields)
    except (AttributeError, TypeError, ValueError):
        pass
    raise LabError(
        f"{dict(description)} is not a host that this version of latlab knows",
        remedy=f"known kinds: {', '.join(KINDS)}",
    )
