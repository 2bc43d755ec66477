"""Streams start at one moment: which that is by the clock of every host that is to know it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from latlab.run.start import Start, choose_start, joined

SECOND = 10**9
MS = 10**6
AHEAD_NS = 37 * SECOND
"""The other kernel knows TAI, which the talker's does not."""


def host(name: str, kernel: str, turns: Any = None) -> Any:
    return SimpleNamespace(name=name, shared_kernel=kernel, turns=turns)


def agent(on: Any, tai_ns: int, ready_at: float = 0.0, turn_tai_ns: int = 0) -> Any:
    return SimpleNamespace(host=on, tai_ns=tai_ns, ready_at=ready_at, turn_tai_ns=turn_tai_ns)


def unknown(_host: Any, _other: Any) -> None:
    """Clocks are compared by exchanges, none of which has come back yet."""


async def start_at(other: Any) -> int:
    """The talker was ready 2 s ago, at 100 s by its clock, and is to begin in 1 s."""
    now = asyncio.get_running_loop().time()
    other.ready_at += now
    talker = agent(host("sensor", "here"), 100 * SECOND, now - 2)
    return choose_start(talker, None, SECOND, 0, (), unknown).on(other)


def test_on_a_talkers_kernel_it_is_the_talkers_own() -> None:
    found = asyncio.run(start_at(agent(host("bridge", "here"), 1, -9.0)))
    assert found == pytest.approx(103 * SECOND, abs=SECOND // 100)


def test_elsewhere_it_is_as_far_ahead_by_that_clock() -> None:
    # Ready half a second ago: its clock is half a second further, and the start 1 s after that.
    found = asyncio.run(start_at(agent(host("ecu", "there"), 200 * SECOND + AHEAD_NS, -0.5)))
    assert found == pytest.approx(201.5 * SECOND + AHEAD_NS, abs=SECOND // 100)


def chosen(ahead_ns: int, cycle_ns: int = 0, scheduled: tuple[str, ...] = ()) -> Start:
    """Chosen 901 ms after a whole second, to begin 200 ms after the next 20 ms are full, in virtual time."""
    board = host("board1", "board", SimpleNamespace(tai_ns=500 * SECOND + 901 * MS))
    return choose_start(
        agent(board, 0), board, 200 * MS, cycle_ns, scheduled, lambda one, other: {"guest": ahead_ns}[one.shared_kernel]
    )


def test_in_virtual_time_it_is_soon_and_nothing_but_the_lead_from_a_tick() -> None:
    assert chosen(0).tai_ns == 501 * SECOND + 120 * MS


def test_in_a_guest_it_is_the_same_moment_however_far_its_clock_is_off() -> None:
    # The guest's clock is 37.6 s behind, as that of one that knows no leap seconds: it does not wait for 37.6 s.
    behind = -37_598_601_568
    assert chosen(behind).on(agent(host("vm1", "guest"), 0)) == 501 * SECOND + 120 * MS + behind


def test_where_the_guest_has_gates_of_its_own_it_is_when_its_cycle_begins() -> None:
    cycle = 1 * MS
    assert chosen(40, cycle, ("vm1",)).on(agent(host("vm1", "guest"), 0)) == 501 * SECOND + 120 * MS
    assert chosen(-40, cycle, ("vm1",)).on(agent(host("vm1", "guest"), 0)) == 501 * SECOND + 120 * MS
    assert chosen(-40, cycle).on(agent(host("vm1", "guest"), 0)) == 501 * SECOND + 120 * MS - 40


def test_before_clocks_have_been_compared_the_machines_turns_say_how_much_time_has_gone_by() -> None:
    board = host("board1", "board", SimpleNamespace(tai_ns=500 * SECOND))
    start = choose_start(agent(board, 0), board, 200 * MS, 0, (), unknown)
    # It read 90 s when it was ready, 3 s ago.
    guest = agent(host("vm1", "guest", board.turns), 90 * SECOND, turn_tai_ns=497 * SECOND)
    assert start.on(guest) == 93 * SECOND + 200 * MS


def test_clocks_are_joined_by_a_chain_in_either_direction() -> None:
    offsets = [("b", "c", 5), ("a", "b", -3), ("d", "c", 1), ("x", "y", 9)]
    assert joined(offsets, "a") == {"a": 0, "b": -3, "c": 2, "d": 1}
    assert joined([], "a") == {"a": 0}
