"""Comparing clocks over a page of shared memory: the true offset is always inside the bound."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support.agent.clock_page import OwnPage
from support.agent.process import Agent
from support.agent.streams import MS, new_run_id, recording

pytestmark = pytest.mark.real

BURST_NS = 300_000
PERIOD_NS = 10 * MS
ENOUGH = 60
"""Rows after which a reader has seen enough. How many times that takes depends on what else the machine does."""
CPUS = sorted(os.sched_getaffinity(0))
COMES_TO, COMES_FROM = ("127.77.0.1", 1021), ("127.77.0.1", 1022)
"""Where doorbells come to, and from."""
Start = Callable[..., Agent]


@pytest.fixture
def start() -> Iterator[Start]:
    """start(spec) → the agent `clock`, told its spec; gone after the test."""
    agents: list[Agent] = []

    def begin(spec: dict[str, Any]) -> Agent:
        agents.append(Agent((), "clock", {"realtime": {}} | spec))
        return agents[-1]

    yield begin
    for agent in agents:
        agent.kill()


def address(pair: tuple[str, int]) -> str:
    return f"{pair[0]}:{pair[1]}"


def writer(page: Path, run_id: str, **changes: Any) -> dict[str, Any]:
    spec = {"role": "page-writer", "run_id": run_id, "page": str(page), "burst_ns": BURST_NS}
    spec |= {"listen": address(COMES_TO), "peer": address(COMES_FROM)}
    return spec | {"realtime": {"cpus": CPUS[:1]}} | changes


def reader(page: Path, run_id: str, folder: Path, count: int = 1 << 40, **changes: Any) -> dict[str, Any]:
    doorbell = {"datagram": {"from": address(COMES_FROM), "to": address(COMES_TO)}}
    spec = {"role": "page-reader", "run_id": run_id, "device": str(page), "doorbell": doorbell, "period_ns": PERIOD_NS}
    spec |= {"count": count, "recording": str(folder / "clock")}
    return spec | {"realtime": {"cpus": CPUS[-1:]}} | changes


def when_it_has(agent: Agent, looks: int) -> dict[str, Any]:
    """The reader's `done`, after it was stopped with at least so many looks."""
    while agent.until("progress")["streams"][0]["packets"] < looks:
        pass
    agent.tell(stop=True)
    return agent.until("done")


def looks(folder: Path) -> pl.DataFrame:
    found = recording(folder, "clock.exchanges")
    assert found.complete
    return found.table


def assert_every_look_holds(table: pl.DataFrame, offset: int) -> None:
    assert (table["t2_tai_ns"] - table["t1_tai_ns"]).min() >= offset  # type: ignore[operator]
    assert (table["t3_tai_ns"] - table["t4_tai_ns"]).max() <= offset  # type: ignore[operator]


def test_between_two_processes_on_one_clock_every_bound_holds_zero(start: Start, tmp_path: Path) -> None:
    page, run_id = tmp_path / "page", new_run_id()
    shows = start(writer(page, run_id))
    shows.until("ready")
    done = when_it_has(start(reader(page, run_id, tmp_path)), ENOUGH)
    table = looks(tmp_path)
    assert done["exchanges"] == table.height
    assert_every_look_holds(table, 0)
    for bound in (done["bound"], *done["windows"]):
        assert bound["lower_ns"] <= 0 <= bound["upper_ns"]
        assert bound["drift_lower_ppb"] <= 0 <= bound["drift_upper_ppb"]
    shows.hang_up()
    shown = shows.until("done")
    assert shows.ended() == 0
    # Of three rings at most two are kept, and at most two looks.
    assert table.height <= 4 * shown["exchanges"] / 3
    print(f"± {(done['bound']['upper_ns'] - done['bound']['lower_ns']) / 2} ns, {done['lost']} bursts lost")


