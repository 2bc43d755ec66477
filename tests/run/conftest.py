"""A small scenario, changed as a test needs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from latlab.scenario import Scenario, parse
from support.machine import journals, machine

__all__ = ["journals", "machine"]  # fixtures of every test here

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
