"""What takes long reports it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from latlab.hosts import MACHINE, LocalMachine
from latlab.testbed import apply
from latlab.testbed.apply import Awaited, TestBed
from latlab.testbed.step import Step


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "FIRST_S", 0.02)
    monkeypatch.setattr(apply, "AGAIN_S", 0.02)


def test_a_step_that_takes_long_is_named_again_and_again_with_its_time(tmp_path: Path) -> None:
    told: list[tuple[str, float]] = []
    go_on = tmp_path / "go on"

    def tell(what: str, seconds: float) -> None:
        told.append((what, seconds))
        if len(told) == 3:
            go_on.touch()

    step = Step(MACHINE, "wait for a file", ("sh", "-c", 'until [ -e "$0" ]; do sleep 0.01; done', str(go_on)))

    async def session() -> None:
        async with TestBed("t1", {MACHINE: LocalMachine(MACHINE)}, tell) as bed:
            await bed.apply([step])

    asyncio.run(session())
    assert {what for what, _ in told[:3]} == {"wait for a file"}
    assert [seconds for _, seconds in told] == sorted(seconds for _, seconds in told)


def test_what_is_over_soon_is_not_told() -> None:
    told: list[str] = []

    async def session() -> None:
        with Awaited(lambda what, _: told.append(what))("a moment"):
            pass
        await asyncio.sleep(0.1)

    asyncio.run(session())
    assert told == []


def test_within_something_the_more_precise_is_reported() -> None:
    told: list[str] = []
    enough = asyncio.Event()

    def tell(what: str, _: float) -> None:
        told.append(what)
        if len(told) >= 3:
            enough.set()

    async def session() -> None:
        waits = Awaited(tell)
        with waits("everything"):
            with waits("a clock"):
                await enough.wait()
            assert set(told) == {"a clock"}
            told.clear()
            enough.clear()
            await enough.wait()
            assert set(told) == {"everything"}

    asyncio.run(session())
