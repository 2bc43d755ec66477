"""A change to a host, as the command that does it, its undo and its check; and a process that runs meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from typing import Any

Argv = tuple[str, ...]
Spec = Mapping[str, Any]
"""What latlab's agent gets on its standard input, a JSON object (docs/reference/agent.md)."""


def stripped(output: str) -> str:
    """The output without the white space around it."""
    return output.strip()


def former_value(output: str) -> Mapping[str, str]:
    """`{"before": the stripped output}`: the usual reading of a former value."""
    return {"before": output.strip()}


@dataclass(frozen=True)
class Before:
    """What stood before a step.

    read turns argv's output into names and values; "{name}" in the undo command is replaced by its value.
    """

    argv: Argv
    read: Callable[[str], Mapping[str, str]] = former_value


@dataclass(frozen=True)
class Check:
    """What must be read back after a step.

    read takes the actual value out of argv's output. within_ms is how long it may take to become the expected
    one: 0 means at once. at: the host that is asked, where it is another than the step's. remedy: what to do where it
    is another value, if that is known.
    """

    argv: Argv
    expected: str
    read: Callable[[str], str] = stripped
    within_ms: int = 0
    at: str | None = None
    remedy: str = ""


@dataclass(frozen=True)
class Explain:
    """What is asked where a step's command has failed. read: what to do next, by argv's output whatever its status."""

    argv: Argv
    read: Callable[[str], str]


@dataclass(frozen=True)
class Step:
    """One change to one host.

    do: the command; empty for a step that only checks what must already be so.
    undo: the command that takes it back; None when something else's undo takes it along.
    present: exits 0 only while there is something to undo and it is ours. A step whose present succeeds
    before it was done is refused: what is there already belongs to someone else.
    optional: what cannot be done here is a finding, and the run continues. Its undo must do no harm where nothing was
    done, as a command that fails may have done half.
    lasting: its check is read again at the end. closing: its check is read at the end only.
    about: the host that it is about, where that is another: of one that has ended nothing is read again.
    rescue: a folder there and one here: before the undo, the files of the first are copied to the second.
    explain: what to ask if the command fails.
    within_s: how long the command may take, on a machine of usual speed.
    """

    host: str
    title: str
    do: Argv
    undo: Argv | None = None
    present: Argv | None = None
    before: Before | None = None
    check: Check | None = None
    optional: bool = False
    lasting: bool = False
    closing: bool = False
    about: str | None = None
    rescue: tuple[str, str] | None = None
    explain: Explain | None = None
    within_s: float = 30


@dataclass(frozen=True)
class StepResult:
    """What became of a step, as cell.json's `steps` has it. expected and actual are None without a check.

    why: what came back from an optional step that could not be done, or from a lasting one that did not last.
    """

    host: str
    title: str
    command: str
    seconds: float
    expected: str | None
    actual: str | None
    ok: bool
    why: str | None = None


IS_OWN = 'test -d "$0" && test ! -L "$0" && test -O "$0"'


def own_folder(host: str, title: str, folder: str, rescue: tuple[str, str] | None = None) -> Step:
    """Make a folder that only its user may enter, where others may make files, too, as in /var/tmp.

    `mkdir` fails where there is anything of that name: another user's folder, or a link of his, is not written through,
    and not removed. What is made in it is not shared either.
    """
    is_own = ("sh", "-c", IS_OWN, folder)
    return Step(host, title, ("mkdir", "-m", "700", folder), undo=("rm", "-r", folder), present=is_own, rescue=rescue)


def fill(argv: Argv, values: Mapping[str, str]) -> Argv:
    """argv with each "{name}" replaced by its value; other braces stay as they are."""
    filled = []
    for argument in argv:
        for name, value in values.items():
            argument = argument.replace("{" + name + "}", value)
        filled.append(argument)
    return tuple(filled)


# A process that must run while the test bed stands: a guest's QEMU, a daemon of a bridge, our own bridge.


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
