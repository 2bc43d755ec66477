"""The agent's file: the same wherever it is built, since images and snapshots go by its bytes."""

from __future__ import annotations

from pathlib import Path

from latlab.testbed.agent_binary import find_agent

ROOT = Path(__file__).parents[2]


def test_the_agent_names_no_folder_of_the_machine_that_built_it() -> None:
    agent = find_agent()
    assert agent.is_relative_to(ROOT)
    content = agent.read_bytes()
    for folder in (ROOT, Path.home() / ".cargo"):
        assert str(folder).encode() not in content, folder
