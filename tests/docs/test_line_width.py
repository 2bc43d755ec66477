"""Prose of the documentation wraps at 100 columns; tables, code, and lines that are one link need not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WIDTH = 100
PAGES = [
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if not {"_build", "experiments"} & set(path.parts)),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "tests/README.md")),
]
_FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_UNBROKEN = re.compile(r"!?\[[^\]]*\]\([^)]*\)|`[^`]*`|<[^>]*>")
"""What cannot be broken: a link, a span of code, a picture."""


def too_long(text: str) -> list[str]:
    """Lines of prose beyond the width that have a blank to break at before it."""
    code_out = _FENCE.sub(lambda match: re.sub(r"[^\n]", "", match[0]), text)
    lines = [line for line in code_out.splitlines() if len(line) > WIDTH and not re.match(" {4}| *[|]", line)]
    return [line for line in lines if " " in _UNBROKEN.sub("_", line).strip().removeprefix("- ")]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_prose_wraps_at_a_hundred_columns(path: Path) -> None:
    assert too_long(path.read_text(encoding="utf-8")) == []


def test_tables_code_and_a_link_alone_may_be_longer() -> None:
    long = "word " * 30
    assert too_long(f"| {long} |\n```\n{long}\n```\n[{long}](x.md)\n`{long}`\n") == []
    assert too_long(f"{long}\n- {long}\n") == [long, f"- {long}"]
