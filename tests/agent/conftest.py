"""Every test here has a separate machine, on which the real agent is driven as the lab drives it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "testbed"))

from agent_bed import Bed
from lab_machine import private_network


@pytest.fixture
def bed() -> Iterator[Bed]:
    """Namespaces `sensor` and `ecu`, joined by one virtual cable."""
    with private_network(), Bed(("sensor", "ecu")) as built:
        yield built


@pytest.fixture
def relay_bed() -> Iterator[Bed]:
    """Namespaces `sensor`, `relay` and `ecu`, one cable between each and the next."""
    with private_network(), Bed(("sensor", "relay"), ("relay", "ecu")) as built:
        yield built
