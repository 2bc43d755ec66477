"""A process that must run while the test bed stands: a guest's QEMU, a daemon of a bridge, our own bridge."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path

from latlab.testbed.step import Argv, Check, Spec

WITH_ITS_LAB = ("setpriv", "--pdeathsig")
"""What a command begins with that gets a signal when the lab dies, whatever ends that (PR_SET_PDEATHSIG)."""


@dataclass(frozen=True)
class Service:
    """One process on one host, started in its place among the steps and ended in the reverse order.

    ready: what must be read back before the next step; it has the check's time, while the process lives. log: the file
    that gets what it writes (the whole path); console: another file whose last lines say why it ended, if there is one.
    spec: for our agent, the JSON object it gets on its standard input, which stays open as long as it is to run.
    passing: one of the next steps ends it. carries: the host that ends with it, a guest by its QEMU.
    incoming: the snapshot it resumes from, if any, which is removed where it does not get ready from that.
    """

    host: str
    title: str
    argv: Argv
    log: str
    ready: Check | None = None
    console: str | None = None
    spec: Spec | None = None
    passing: bool = False
    carries: str | None = None
    incoming: Path | None = None

    @property
    def program(self) -> str:
        """The name of the program that it is, whatever the command begins with."""
        return Path(_program(self.argv)).name


def _program(argv: Argv) -> str:
    """The program that `env` becomes, or `setpriv`, or a shell, which is called after it: sh -c SCRIPT PROGRAM; else
    what begins."""
    if argv[:2] == WITH_ITS_LAB:
        return _program(argv[len(WITH_ITS_LAB) + 1 :])
    if argv[0] == "env":
        begun = tuple(dropwhile(lambda word: "=" in word, argv[1:]))
        return _program(begun) if begun else argv[0]
    return argv[3] if argv[:2] == ("sh", "-c") and len(argv) > 3 else argv[0]
