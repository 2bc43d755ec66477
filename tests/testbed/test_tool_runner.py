"""Tools' clients begin so that what they measure, less what of it is dropped, begins when it is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from latlab.model.errors import LabError
from latlab.testbed.apply import TestBed
from latlab.testbed.loads.runner import NotReadyError
from latlab.testbed.probes import runner
from latlab.testbed.probes.base import ToolPlan
from latlab.testbed.probes.runner import ToolRunner
from support.testbed.probes import DDS

SOCKPERF = replace(DDS, name="udp", kind="sockperf", transport="udp", dds=None)


class Clock:
    """A host where time only passes in pauses, and what was started on it when."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.begun: dict[str, float] = {}

    async def pause(self, seconds: float) -> None:
        self.now_s += seconds

    async def start(self, title: str, process: Any, bed: Any) -> Any:
        self.begun[title.removeprefix("probe ")] = self.now_s

        async def output(bed: Any, timeout_s: float) -> str:
            return ""

        return SimpleNamespace(output=output, wrong_end=lambda: None, command=lambda: "")


def begun(monkeypatch: pytest.MonkeyPatch, plans: Sequence[ToolPlan], in_s: float) -> dict[str, float]:
    """{probe: when its client began, s} if they are to measure from then on."""
    clock = Clock()
    monkeypatch.setattr(runner, "RunningProcess", clock)
    asking = ToolRunner(cast(TestBed, SimpleNamespace(hosts={"a": clock})), plans)
    asking._versions = {plan.name: "" for plan in plans}
    asyncio.run(asking.ask(in_s))
    return clock.begun


def test_one_that_drops_its_first_second_begins_that_much_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    assert begun(monkeypatch, (SOCKPERF, DDS), 2.2) == {"dds": pytest.approx(1.2), "udp": pytest.approx(2.2)}
    assert begun(monkeypatch, (SOCKPERF,), 2.2) == {"udp": pytest.approx(2.2)}


def test_where_there_is_no_time_for_that_it_begins_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert begun(monkeypatch, (SOCKPERF, DDS), 0.2) == {"dds": 0.0, "udp": pytest.approx(0.2)}


@pytest.mark.parametrize("plan", [DDS, SOCKPERF], ids=lambda plan: plan.kind)
def test_a_pong_that_is_never_ready_is_reported_with_what_to_do_and_without_its_command(
    monkeypatch: pytest.MonkeyPatch, plan: ToolPlan
) -> None:
    said = NotReadyError("probe dds: `env CYCLONEDDS_URI=<General> ddsperf pong` was not ready within 30 s", where="b")

    async def start(of: str, process: Any, bed: Any) -> Any:
        raise said

    async def version(_: ToolRunner, plan: ToolPlan) -> str:
        return ""

    monkeypatch.setattr(runner, "RunningProcess", SimpleNamespace(start=start))
    monkeypatch.setattr(ToolRunner, "_version", version)
    with pytest.raises(LabError) as caught:
        asyncio.run(ToolRunner(cast(TestBed, SimpleNamespace()), (plan,)).start())
    if plan.kind == "sockperf":
        assert caught.value is said
        return
    told = caught.value
    assert told.what == "ddsperf on b is not reachable for discovery: nothing listens on its UDP port 8660"
    assert "veth0 and veth1 are up" in told.remedy and "ports 8650 to 8899" in told.remedy
    assert told.where == "a: probes.dds"
