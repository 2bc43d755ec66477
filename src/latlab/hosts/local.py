"""This machine, in its own network namespace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from latlab.hosts.base import Description, Host

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class LocalMachine(Host):
    """The machine the lab itself runs on."""

    kind = "local"

    def command(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The command as it stands."""
        return tuple(argv)

    def describe(self) -> Description:
        """`{"kind": "local", "name": …}`."""
        return {"kind": self.kind, "name": self.name}

    @property
    def shared_kernel(self) -> str:
        """The boot id of this kernel."""
        return BOOT_ID.read_text(encoding="utf-8").strip()
