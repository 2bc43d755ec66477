"""This machine, in its own network namespace."""

from __future__ import annotations

from pathlib import Path

from latlab.host.base import Host

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class LocalHost(Host):
    """The machine the lab itself runs on."""

    kind = "local"

    def prefix(self) -> tuple[str, ...]:
        """Nothing: a command runs here as it stands."""
        return ()

    def describe(self) -> dict[str, object]:
        """`{"kind": "local", "name": …}`."""
        return {"kind": self.kind, "name": self.name}

    @property
    def shared_kernel(self) -> str:
        """The boot id of this kernel."""
        return BOOT_ID.read_text().strip()
