"""Where the agent's binary is."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from latlab.errors import LabError

AGENT = "latlab-agent"


def find_agent() -> Path:
    """The agent's path: `$LATLAB_AGENT`, else beside this Python, else on the PATH; LabError without one."""
    named = os.environ.get("LATLAB_AGENT")
    beside = Path(sys.executable).parent / AGENT
    candidate = named or (beside if beside.exists() else shutil.which(AGENT))
    if candidate and os.access(candidate, os.X_OK) and Path(candidate).is_file():
        return Path(candidate).absolute()
    if named:
        raise LabError(f"LATLAB_AGENT names {named}, which is no program", remedy="correct it, or unset it")
    raise LabError(f"{AGENT} is neither beside {sys.executable} nor on the PATH", remedy="`make build`")
