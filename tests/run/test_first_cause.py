"""What went wrong first is what a cell says, whatever goes wrong while everything is stopped after it."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from latlab.model.errors import LabError, after_that
from latlab.run import agent, cell
from latlab.run.agent import OVERLOADED, Agent
from latlab.run.matrix import run
from latlab.scenario import load_scenario
from support.machine import dump

SMALL: dict[str, Any] = {
    "name": "small",
    "hosts": {"sensor": {"kind": "netns"}, "ecu": {"kind": "netns"}},
    "links": [{"ends": ["sensor.eth0", "ecu.eth0"]}],
    "streams": {"control": {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B"}},
    "duration": "300ms",
    "warmup": "10ms",
    "repeat": 2,
}
NOT_DONE = "the talker is not done 0.5 s after the last packet was due"
NOT_STOPPED = "`latlab-agent talk` did not stop within 0.6 s"


@pytest.fixture
def cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], list[Any]]:
    """Each cell.json of a run whose talkers are stopped (SIGSTOP) at the start, after which something else is done.

    The lab has little patience; whatever comes of it, the machine is as before.
    """

    def made(then: Callable[[], None]) -> list[Any]:
        def begin(talker: Agent, start_tai_ns: int) -> None:
            assert isinstance(talker._process.process, asyncio.subprocess.Process)
            os.kill(talker._process.process.pid, signal.SIGSTOP)
            then()

        monkeypatch.setattr(Agent, "begin", begin)
        monkeypatch.setattr(cell, "SPARE_S", 0.5)
        monkeypatch.setattr(agent, "STOP_S", 0.6)
        path = tmp_path / "small.yaml"
        path.write_text(yaml.safe_dump(SMALL, sort_keys=False))
        before = dump()
        folder = asyncio.run(run(load_scenario(path), tmp_path / "runs"))
        assert dump() == before
        return [one.cell().document() for one in folder.cells()]

    return made


@pytest.mark.real
@pytest.mark.usefixtures("machine")
def test_a_talker_that_hangs_is_the_reason_and_that_it_could_not_be_stopped_is_reported_after_it(
    cells: Callable[[Callable[[], None]], list[Any]],
) -> None:
    found = cells(lambda: None)
    assert len(found) == 2, "one that fails does not keep the next from being tried"
    for one in found:
        assert one["status"] == "failed"
        assert one["reason"] == {
            "what": f"{NOT_DONE}; after that, {NOT_STOPPED}",
            "where": "sensor",
            "remedy": OVERLOADED,
        }


@pytest.mark.real
@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_an_interrupted_run_stays_interrupted_when_stopping_fails_and_the_signal_means_what_it_meant_before(
    cells: Callable[[Callable[[], None]], list[Any]], number: signal.Signals
) -> None:
    heard: list[int] = []
    usual = signal.signal(number, lambda number, frame: heard.append(number))
    try:
        (only,) = cells(lambda: os.kill(os.getpid(), number))
        assert heard == []
        os.kill(os.getpid(), number)
        assert heard == [number]
    finally:
        signal.signal(number, usual)
    assert only["status"] == "interrupted"
    assert only["reason"]["what"].endswith(f"; after that, sensor: {NOT_STOPPED} ({OVERLOADED})")


FIRST = LabError("it broke", where="ecu", remedy="mend it")


def test_two_failures_are_reported_as_one_with_both_places_and_both_remedies() -> None:
    told = after_that(FIRST, LabError("so did that", where="sensor", remedy="mend that, too"))
    assert isinstance(told, LabError)
    assert told.as_dict() == {
        "what": "it broke; after that, sensor: so did that",
        "where": "ecu",
        "remedy": "mend it; mend that, too",
    }
    assert told.__cause__ is FIRST


def test_what_the_system_refuses_is_reported_as_a_failure() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/runs/x")
    assert "it broke; after that, /runs/x: No space left on device" in str(after_that(FIRST, full))
    assert str(after_that(full, FIRST)).startswith("/runs/x: No space left on device; after that, ecu: it broke")


def test_the_same_failure_is_not_told_twice() -> None:
    both = after_that(FIRST, LabError("another"))
    assert after_that(FIRST, LabError("it broke", where="ecu")) is FIRST
    assert after_that(both, FIRST) is both
    # Two that came of one cause are told with it.
    again = after_that(both, after_that(FIRST, LabError("a third", where="sensor")))
    assert str(again) == "ecu: it broke; after that, another; after that, sensor: a third (mend it)"


def test_a_cancellation_stays_one_whenever_it_came_and_knows_of_the_failure() -> None:
    for told, note in (
        (after_that(asyncio.CancelledError(), FIRST), "after that, ecu: it broke (mend it)"),
        (after_that(FIRST, asyncio.CancelledError()), "before that, ecu: it broke (mend it)"),
    ):
        assert isinstance(told, asyncio.CancelledError)
        assert told.__notes__ == [note]
    assert not hasattr(after_that(asyncio.CancelledError(), asyncio.CancelledError()), "__notes__")
