"""Snapshots that cells of one run make: each by one cell, and different ones side by side."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from latlab.run.cell import Making

HOST, GUESTS, OTHER = (Path("/snapshots") / name for name in ("host", "guests", "other"))


@pytest.mark.parametrize(
    ("first", "second", "is_let_in"),
    [((HOST,), (HOST,), False), ((HOST, GUESTS), (GUESTS, OTHER), False), ((HOST,), (GUESTS, OTHER), True)],
)
def test_a_cell_waits_only_for_one_that_makes_a_snapshot_it_needs(
    first: tuple[Path, ...], second: tuple[Path, ...], *, is_let_in: bool
) -> None:
    async def both() -> bool:
        making, let_in = Making(), asyncio.Event()

        async def other() -> None:
            async with making.alone(second):
                let_in.set()

        async with making.alone(first):
            waiting = asyncio.create_task(other())
            for _ in range(10):
                await asyncio.sleep(0)
            meanwhile = let_in.is_set()
        await waiting
        return meanwhile

    assert asyncio.run(both()) is is_let_in


def test_cells_that_need_the_same_in_another_order_do_not_wait_for_each_other_in_a_circle() -> None:
    async def both() -> None:
        making = Making()

        async def makes(snapshots: tuple[Path, ...]) -> None:
            async with making.alone(snapshots):
                await asyncio.sleep(0)

        async with asyncio.timeout(10):
            await asyncio.gather(makes((HOST, GUESTS)), makes((GUESTS, HOST)))

    asyncio.run(both())
