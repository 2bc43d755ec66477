"""The documentation as a site: the pages as they are in the repository, in the order of the README's table.

`make docs` builds it. Sphinx fails on a link to a page, a heading or a file that is not there.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
README = "README"
PAGE = re.compile(r"\]\(((?:\w[\w-]*/)*[\w-]+)\.md\)")
"""A link to a page in the same folder or below."""

project = "latlab"
release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
extensions = ["myst_parser", "sphinxcontrib.mermaid"]
root_doc = README
include_patterns = ["*.md", "docs/**.md", "tests/README.md"]
exclude_patterns = ["docs/_build", ".venv*"]
html_theme = "furo"
html_title = f"latlab {release}"
html_show_sourcelink = False
myst_heading_anchors = 6
"""Headings of all levels have the anchors that git hosting gives them."""
myst_fence_as_directive = ["mermaid"]
suppress_warnings = ["misc.highlighting_failure"]
"""JSON in which `…` stands for what is left out."""


def add_contents(app: Sphinx, page: str, source: list[str]) -> None:
    """Let the pages that a README lists be its contents; of the first README those from its table on."""
    if Path(page).name == README:
        listed = source[0].partition("## Documentation")[2] if page == README else source[0]
        pages = dict.fromkeys(PAGE.findall(listed))
        source[0] += "\n".join(["", "```{toctree}", ":hidden:", "", *pages, "```", ""])


def name_first_page(app: Sphinx, error: Exception | None) -> None:
    """Give the first page the name under which sites have it."""
    if not error:
        shutil.copy(app.outdir / f"{README}.html", app.outdir / "index.html")


def setup(app: Sphinx) -> None:
    """Register what Sphinx calls."""
    app.connect("source-read", add_contents)
    app.connect("build-finished", name_first_page)
