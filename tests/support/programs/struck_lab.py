"""A lab whose board is disturbed: `struck_lab.py COMMAND latlab ARGUMENT…` has COMMAND done on board1 by a shell while
the first cell is measured, and waits for what does not come for seconds where a lab waits for minutes."""

from __future__ import annotations

import sys

from latlab.cli import main
from latlab.hosts import guest, turns
from latlab.run import cell

IN_VAIN_S = 5


def strike(command: str) -> None:
    """Nothing; from now on the first cell's board is hit by the command as soon as its streams have begun."""
    watch = cell._Cell._watch

    async def struck(self: cell._Cell) -> None:
        if self._outcome.order == 1:
            await self._bed.hosts["board1"].spawn(("sh", "-c", command))
        await watch(self)

    cell._Cell._watch = struck  # type: ignore[method-assign]
    cell.SPARE_S = float(IN_VAIN_S)
    guest.ANSWER_S = IN_VAIN_S
    turns.TURN_S = 4.0 * IN_VAIN_S


if __name__ == "__main__":
    strike(sys.argv[1])
    sys.argv = sys.argv[2:]
    main()
