"""The command line: each verb and the page that its help prints, completion by bash, what a terminal gets."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from latlab.cli import app
from latlab.cli.help import HelpPage, Verbs, page

ROOT: Any = get_command(app)


def verbs() -> dict[tuple[str, ...], Any]:
    """{words after latlab: the command}; none of the command line itself."""
    return dict(_below((), ROOT))


def shown(words: tuple[str, ...]) -> HelpPage:
    return page(verbs()[words], context(words))


def context(words: tuple[str, ...]) -> typer.Context:
    command, found = ROOT, typer.Context(ROOT, info_name="latlab", **ROOT.context_settings)
    for word in words:
        command = command.commands[word]
        found = typer.Context(command, info_name=word, parent=found)
    return found


def parse(line: list[str]) -> None:
    """Nothing. An error of the command line library: there is no such verb or option, or an argument is missing."""
    command, found, words = ROOT, context(()), line
    while isinstance(command, Verbs) and words and not words[0].startswith("-"):
        name, command, words = command.resolve_command(found, words)
        assert command
        found = typer.Context(command, info_name=name, parent=found)
    command.make_context(found.info_name, [word for word in words if word != "--help"], parent=found.parent)


def _below(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield words, command
    if isinstance(command, Verbs):
        for name, verb in command.commands.items():
            yield from _below((*words, name), verb)


LATLAB = Path(sys.executable).with_name("latlab")


def in_bash(*words: str) -> list[str]:
    """What bash has for the last of these words, after latlab."""
    script = (
        f'source <({LATLAB} completion bash); COMP_WORDS=({LATLAB} "$@"); COMP_CWORD=$#; '
        f'_latlab_completion {LATLAB}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script, "bash", *words], check=True, capture_output=True, text=True, timeout=600
    )
    assert done.stderr == ""
    return done.stdout.split()


COLOURED = {"TERM": "xterm-256color"}


def on_terminal(words: list[str], variables: Mapping[str, str]) -> str:
    """What latlab writes to a terminal, to standard output and to standard error."""
    ours, theirs = pty.openpty()
    unset = ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    environment = {name: text for name, text in os.environ.items() if name not in unset} | COLOURED | dict(variables)
    with subprocess.Popen([LATLAB, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        written, until = bytearray(), time.monotonic() + 300
        while time.monotonic() < until:
            if select.select([ours], [], [], 1)[0]:
                try:
                    piece = os.read(ours, 1 << 16)
                except OSError:  # the other end is closed
                    break
                written += piece
        process.wait(timeout=300)
    os.close(ours)
    return written.decode()
