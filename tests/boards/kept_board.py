"""A board that outlives what is done on it: its changes are undone, as those of a machine of one's own are."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from latlab.host.guest import BoardHost
from latlab.lab.agent_binary import find_agent
from latlab.lab.guests.planned import planned_site
from latlab.lab.machines.board_qemu import board_argv
from latlab.lab.site import Site
from latlab.scenario import Scenario

BOOT_S = "240"


@contextmanager
def kept_board(scenario: Scenario, folder: Path) -> Iterator[tuple[BoardHost, Site]]:
    """The scenario's board1 once it answers, and the site it was planned for; it ends with the context."""
    site, console = planned_site(scenario), folder / "console"
    argv = board_argv(scenario, "board1", site.images["debian-rt-board"], site, str(folder), str(console), None)
    agent = str(find_agent())
    board = BoardHost("board1", str(folder), agent)
    board.fleeting = False
    with subprocess.Popen(argv) as qemu:
        try:
            answers = (agent, "in", "--patience", BOOT_S, str(folder), "echo", "answers")
            answered = subprocess.run(answers, capture_output=True, text=True, check=False)
            assert answered.stdout == "answers\n", answered.stderr + console.read_text()
            yield board, site
        finally:
            qemu.terminate()
