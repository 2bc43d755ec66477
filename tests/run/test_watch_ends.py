"""How a watch ends: every agent writes what it has, and where nothing was recorded no run stays."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from latlab.model.errors import LabError
from latlab.run.watch import WatchRequest, watch
from latlab.run.watching import stop_all
from latlab.testbed.apply import TestBed


def test_every_agent_is_stopped_whatever_becomes_of_another_and_those_that_trace_come_last() -> None:
    done = list[str]()

    def kernel(name: str, *, fails: bool = False) -> Any:
        async def stop(_: object) -> None:
            done.append(f"{name} stops")
            if fails:
                raise LabError("its connection was cut", where=name)

        async def stop_tracing(_: object) -> None:
            done.append(f"{name} traces no more")

        return SimpleNamespace(host=SimpleNamespace(name=name), stop=stop, stop_tracing=stop_tracing)

    async def cause_of(error: LabError) -> LabError:
        return error

    bed = SimpleNamespace(is_gone=lambda name: name == "gone", cause_of=cause_of)
    bed.all_of_these = partial(TestBed.all_of_these, cast(TestBed, bed))
    kernels = [kernel("one", fails=True), kernel("gone"), kernel("two")]
    with pytest.raises(LabError, match="one: its connection was cut"):
        asyncio.run(stop_all(kernels, cast(TestBed, bed)))
    assert done == ["one stops", "two stops", "one traces no more", "two traces no more"]


@pytest.mark.parametrize("error", [asyncio.CancelledError, LabError], ids=["interrupted", "failed"])
def test_no_run_stays_of_a_watch_that_ended_before_anything_was_recorded(
    error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ends(*_: object) -> None:
        raise error("as asked")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("latlab.run.watch._watched", ends)
    with pytest.raises(error):
        asyncio.run(watch(WatchRequest("udp", ("eth0:in",)), tmp_path))
    assert list(tmp_path.iterdir()) == []
