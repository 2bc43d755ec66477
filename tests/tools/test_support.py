"""What tests share is one package, and tests/README.md says where what is tested."""

from __future__ import annotations

import re

from support.suite.marks import TESTS

FILES = sorted(TESTS.rglob("*.py"))
SHARED = TESTS / "support"
README = (TESTS / "README.md").read_text(encoding="utf-8")
FOLDERS = {path.name for path in TESTS.iterdir() if path.is_dir() and not path.name.startswith("_")}


def in_first_column(title: str) -> set[str]:
    """What stands in backquotes in the first column of a section's table."""
    section = README.split(f"## {title}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}


def test_what_tests_share_stands_in_support() -> None:
    others = [path for path in FILES if SHARED not in path.parents and path.name != "conftest.py"]
    assert [str(path) for path in others if not path.name.startswith("test_")] == []


def test_nothing_else_of_the_tests_is_imported() -> None:
    others = {*FOLDERS - {"support"}, "conftest", "tests", *(path.stem for path in TESTS.rglob("test_*.py"))}
    taken = re.compile(rf"^ *(?:from|import) ({'|'.join(others)})\b", re.MULTILINE)
    assert {str(path) for path in FILES if taken.search(path.read_text(encoding="utf-8"))} == set()


def test_every_folder_of_tests_is_in_the_readme() -> None:
    assert in_first_column("What is tested where") == FOLDERS - {"support"}


def test_every_module_that_tests_share_is_in_the_readme() -> None:
    shared = {path.stem for path in SHARED.iterdir() if not path.name.startswith("_")}
    assert in_first_column("What tests share") == shared
