"""The agent as it is copied into a guest: without what is there for debuggers only.

python -m latlab.testbed.agent_copy AGENT    writes it, compressed, to standard output
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

from latlab.testbed.images.tree import without_symbols


def agent_copy(path: Path) -> bytes:
    """The program's bytes. OSError: it cannot be read."""
    return without_symbols(path.read_bytes())


if __name__ == "__main__":
    sys.stdout.buffer.write(gzip.compress(agent_copy(Path(sys.argv[1])), compresslevel=6))
