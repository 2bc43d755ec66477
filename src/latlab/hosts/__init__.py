"""Where commands run. A new kind of host is one file here and one line in KINDS."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from latlab.hosts.base import Completed, Host, Process, signal_group
from latlab.hosts.guest import GuestHost
from latlab.hosts.local import LocalHost
from latlab.hosts.netns import MACHINE, NetnsHost
from latlab.hosts.ssh import SshHost
from latlab.hosts.turns import Lost
from latlab.hosts.virtual_time import TurnsHost
from latlab.model.errors import LabError

KINDS: dict[str, Callable[..., Host]] = {
    LocalHost.kind: LocalHost,
    NetnsHost.kind: NetnsHost,
    GuestHost.kind: GuestHost,
    SshHost.kind: SshHost,
    TurnsHost.kind: TurnsHost,
}

__all__ = [
    "KINDS",
    "MACHINE",
    "Completed",
    "GuestHost",
    "Host",
    "LocalHost",
    "Lost",
    "NetnsHost",
    "Process",
    "SshHost",
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
