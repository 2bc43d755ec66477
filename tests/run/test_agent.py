"""The lab's side of the conversation: whatever the agent does, the lab says what happened and leaves nothing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from latlab.hosts import LocalMachine
from latlab.model.errors import LabError
from latlab.recordings.cell import Totals
from latlab.run import agent as module
from latlab.run.agent import OVERLOADED, Agent
from latlab.run.events import Event, Latencies, Packets, Seen
from latlab.testbed.apply import TestBed
from support.programs import PROGRAMS

STAND_IN = PROGRAMS / "misbehaving_agent.py"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lab waits only a moment for what will never come."""
    monkeypatch.setattr(module, "READY_S", 0.5)


@pytest.fixture
def impatient_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lab waits only a moment for an agent that will never stop."""
    monkeypatch.setattr(module, "STOP_S", 1.0)


@pytest.fixture
def binary(tmp_path: Path) -> str:
    """A program that is called as the agent is."""
    path = tmp_path / "latlab-agent"
    path.write_text(f"#!/bin/sh\nexec {sys.executable} {STAND_IN}\n")
    path.chmod(0o755)
    return str(path)


def conversation(
    binary: str,
    deeds: list[str],
    then: Callable[[Agent, TestBed], Awaitable[Any]],
    listener: Callable[[Event], None] = lambda event: None,
    verb: str = "talk",
) -> Any:
    """What `then` returned of an agent that was ready. Whatever came of it, no process is left, and no journal."""

    async def talk() -> Any:
        host = LocalMachine("sensor")
        async with TestBed("conversation", {"sensor": host}) as bed:
            agent = await Agent.start(bed, host, binary, verb, {"do": deeds}, listener)
            try:
                return await then(agent, bed)
            finally:
                await agent.kill()
                assert agent._process.ended
                assert await bed.undo_all() == []

    return asyncio.run(talk())


def error_of(binary: str, deeds: list[str], then: Callable[[Agent, TestBed], Awaitable[Any]]) -> LabError:
    with pytest.raises(LabError) as raised:
        conversation(binary, deeds, then)
    return raised.value


async def stop(agent: Agent, bed: TestBed) -> Totals:
    return await agent.stop(bed)


async def done(agent: Agent, bed: TestBed) -> Totals:
    return await agent.done


async def never(agent: Agent, bed: TestBed) -> None:
    raise AssertionError("it was ready")


def test_an_agent_that_behaves_is_ready_runs_and_is_done(binary: str) -> None:
    said = conversation(binary, ["ready", "wait", "done"], stop)
    assert said.document() == {"streams": [], "ring_full": 0, "recorded": 0}


@pytest.mark.parametrize("verb", ["listen", "pong", "drops"])
def test_who_takes_in_packets_and_is_done_before_it_was_told_to_stop_is_an_error(binary: str, verb: str) -> None:
    with pytest.raises(LabError, match=f"`latlab-agent {verb}` ended before it was to") as raised:
        conversation(binary, ["ready", "done", "wait"], done, verb=verb)
    assert raised.value.where == "sensor"
    assert conversation(binary, ["ready", "wait", "done"], stop, verb=verb).recorded == 0


GONE = {
    "at once": (["exit 3"], "ended unexpectedly with status 3"),
    "with last words": (["last words", "exit 3"], "thread panicked; at talk.rs:1"),
    "by a signal": (["die"], "ended unexpectedly with status -9"),
    "after nothing but nonsense": (["garbage", "shapeless", "bytes", "exit 3"], "ended unexpectedly with status 3"),
    "after a line without end": (["long line", "exit 3"], "ended unexpectedly with status 3"),
}


@pytest.mark.parametrize(("deeds", "what"), GONE.values(), ids=GONE)
def test_an_agent_that_ends_before_it_is_ready_is_an_error_with_host_verb_and_reason(
    binary: str, deeds: list[str], what: str
) -> None:
    error = error_of(binary, deeds, never)
    assert error.where == "sensor"
    assert "`latlab-agent talk`" in error.what
    assert what in error.what


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("deeds", [["wait"], ["hang"], ["garbage", "hang"], ["mute", "wait"]])
def test_an_agent_that_does_not_get_ready_in_time_is_ended_and_told_of(binary: str, deeds: list[str]) -> None:
    error = error_of(binary, deeds, never)
    assert error.as_dict() == {
        "what": "`latlab-agent talk` was not ready within 0.5 s",
        "where": "sensor",
        "remedy": OVERLOADED,
    }


@pytest.mark.parametrize("deeds", [["error", "exit 3"], ["garbage", "error", "hang"], ["error", "error", "wait"]])
def test_what_the_agent_says_of_its_error_is_what_the_lab_says(binary: str, deeds: list[str]) -> None:
    error = error_of(binary, deeds, never)
    assert error.as_dict() == {"what": "no such interface", "where": "sensor: talk: eth9", "remedy": "name another"}


def test_an_error_in_mid_run_ends_the_wait_for_done_and_stands_in_the_cell(binary: str) -> None:
    kept: list[dict[str, Any]] = []

    async def then(agent: Agent, bed: TestBed) -> None:
        try:
            await agent.done
        finally:
            kept.append(agent.known.document())

    assert error_of(binary, ["ready", "error", "wait"], then).what == "no such interface"
    (entry,) = kept
    assert (entry["host"], entry["verb"], entry["done"]) == ("sensor", "talk", None)
    assert entry["ready"]["tai_ns"] == 1000
    assert entry["error"]["errno"] == 19


@pytest.mark.parametrize("then", [done, stop])
def test_an_agent_that_dies_in_mid_run_is_named_with_its_last_words(
    binary: str, then: Callable[[Agent, TestBed], Awaitable[Any]]
) -> None:
    error = error_of(binary, ["ready", "last words", "die"], then)
    assert error.where == "sensor"
    assert "ended unexpectedly with status -9: thread panicked" in error.what


def test_half_a_last_line_is_no_event(binary: str) -> None:
    assert "ended unexpectedly" in error_of(binary, ["ready", "half a line", "die"], done).what.replace("\n", " ")


@pytest.mark.usefixtures("impatient_at_the_end")
@pytest.mark.parametrize("deeds", [["ready", "hang"], ["ready", "close stdin", "hang"]])
def test_an_agent_that_does_not_stop_is_killed_and_told_of(binary: str, deeds: list[str]) -> None:
    error = error_of(binary, deeds, stop)
    assert "did not stop within 1 s" in error.what
    assert error.where == "sensor"


@pytest.mark.slow
@pytest.mark.usefixtures("impatient_at_the_end")
@pytest.mark.parametrize("verb", ["trace", "timer"])
def test_a_kernel_is_given_more_time_to_end_its_tracing(binary: str, verb: str) -> None:
    with pytest.raises(LabError, match=f"`latlab-agent {verb}` did not stop within 3 s"):
        conversation(binary, ["ready", "hang"], stop, verb=verb)


@pytest.mark.usefixtures("impatient_at_the_end")
def test_an_agent_that_is_done_and_does_not_go_is_killed_and_told_of(binary: str) -> None:
    error = error_of(binary, ["ready", "wait", "done", "hang"], stop)
    assert "latlab-agent talk" in error.what
    assert "did not exit" in error.what
    assert error.where == "sensor"


def test_nonsense_between_events_is_passed_over(binary: str) -> None:
    deeds = ["garbage", "bytes", "ready", "shapeless", "garbage", "long line", "complete", "wait", "done"]

    async def then(agent: Agent, bed: TestBed) -> Totals:
        await agent.complete
        return await agent.stop(bed)

    assert conversation(binary, deeds, then).recorded == 0


def test_progress_is_heard_by_stream(binary: str) -> None:
    heard: list[Event] = []
    conversation(binary, ["ready", "progress", "shapeless", "progress", "wait", "done"], stop, heard.append)
    assert heard == [Packets("sensor", "talk", {1: 30, 2: 4}, tai_ns=1)] * 2


def test_progress_that_says_more_is_heard_whole_or_not_at_all(binary: str) -> None:
    heard: list[Event] = []
    conversation(binary, ["ready", "shapeless", "live progress", "shapeless", "wait", "done"], stop, heard.append)
    seen = {1: Seen(2, Latencies(3, 10, 20, 30)), 2: Seen(0, None)}
    assert heard == [Packets("sensor", "talk", {1: 30, 2: 4}, None, 0, 1, seen, 50, (-1, 2))]


def test_a_program_that_is_not_there_is_an_error_that_names_it() -> None:
    error = error_of("/nowhere/latlab-agent", [], never)
    assert "/nowhere/latlab-agent" in str(error)
