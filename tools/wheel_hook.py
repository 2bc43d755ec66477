"""What a wheel has besides the package: agents, manual pages, completion scripts, licences and the list of components.

tools/package.py lays them out in a folder and names it in LATLAB_STAGED. Without that, a wheel has the package alone.

    STAGED/package/…      beside the package's modules
    STAGED/share/…        in the environment's share, where man and shells look
    STAGED/dist-info/…    beside the wheel's metadata
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TAG = "py3-none-manylinux_2_17_aarch64.manylinux_2_17_x86_64.musllinux_1_1_aarch64.musllinux_1_1_x86_64"
"""Agents are static programs for Linux on either architecture, whatever its C library."""


class Staged(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the folder's files to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files to the builder, and the machines that the wheel is for."""
        folder = os.environ.get("LATLAB_STAGED")
        if not folder or version == "editable":
            return
        metadata = f"{self.metadata.core.raw_name}-{self.metadata.version}.dist-info"
        for path in sorted(Path(folder).rglob("*")):
            if path.is_dir():
                continue
            kind, _, rest = path.relative_to(folder).as_posix().partition("/")
            if kind == "share":
                build_data["shared_data"][str(path)] = f"share/{rest}"
            else:
                top = {"package": "latlab", "dist-info": metadata}[kind]
                build_data["force_include"][str(path)] = f"{top}/{rest}"
        build_data["tag"] = TAG
