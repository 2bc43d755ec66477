"""No reader finds a dead link: in pages, in code, in what is printed; and every page can be reached from the first."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAP = ROOT / "docs/README.md"
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)
LINKED = [*PAGES, *sorted(ROOT.glob("*.md")), ROOT / "tests/README.md"]
FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^):\s]+))?\)")
SHOWN = re.compile(r"\[([^\]]+)\]\([^)]+\)")
NAMED = re.compile(r"\b((?:docs|tests|scenarios|tools|benches)/[\w./-]*\w\.(?:md|yaml|py|json|xsd))\b(?:#([\w-]+))?")
"""A file of the project that code or a page names by its path."""
OTHERS = {"docs/isochron-report.1.md"}
"""Files of other projects."""


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def anchors(path: Path) -> set[str]:
    """What git hosting, and Sphinx, call the headings of a page."""
    seen, found = Counter[str](), set[str]()
    for heading in re.findall(r"^#+ (.*)$", FENCE.sub("", text_of(path)), re.MULTILINE):
        name = re.sub(r"[^\w\- ]", "", SHOWN.sub(r"\1", heading).lower()).replace(" ", "-")
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


def links(path: Path) -> set[tuple[Path, str]]:
    """Files and headings that a page links to, web addresses left out."""
    found = LINK.findall(SPAN.sub("", FENCE.sub("", text_of(path))))
    return {((path.parent / file).resolve() if file else path, anchor) for file, anchor in found if file or anchor}


@pytest.mark.parametrize("path", LINKED, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_pages_lead_to_files_and_headings_that_are_there(path: Path) -> None:
    for target, anchor in links(path):
        assert target.exists(), target
        assert not anchor or anchor in anchors(target), f"{target}#{anchor}"


def test_every_page_can_be_reached_from_the_map_of_the_documentation() -> None:
    assert MAP in {target for target, _ in links(ROOT / "README.md")}
    listed = {target for target, _ in links(MAP)} | {target for target, _ in links(ROOT / "docs/experiments/README.md")}
    assert [path for path in PAGES if path not in listed | {MAP}] == []


def test_files_that_code_and_output_name_are_there() -> None:
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    dead = []
    for name in tracked.split("\0"):
        path = ROOT / name
        if path.suffix not in {".py", ".rs", ".c", ".h", ".md", ".yaml", ".toml", ""} or not path.is_file():
            continue
        for file, anchor in NAMED.findall(path.read_text(encoding="utf-8", errors="replace")):
            if file.startswith("docs/") and file not in OTHERS and not (ROOT / file).exists():
                dead.append(f"{name}: {file}")
            elif anchor and anchor not in anchors(ROOT / file):
                dead.append(f"{name}: {file}#{anchor}")
    assert dead == []


def test_anchors_are_those_of_git_hosting(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n## What `it` is, [here](x.md)\n## A page\n```\n# no heading\n```\n", encoding="utf-8")
    assert anchors(page) == {"a-page", "what-it-is-here", "a-page-1"}
