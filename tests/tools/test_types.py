"""mypy checks all Python of the repository: what lint says of types is of tests, tools and benches, too."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]


def test_every_folder_of_python_is_checked() -> None:
    folders = {path.relative_to(ROOT).parts[0] for path in ROOT.glob("[!.]*/*.py")}
    folders |= {path.relative_to(ROOT).parts[0] for path in ROOT.glob("[!.]*/*/__init__.py")}
    # The site's settings are read by Sphinx, which is in a virtual environment of its own.
    assert folders - {"docs"} == set(SETTINGS["files"])


def test_no_file_is_left_out() -> None:
    assert "exclude" not in SETTINGS
