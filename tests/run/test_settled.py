"""How long a cell waits for packets in flight."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from latlab.run.cell import _Cell


def waited(*agents: tuple[str, bool], virtual: bool) -> list[float]:
    """How long, in s, with agents of these verbs, which have received all that was to come or not."""
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async def work() -> None:
        cell: Any = object.__new__(_Cell)
        cell._scenario = SimpleNamespace(settle=300_000_000, in_virtual_time=virtual)
        cell._listening = []
        for verb, complete in agents:
            future = asyncio.get_running_loop().create_future()
            if complete:
                future.set_result(None)
            cell._listening.append(SimpleNamespace(verb=verb, complete=future, host=SimpleNamespace(pause=pause)))
        await cell._settle()

    asyncio.run(work())
    return pauses


@pytest.mark.parametrize(
    ("agents", "virtual", "expected"),
    [
        ([("listen", True), ("listen", True), ("trace", False)], True, []),
        ([("listen", True), ("listen", False)], True, [0.3]),
        ([("listen", True), ("pong", False)], True, [0.3]),
        ([("listen", True), ("listen", True)], False, [0.3]),
    ],
    ids=["all are there", "one is missing", "questions are not counted", "a clock that goes on by itself"],
)
def test_in_virtual_time_nothing_is_waited_for_once_every_packet_has_come(
    agents: list[tuple[str, bool]], virtual: bool, expected: list[float]
) -> None:
    assert waited(*agents, virtual=virtual) == expected
