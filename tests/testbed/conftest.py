"""Every test here has its own journal directory; `machine` is one to change."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.machine import journals, machine

__all__ = ["journals", "machine"]  # fixtures of every test here

CAPTURED = Path(__file__).parent / "captured"


@pytest.fixture
def captured() -> Path:
    """Where the real tools' output is."""
    return CAPTURED
