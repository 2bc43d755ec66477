"""Every verb of the command line, with the page that its help prints."""

from __future__ import annotations

from collections.abc import Iterator
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
