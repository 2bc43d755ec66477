"""mypy checks all Python of the repository: what lint says of types is of tests, tools and benches, too."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]


def test_every_folder_of_python_is_checked() -> None:
    folders = {path.relative_to(ROOT).parts[0] for path in ROOT.glob("[!.]*/*.py")}
    folders |= {path.relative_to(ROOT).parts[0] for path in ROOT.glob("[!.]*/*/__init__.py")}
    # The site's settings are read by Sphinx, which is in a virtual environment of its own.
    assert folders - {"docs"} == set(SETTINGS["files"])


def test_no_file_is_left_out_but_conftests_which_are_imported_by_their_folders() -> None:
    assert SETTINGS["exclude"] == [r"/conftest\.py$"]
    conftests = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in TESTS.rglob("conftest.py")}
    imported = [line for line in (TESTS / "conftests.pyi").read_text().splitlines() if not line.startswith("#")]
    assert {line.removeprefix("import ") for line in imported if line} == conftests
