"""Programs that tests start as processes of their own, and where they are."""

from __future__ import annotations

from pathlib import Path

PROGRAMS = Path(__file__).parent
