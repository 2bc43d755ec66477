"""A lab next to which other programs run: `accompanied_lab.py COMMANDS latlab ARGUMENT…`.

Once the flows are watched, before the cell begins, a shell of each host does its command, one after the other.
COMMANDS: a JSON object, {host: command}. What a command leaves in the background goes on beside the lab.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from latlab.cli import main
from latlab.run import cell


def accompany(commands: Mapping[str, str]) -> None:
    """Nothing; from now on every cell's hosts do these commands before it begins."""
    start = cell._Cell._start

    async def accompanied(self: cell._Cell) -> None:
        for host, command in commands.items():
            await self._bed.hosts[host].run(("sh", "-ec", command))
        await start(self)

    cell._Cell._start = accompanied  # type: ignore[method-assign]


if __name__ == "__main__":
    accompany(json.loads(sys.argv[1]))
    sys.argv = sys.argv[2:]
    main()
