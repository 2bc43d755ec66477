"""Streams start at one moment: which that is by another machine's clock, where nobody talks."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from latlab.run.cell import _Cell

SECOND = 10**9
AHEAD_NS = 37 * SECOND
"""The other kernel knows TAI, which the talker's does not."""


def agent(kernel: str, tai_ns: int, ready_at: float, host: str = "sensor") -> Any:
    return SimpleNamespace(
        host=SimpleNamespace(name=host, shared_kernel=kernel, turns=None), tai_ns=tai_ns, ready_at=ready_at
    )


async def start_at(other: Any) -> int:
    """The talker was ready 2 s ago, at 100 s by its clock, and is to begin at 103 s: in 1 s."""
    now = asyncio.get_running_loop().time()
    other.ready_at += now
    talker = agent("here", 100 * SECOND, now - 2)
    outcome = SimpleNamespace(starts_tai_ns={"sensor": 103 * SECOND}, start_tai_ns=103 * SECOND)
    return _Cell._start_at(cast(_Cell, SimpleNamespace(_talking=[talker], _outcome=outcome)), other)


def test_on_a_talkers_kernel_it_is_the_talkers_own() -> None:
    assert asyncio.run(start_at(agent("here", 1, -9.0, "bridge"))) == 103 * SECOND


def test_elsewhere_it_is_as_far_ahead_by_that_clock() -> None:
    # Ready half a second ago: its clock is half a second further, and the start 1 s after that.
    found = asyncio.run(start_at(agent("there", 200 * SECOND + AHEAD_NS, -0.5, "ecu")))
    assert found == pytest.approx(201.5 * SECOND + AHEAD_NS, abs=SECOND // 100)
