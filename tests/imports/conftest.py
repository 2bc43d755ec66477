"""The fixture that imports files."""

from __future__ import annotations

from foreign import importing

__all__ = ["importing"]