def test_where_host_and_guest_never_run_at_once_doorbells_bound_the_offset(start: Start, tmp_path: Path) -> None:
    page, run_id = tmp_path / "page", new_run_id()
    one: dict[str, Any] = {"realtime": {"cpus": CPUS[:1]}}
    start(writer(page, run_id, **one)).until("ready")
    done = when_it_has(start(reader(page, run_id, tmp_path, **one)), ENOUGH)
    table = looks(tmp_path)
    assert_every_look_holds(table, 0)
    assert done["lost"] == 0 and done["bound"]["lower_ns"] <= 0 <= done["bound"]["upper_ns"]
    rings = table.filter(pl.col("t1_tai_ns") == pl.col("t4_tai_ns"))
    assert rings.height == table.height, "on one CPU no look can meet a burst"


def test_a_clock_that_is_elsewhere_is_bounded_there(start: Start, tmp_path: Path) -> None:
    page, run_id, ahead = tmp_path / "page", new_run_id(), 3_600_000_000_123
    with OwnPage(page, run_id, lambda tai_ns: tai_ns + ahead, CPUS[:1], (COMES_TO, COMES_FROM)):
        done = when_it_has(start(reader(page, run_id, tmp_path)), ENOUGH)
    assert_every_look_holds(looks(tmp_path), -ahead)
    assert done["bound"]["lower_ns"] <= -ahead <= done["bound"]["upper_ns"]


def test_a_clock_that_runs_at_another_rate_is_bounded_all_the_time(start: Start, tmp_path: Path) -> None:
    page, run_id, begun = tmp_path / "page", new_run_id(), time.clock_gettime_ns(time.CLOCK_TAI)
    # The page's clock gains a thousandth on the reader's: the reader's loses one in 1001 on it.
    with OwnPage(page, run_id, lambda tai_ns: tai_ns + (tai_ns - begun) // 1000, CPUS[:1], (COMES_TO, COMES_FROM)):
        done = when_it_has(start(reader(page, run_id, tmp_path)), 3 * ENOUGH)
    windows = done["windows"]
    assert windows
    for window in windows:
        reference = window["reference_tai_ns"]
        true = -(reference - begun) / 1001
        assert window["lower_ns"] - 2 <= true <= window["upper_ns"] + 2
        assert window["drift_lower_ppb"] <= -1e9 / 1001 <= window["drift_upper_ppb"]


def test_a_writer_that_stands_still_in_between_bounds_less_and_never_wrongly(start: Start, tmp_path: Path) -> None:
    page, run_id = tmp_path / "page", new_run_id()
    shows = start(writer(page, run_id))
    shows.until("ready")
    looking = start(reader(page, run_id, tmp_path))
    looking.until("ready")
    for _ in range(5):
        time.sleep(0.037)
        shows.signal(signal.SIGSTOP)
        shows.wait_until_stopped()
        time.sleep(0.053)
        shows.signal(signal.SIGCONT)
    done = when_it_has(looking, ENOUGH)
    assert done["lost"] > 0, "a ring meanwhile is answered after it was asked for"
    assert_every_look_holds(looks(tmp_path), 0)
    assert done["bound"]["lower_ns"] <= 0 <= done["bound"]["upper_ns"]


def test_doorbells_that_were_left_lying_are_not_answered(start: Start, tmp_path: Path) -> None:
    page, run_id = tmp_path / "page", new_run_id()
    shows = start(writer(page, run_id))
    shows.until("ready")
    looking = start(reader(page, run_id, tmp_path))
    looking.until("ready")
    shows.signal(signal.SIGSTOP)
    shows.wait_until_stopped()
    time.sleep(1.5)
    shows.signal(signal.SIGCONT)
    when_it_has(looking, ENOUGH)
    assert_every_look_holds(looks(tmp_path), 0)
    shows.hang_up()
    assert shows.until("done")["lost"] > 0


def test_the_page_of_another_run_is_not_looked_at(start: Start, tmp_path: Path) -> None:
    page = tmp_path / "page"
    start(writer(page, new_run_id())).until("ready")
    looking = start(reader(page, new_run_id(), tmp_path))
    looking.until("ready")
    time.sleep(0.2)
    looking.tell(stop=True)
    done = looking.until("done")
    assert (done["exchanges"], done["bound"], done["windows"]) == (0, None, [])


def test_a_reader_waits_for_its_writer(start: Start, tmp_path: Path) -> None:
    page, run_id = tmp_path / "page", new_run_id()
    before = start(writer(page, new_run_id()))
    before.until("ready")
    looking = start(reader(page, run_id, tmp_path))
    looking.until("ready")
    before.hang_up()
    before.until("done")
    # Until it has ended page and address are its own.
    assert before.ended() == 0
    start(writer(page, run_id)).until("ready")
    when_it_has(looking, ENOUGH)
    assert_every_look_holds(looks(tmp_path), 0)


def test_a_reader_is_done_after_as_many_times_as_it_was_asked_for(start: Start, tmp_path: Path) -> None:
    page, run_id = tmp_path / "page", new_run_id()
    start(writer(page, run_id)).until("ready")
    looking = start(reader(page, run_id, tmp_path, count=10))
    done = looking.until("done")
    assert looking.ended() == 0
    assert 0 <= done["lost"] <= 10
    assert 10 - done["lost"] <= done["exchanges"] <= 4 * (10 - done["lost"])


def test_a_page_has_one_writer(start: Start, tmp_path: Path) -> None:
    page = tmp_path / "page"
    start(writer(page, new_run_id())).until("ready")
    second = start(writer(page, new_run_id()))
    assert second.ended() == 1
    assert "flock" in second.events[0]["what"] and second.events[0]["where"] == str(page)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a burst of nothing": ({"burst_ns": 0}, "burst_ns"),
    "an address that is not this host's": ({"listen": "192.0.2.1:1021"}, "192.0.2.1:1021"),
    "a page that cannot be made": ({"page": "/nowhere/page"}, "/nowhere/page"),
}


