"""A version is released when everything that states it agrees."""

from __future__ import annotations

from pathlib import Path

import pytest

from release import ROOT, SECTION, disagreements

FILES = {
    "pyproject.toml": '[project]\nversion = "1.2.0"\n',
    "agent/Cargo.toml": '[workspace.package]\nversion = "1.2.0"\n',
    "agent/Cargo.lock": '[[package]]\nname = "latlab-agent"\nversion = "1.2.0"\n',
    "CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-11-26\n\n### Added\n\n- A thing.\n",
}
WRONG = {
    "the crates' version": ("agent/Cargo.toml", "1.2.0", "1.1.0", "agent/Cargo.toml: version 1.1.0"),
    "the lock's version": ("agent/Cargo.lock", "1.2.0", "1.1.0", "agent/Cargo.lock: latlab-agent 1.1.0"),
    "a change without a version": ("CHANGELOG.md", "d]\n", "d]\n- Another.\n", "changes stand under Unreleased"),
    "no section": ("CHANGELOG.md", "[1.2.0]", "[1.1.0]", "its latest version is 1.1.0"),
    "no date": ("CHANGELOG.md", " - 2026-11-26", "", "of no date"),
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_what_agrees_is_released(repository: Path) -> None:
    assert list(disagreements(repository)) == []


@pytest.mark.parametrize(("name", "was", "becomes", "said"), WRONG.values(), ids=WRONG)
def test_what_disagrees_is_named(repository: Path, name: str, was: str, becomes: str, said: str) -> None:
    (repository / name).write_text(FILES[name].replace(was, becomes))
    found = list(disagreements(repository))
    assert any(said in one for one in found), found


def test_this_repository_has_one_version_and_a_changelog_with_dates() -> None:
    assert [one for one in disagreements(ROOT) if not one.startswith("CHANGELOG.md: changes stand")] == []
    sections = SECTION.findall((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert [name for name, date, _ in sections if not date] == ["Unreleased"]
