"""A board that outlives what is done on it: its changes are undone, as those of a machine of one's own are."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from latlab.hosts.guest import BoardGuest
from latlab.scenario import Scenario
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.guests.start import planned_site
from latlab.testbed.machines.board_qemu import board_argv
from latlab.testbed.site import Site

BOOT_S = 120
"""Longer than a loaded machine takes."""
STARTS = 3
"""An emulated machine whose timer's interrupt was lost waits for it for ever; that is rare."""


@contextmanager
def kept_board(scenario: Scenario, folder: Path) -> Iterator[tuple[BoardGuest, Site]]:
    """The scenario's board1 once it answers, and the site it was planned for; it ends with the context."""
    site, console = planned_site(scenario), folder / "console"
    argv = board_argv(scenario, "board1", site.images["debian-rt-board"], site, str(folder), str(console), None)
    agent = str(find_agent())
    board = BoardGuest("board1", str(folder), agent)
    board.fleeting = False
    answers = (agent, "in", "--patience", str(BOOT_S), str(folder), "echo", "answers")
    for start in range(1, STARTS + 1):
        with subprocess.Popen(argv) as qemu:
            try:
                answered = subprocess.run(answers, capture_output=True, text=True, check=False)
                if answered.stdout == "answers\n":
                    yield board, site
                    return
                assert start < STARTS, answered.stderr + console.read_text()
            finally:
                qemu.terminate()
