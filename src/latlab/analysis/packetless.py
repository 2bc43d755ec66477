"""Which streams of cell.json are rows of packets that our agents sent, and which are not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_no_packets(stream: Mapping[str, Any]) -> bool:
    """Whether a stream of cell.json is a tool's, whose packets are its own, or a timer's, which sends none."""
    return bool(stream.get("tool")) or "timer" in stream
