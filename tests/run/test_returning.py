"""Machines that were lost in one cell are waited for before the next, and not for ever."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from latlab.hosts import LocalMachine, RemoteHost
from latlab.recordings.cell import RecordedCell
from latlab.run import returning
from latlab.run.events import Event, Phase
from latlab.run.returning import Returning
from latlab.scenario import Scenario, parse
from latlab.testbed.site import Site

STREAM = {"talker": "there", "listener": "gone", "period": "1ms", "size": "64B"}


@pytest.fixture
def scenario(monkeypatch: pytest.MonkeyPatch) -> Scenario:
    """Two machines over ssh, of which one answers; nobody listens at the other's port."""
    parsed = parse(
        {
            "name": "two",
            "hosts": {name: {"kind": "ssh"} for name in ("there", "gone")},
            "links": [{"ends": ["there.eth1", "gone.eth1"], "subnet": "10.78.0.0/24"}],
            "streams": {"any": STREAM},
            "duration": "1s",
        }
    )
    assert parsed.scenario, parsed.findings
    hosts = {"there": LocalMachine("there"), "gone": RemoteHost("gone", "127.0.0.1", port=1)}
    monkeypatch.setattr(returning, "make_hosts", lambda scenario, site: hosts)
    return parsed.scenario


def ended(status: str, **answered: bool) -> RecordedCell:
    """A cell in which these machines answered or did not."""
    steps = [SimpleNamespace(host=name, ok=ok) for name, ok in answered.items()]
    return cast(RecordedCell, SimpleNamespace(status=status, steps=steps))


def test_only_machines_that_had_answered_are_waited_for_after_a_failure_and_once_in_vain(scenario: Scenario) -> None:
    told: list[Event] = []

    def waited(machines: Returning) -> Any:
        told.clear()
        asyncio.run(machines.wait(scenario, Site("0000"), told.append))
        return told == [Phase("waiting")]

    machines = Returning(within_s=0)
    assert not waited(machines)
    machines.note(ended("failed", there=False, gone=False))
    assert not waited(machines), "neither ever answered"
    machines.note(ended("ok", there=True, gone=True))
    assert not waited(machines), "none was lost"
    machines.note(ended("failed", there=True, gone=False))
    assert waited(machines)
    assert machines.awaited == {"there"}
    machines.note(ended("failed", gone=True))
    assert machines.awaited == {"there", "gone"}
