"""A scenario with one guest that is not ours, and what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from latlab_command import Place

PACKETS = {"control": 750, "status": 300}
"""What is counted after the warm-up."""


def scenario(place: Place, vm1: dict[str, Any], **parts: Any) -> Path:
    """A file: packets in both directions between a namespace and the guest, for 2 s."""
    streams = {
        "control": {"talker": "sensor", "listener": "vm1", "period": "2ms", "size": "64B"},
        "status": {"talker": "vm1", "listener": "sensor", "period": "5ms", "size": "64B"},
    }
    written = {key: value for key, value in vm1.items() if value is not None}
    whole = {"guests": {"vm1": written}, "streams": streams, "duration": "2s", "warmup": "500ms"}
    return place.scenario(**{**whole, "loads": None, "matrix": None, **parts})


def counted(ended: Any) -> dict[str, tuple[int, int]]:
    """Of each stream how many packets were measured and lost."""
    (cell,) = ended.document["cells"]
    streams = cell["streams"].items()
    return {name: (stream["metrics"]["latency"]["n"], stream["counts"]["lost"]) for name, stream in streams}
