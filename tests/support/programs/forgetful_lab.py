"""A lab that has forgotten a turn of each test bed that it keeps: `forgetful_lab.py latlab ARGUMENT…`."""

from __future__ import annotations

import sys
from itertools import pairwise

from latlab.cli import main
from latlab.hosts.turns import Turns
from latlab.run.beds import SharedBed
from latlab.testbed.site import Site


def forget() -> None:
    """Nothing; from now on a turn in the middle of what is kept is missing."""
    keep = SharedBed.keep

    async def forgotten(self: SharedBed, turns: Turns, site: Site) -> None:
        await keep(self, turns, site)
        # One in which the machine was told something: of another the lab cannot know. Output would be short.
        pairs = enumerate(pairwise(self.turns))
        told = [number for number, (one, after) in pairs if one.heard not in (b"", after.heard)]
        middle = told[len(told) // 2]
        self.turns = (*self.turns[:middle], *self.turns[middle + 1 :])

    SharedBed.keep = forgotten  # type: ignore[method-assign]


if __name__ == "__main__":
    forget()
    sys.argv = sys.argv[1:]
    main()
