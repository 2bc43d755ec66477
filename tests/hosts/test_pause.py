"""A pause is time of the host's: one in virtual time has to run for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, cast

from latlab.hosts import LocalMachine, NamespaceHost
from latlab.hosts.base import Completed
from latlab.hosts.turns import Turns


class InTurns(LocalMachine):
    """A machine in virtual time, which notes what is run on it."""

    def __init__(self) -> None:
        super().__init__("board1")
        self.ran: list[tuple[str, ...]] = []

    @property
    def turns(self) -> Turns:
        return cast(Turns, object())

    async def run(self, argv: Sequence[str], **_: Any) -> Completed:
        self.ran.append(tuple(argv))
        return Completed(tuple(argv), 0, "", "")


def test_here_the_time_goes_by_by_itself() -> None:
    began = time.monotonic()
    asyncio.run(LocalMachine("here").pause(0.05))
    assert time.monotonic() - began >= 0.05


def test_a_machine_in_virtual_time_sleeps_itself_for_all_that_is_on_it() -> None:
    board = InTurns()
    asyncio.run(board.pause(0.2))
    asyncio.run(NamespaceHost("ecu", "latlab-1-ecu", board).pause(1.5))
    asyncio.run(board.pause(5.4e-05))
    # No exponent: busybox reads none.
    assert board.ran == [("sleep", "0.200000000"), ("sleep", "1.500000000"), ("sleep", "0.000054000")]
