"""What a run was made with: the commit of the repository that latlab runs from, and its images by digest."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import latlab
from latlab.run.matrix import run_versions, source_commit
from latlab.scenario import cells, load_scenario
from latlab.testbed.guests.start import unbuilt_image

SCENARIO = """\
name: of-a-board
hosts: {board1: {kind: board, time: virtual}, sensor: {kind: netns, on: board1}, ecu: {kind: netns, on: board1}}
links: [{ends: [sensor.eth0, ecu.eth0]}]
streams: {control: {talker: sensor, listener: ecu, period: 1ms, size: 64B}}
duration: 1s
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository without a commit, from which latlab seems to run."""
    module = tmp_path / "repository/src/latlab/__init__.py"
    module.parent.mkdir(parents=True)
    module.write_text("")
    monkeypatch.setattr(latlab, "__file__", str(module))
    git(tmp_path / "repository", "init", "--quiet")
    return tmp_path / "repository"


def git(source: Path, *arguments: str) -> str:
    who = ("-c", "user.name=tester", "-c", "user.email=tester@example.org", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(source), *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_commit_is_reported_and_whether_a_file_differs(source: Path) -> None:
    git(source, "add", ".")
    git(source, "commit", "--quiet", "-m", "first")
    git(source, "tag", "v9", "-m", "a tag is no commit")
    assert source_commit() == git(source, "rev-parse", "--short=12", "HEAD")
    (source / "src/latlab/__init__.py").write_text("changed = True\n")
    assert source_commit() == git(source, "rev-parse", "--short=12", "HEAD") + "-dirty"


def test_a_repository_without_a_commit_and_an_installed_latlab_have_none(
    source: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert source_commit() is None
    monkeypatch.setattr(latlab, "__file__", str(tmp_path / "lib/site-packages/latlab/__init__.py"))
    assert source_commit() is None


def test_the_images_that_the_scenario_uses_are_named_with_their_digests(tmp_path: Path) -> None:
    path = tmp_path / "of-a-board.yaml"
    path.write_text(SCENARIO)
    images = {name: replace(unbuilt_image(name), digest=name[::-1]) for name in ("debian-rt-board", "debian-cloud")}
    versions = run_versions(cells(load_scenario(path)), images)
    assert versions.images == {"debian-rt-board": "draob-tr-naibed"}
    assert versions.latlab == latlab.__version__
