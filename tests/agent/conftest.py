"""Every test here has a separate machine, on which the real agent is driven as the lab drives it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.agent.bed import Bed
from support.machine import journals, private_network

__all__ = ["journals"]  # a fixture of every test here


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
