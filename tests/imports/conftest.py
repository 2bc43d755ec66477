"""The fixture that imports files."""

from __future__ import annotations

from support.imports.files import importing

__all__ = ["importing"]
