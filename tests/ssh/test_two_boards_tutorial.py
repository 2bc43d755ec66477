"""The tutorial of two boards can be followed word by word."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

from support.command import cells_of
from support.ssh import Bench

PAGE = Path(__file__).parents[2] / "docs/tutorial/two-boards.md"
SHORT = {"duration: 10s": "duration: 1s", "repeat: 3": "repeat: 1"}
"""What is changed of the scenario that `init` writes, for a test's time."""


def commands() -> list[list[str]]:
    """The commands of the page that are for latlab and ssh, in its order."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


def test_the_pages_commands_are_these() -> None:
    assert {words[0] for words in commands()} == {"latlab", "ssh", "ssh-copy-id"}
    verbs = [words[1] for words in commands() if words[0] == "latlab"]
    assert list(dict.fromkeys(verbs)) == ["--version", "doctor", "init", "validate", "plan", "run", "show"]


@pytest.mark.slow
def test_the_page_leads_to_a_table(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = bench.traces()
    # The reader's own configuration of ssh: who `board1` is, and which key it takes.
    (tmp_path / "bin").mkdir()
    wrapper = tmp_path / "bin/ssh"
    wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {bench.place.folder}/boards/config "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    scenario = bench.place.folder / "desk.yaml"
    for words in commands():
        if words[0] == "ssh":
            name, command = words[1].removeprefix("root@"), words[2]
            bench.boards[name].inside("sh", "-c", command if len(words) == 3 else shlex.join(words[2:]))
        elif words[0] == "latlab":
            ended = bench.latlab(*words[1:])
            is_fine = ended.status in ((0, 4) if words[1] == "run" else (0,))
            assert is_fine, f"{words}: {ended.err}{ended.out}"
            if words[1] == "init":
                text = scenario.read_text()
                for usual, short in SHORT.items():
                    assert usual in text
                    text = text.replace(usual, short)
                scenario.write_text(text)
    cells = cells_of(bench.place.only_run())
    assert len(cells) == 2
    assert {cell["status"] for cell in cells.values()} == {"ok"}
    assert bench.traces() == before
