"""The fixture that imports files."""

from __future__ import annotations

import sys
from pathlib import Path

from foreign import importing

sys.path.append(str(Path(__file__).parents[1] / "recordings"))

__all__ = ["importing"]
