"""The formats that `latlab report --format` prints, apart from what a terminal shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from latlab.report.markdown import MARKDOWN
from latlab.report.text_format import TextFormat

FORMATS: Final[Mapping[str, TextFormat]] = {"md": MARKDOWN}
"""{name: what writes it}."""