@pytest.mark.parametrize(("changes", "where"), BAD.values(), ids=BAD)
def test_a_page_that_cannot_be_written_is_one_error(
    start: Start, tmp_path: Path, changes: dict[str, Any], where: str
) -> None:
    agent = start(writer(tmp_path / "page", new_run_id()) | changes)
    assert agent.ended() == 1
    (error,) = agent.events
    assert error["where"] == where and error["remedy"]


def test_doorbells_too_often_to_be_told_apart_are_refused(start: Start, tmp_path: Path) -> None:
    agent = start(reader(tmp_path / "page", new_run_id(), tmp_path, period_ns=MS))
    assert agent.ended() == 1
    (error,) = agent.events
    assert error["where"] == "period_ns" and "at least" in error["what"]


def test_a_port_without_a_doorbell_is_refused(start: Start, tmp_path: Path) -> None:
    page = tmp_path / "page"
    page.write_bytes(bytes(1 << 20))
    agent = start(reader(page, new_run_id(), tmp_path, doorbell={"port": 0x4E0}))
    assert agent.ended() == 1
    (error,) = agent.events
    assert error["where"] == "the I/O port 0x4e0" and error["remedy"]


def test_a_page_that_is_too_small_is_refused_at_both_ends(start: Start, tmp_path: Path) -> None:
    page = tmp_path / "page"
    page.write_bytes(bytes(4096))
    for spec in (writer(page, new_run_id()), reader(page, new_run_id(), tmp_path)):
        agent = start(spec)
        assert agent.ended() == 1
        assert "4096" in agent.events[0]["what"]


def test_a_ptp_clock_that_is_none_is_refused(start: Start, tmp_path: Path) -> None:
    spec = {"role": "ptp", "run_id": new_run_id(), "device": "/dev/null", "host_tai_offset_s": 0, "period_ns": 10 * MS}
    agent = start(spec | {"count": 5, "recording": str(tmp_path / "clock")})
    assert agent.ended() == 1
    (error,) = agent.events
    assert "PTP_SYS_OFFSET" in error["what"] and error["where"] == "/dev/null" and error["remedy"]
