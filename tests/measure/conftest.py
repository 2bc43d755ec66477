"""A small scenario, changed as a test needs it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "lab"))

from lab_machine import private_network

from latlab.scenario import Scenario, parse

BASE: dict[str, Any] = {
    "name": "small",
    "hosts": {"sensor": {"kind": "netns"}, "ecu": {"kind": "netns"}},
    "links": [{"ends": ["sensor.eth0", "ecu.eth1"]}],
    "streams": {"control": {"talker": "sensor", "listener": "ecu", "period": "1006us", "size": "64B", "priority": 7}},
    "duration": "2s",
    "warmup": "200ms",
}


@pytest.fixture
def scenario() -> Callable[..., Scenario]:
    """Makes the small scenario with parts replaced."""

    def made(**parts: Any) -> Scenario:
        parsed = parse(BASE | parts)
        assert parsed.scenario, parsed.findings
        return parsed.scenario

    return made


@pytest.fixture(autouse=True)
def journals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The journal directory of this test."""
    directory = tmp_path / "journal"
    monkeypatch.setenv("LATLAB_STATE", str(directory))
    return directory


@pytest.fixture
def machine() -> Iterator[None]:
    """A private network: what the test leaves behind goes with it."""
    with private_network():
        yield
