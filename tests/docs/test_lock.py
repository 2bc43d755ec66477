"""What is installed is locked: every package by version and hash, those of the build included, and no host is named."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = {path: (ROOT / path).read_text(encoding="utf-8") for path in ("requirements.lock", "docs/requirements.lock")}
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)


@pytest.mark.parametrize("text", LOCKS.values(), ids=LOCKS)
def test_every_line_of_a_lock_is_a_version_or_a_hash_of_it(text: str) -> None:
    found = list(PINNED.finditer(text))
    assert found[0].start() == 0 and found[-1].end() == len(text)
    assert all(one.end() == after.start() for one, after in pairwise(found))


def test_what_latlab_its_tests_its_build_and_its_site_need_is_in_the_locks() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = {
        "requirements.lock": [
            *project["project"]["dependencies"],
            *project["project"]["optional-dependencies"]["dev"],
            *project["build-system"]["requires"],
        ],
        "docs/requirements.lock": project["dependency-groups"]["docs"],
    }
    for path, requirements in needed.items():
        locked = {canonicalize_name(one[1]): one[2] for one in PINNED.finditer(LOCKS[path])}
        for requirement in map(Requirement, requirements):
            assert locked[canonicalize_name(requirement.name)] in requirement.specifier, requirement


def test_nothing_is_installed_without_its_hash() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    installs = [line.strip() for line in makefile.splitlines() if re.match(r"\t(\$\$pip|[^=\s]+/pip install) ", line)]
    assert [line for line in installs if "--require-hashes" not in line and "--no-index" not in line] == []
    assert sum("--require-hashes" in line for line in installs) == len(LOCKS)
