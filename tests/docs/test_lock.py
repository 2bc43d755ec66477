"""What is installed is locked: every package by version and hash, those of the build included, and no host is named."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)


def test_every_line_of_the_lock_is_a_version_or_a_hash_of_it() -> None:
    found = list(PINNED.finditer(LOCK))
    assert found[0].start() == 0 and found[-1].end() == len(LOCK)
    assert all(one.end() == after.start() for one, after in pairwise(found))


def test_what_latlab_its_tests_and_its_build_need_is_in_the_lock() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    locked = {canonicalize_name(one[1]): one[2] for one in PINNED.finditer(LOCK)}
    needed = [*project["project"]["dependencies"], *project["project"]["optional-dependencies"]["dev"]]
    for requirement in map(Requirement, [*needed, *project["build-system"]["requires"]]):
        assert locked[canonicalize_name(requirement.name)] in requirement.specifier, requirement


def test_nothing_is_installed_without_its_hash() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    installs = [line.strip() for line in makefile.splitlines() if line.startswith("\t$$pip ")]
    assert [line for line in installs if "--require-hashes" not in line and "--no-index" not in line] == []
    assert any("--require-hashes" in line and "requirements.lock" in line for line in installs)
