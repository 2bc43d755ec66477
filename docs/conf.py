"""The documentation as a site: the pages as they are in the repository, in the order of docs/README.md.

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
    """Let a README's pages be its contents; the first one has those of docs/README.md, group by group."""
    if page == README:
        app.env.note_dependency(str(ROOT / "docs/README.md"))
        groups = ["", *(ROOT / "docs/README.md").read_text(encoding="utf-8").split("\n## ")[1:]]
        for group in groups:
            pages = [f"docs/{name}" for name in PAGE.findall(group)] or ["docs/README"]
            source[0] += contents(pages, group.partition("\n")[0])
        source[0] += contents(PAGE.findall(source[0].partition("## Project")[2]), "Project")
    elif Path(page).name == README and page != "docs/README":
        source[0] += contents(PAGE.findall(source[0]))


def contents(pages: list[str], caption: str = "") -> str:
    """A list of contents that the page does not show and the margin does."""
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", "```{toctree}", *options, "", *dict.fromkeys(pages), "```", ""])


def name_first_page(app: Sphinx, error: Exception | None) -> None:
    """Give the first page the name under which sites have it."""
    if not error:
        shutil.copy(app.outdir / f"{README}.html", app.outdir / "index.html")


def setup(app: Sphinx) -> None:
    """Register what Sphinx calls."""
    app.connect("source-read", add_contents)
    app.connect("build-finished", name_first_page)
